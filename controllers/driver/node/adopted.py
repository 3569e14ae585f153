"""A driver that another program brought and a person gave over: the node's label says so while its pod is there. Pure.

No DaemonSet is of that label, so nothing starts that pod again but kubelet, and nothing is installed beside it. A
roll-out replaces such a driver as any other, and has its pod evicted where it would have a DaemonSet's pod go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.resources import POD
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import ADOPTED
from controllers.driver.node.draft import reported_version, set_label, take_label
from controllers.runtime.plan import Evict, ref

if TYPE_CHECKING:
    from controllers.driver.node.draft import Draft


NOT_BEGUN: Final = frozenset(("Preflight", "Blocked", "Queued"))
"""Phases in which nothing has been done to a node."""


def keep_adopted(draft: Draft) -> bool:
    """Keep the label of a node to which nothing is done; returns whether that is all that is to be done now."""
    seen, label = draft.observed, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    work = seen.work
    if work is not None and (work.wave is not None or work.phase not in NOT_BEGUN):
        return False
    if label == ADOPTED and seen.adopted is None:
        take_label(draft)  # its pod is gone, or others keep it again: the node is as it would be without the label
        return True
    is_theirs = seen.adopted is not None and label in (None, ADOPTED) and isinstance(seen.choice, Install)
    if is_theirs:
        draft.write(None)  # a node that was Blocked, as others had its driver, is so no more
    if is_theirs and label is None and reported_version(seen):
        set_label(draft, ADOPTED)
    return is_theirs


def evict_adopted(draft: Draft) -> None:
    """Have the adopted driver's pod end, once the node's label says that its driver goes."""
    pod = draft.observed.adopted
    if pod is not None and pod.metadata.deletion_timestamp is None:
        draft.plan.add(Evict(ref(POD, pod)))
