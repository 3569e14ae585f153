"""When a validator's container is to be restarted, so that NVML shows it new MIG instances. Pure.

A container has the device nodes of the moment when it was made, and NVML shows it no instance whose nodes it lacks.
The driver names them (`DeviceFileMinor` of the instances' access files), so the container sees what it lacks, and ends:
kubelet makes it anew, with the nodes of that moment.

Once for the same want. What it ended for is in the report, by a mark, so a container that was made anew in vain stays:
kubelet's pauses between restarts grow. Where devices come from a CDI specification, it waits until that lists them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import validation
from nodeagent.validate.checks.devices import CONTROL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.validate.checks.facts import Facts

_NUMBER = re.compile(r"[0-9]{1,7}")


def with_reported_access(facts: Facts, elements: Mapping[str, str]) -> Facts:
    """The facts with what role `driver` of the node tells of access files, where this container sees a copy alone."""
    if facts.access is not None:
        return facts
    there = validation.of_role(elements, validation.DRIVER)
    about = ((validation.BOOT_ID, facts.boot_id), (validation.VERSION, facts.version))
    if any(there.get(validation.key(validation.DRIVER, name), "") != value for name, value in about):
        return facts
    named = there.get(validation.key(validation.DRIVER, validation.ACCESS), "").split(",")
    return replace(facts, access=frozenset(int(one) for one in named if _NUMBER.fullmatch(one)))


def lacking(facts: Facts) -> frozenset[int]:
    """Minors of access files of instances that the driver has, and this container has not."""
    if facts.module is None or CONTROL not in (facts.nodes or {}):
        return frozenset()  # it got no devices at all, which is another trouble
    return (facts.access or frozenset()) - facts.caps


def mark(facts: Facts) -> str:
    """Names what is lacking, where a container that is made now may have it; empty where it ends for nothing."""
    lacks = lacking(facts)
    listed = facts.specification.access if facts.by_cdi and facts.specification is not None else None
    if not lacks or (listed is not None and not lacks <= listed):
        return ""
    load = facts.module.load if facts.module is not None else ""
    words = (facts.boot_id, load, "listed" if listed is not None else "", *map(str, sorted(lacks)))
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]
