"""Writes of `driverWork`: one conditional patch for each step of a node. Pure.

A merge patch on the version that was read, and not an apply: the step that takes a permit must fail where anything was
written since it was decided.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.driver_work import DriverWork, LastDriverWork, counts
from controllers.api.record import json_name, to_json
from controllers.api.resources import GPUNODEINVENTORY
from controllers.domain.clock import begun, stamp
from controllers.domain.driver.states import limit_of
from controllers.domain.driver.variant import revision_of
from controllers.runtime.plan import Merge, ref

if TYPE_CHECKING:
    from controllers.api.driver_work import Phase
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node

ALIASES: Final = {"from_": "from", "node_uid": "nodeUID", "boot_id": "bootID"}


def _keys(record: type[Any]) -> frozenset[str]:
    return frozenset(ALIASES.get(one.name) or json_name(one.name) for one in fields(record))


WORK_KEYS: Final = _keys(DriverWork)
LAST_KEYS: Final = _keys(LastDriverWork)


def write_work(inventory: GPUNodeInventory, work: DriverWork | None, last: LastDriverWork | None = None) -> Merge:
    """The write of a node's work, or its end; `last`, where given, says how that ended."""
    status: dict[str, Any] = {"driverWork": _whole(work, WORK_KEYS)}
    if last is not None:
        status["lastDriverWork"] = _whole(last, LAST_KEYS)
    return Merge(
        ref(GPUNODEINVENTORY, inventory), inventory.metadata.resource_version, {"status": status}, subresource="status"
    )


def _whole(value: DriverWork | LastDriverWork | None, keys: frozenset[str]) -> dict[str, Any] | None:
    """The value with null for each field that it does not have, so that none of an older one stays."""
    return dict.fromkeys(keys) | to_json(value) if value is not None else None


def step(
    before: DriverWork | None,
    phase: Phase,
    now: float,
    *,
    driver: str,
    node: Node,
    to: str | None,
    compiled: bool = True,
    attempt: int = 1,
    reason: str | None = None,
    message: str | None = None,
    retry_in: float | None = None,
    stratum: str | None = None,
    missing: tuple[str, ...] = (),
    awaits_image: bool = False,
) -> DriverWork:
    """The node's work as it enters a phase: the phase's limit begins, and what came before is kept."""
    limit = limit_of(phase, compiled=compiled)
    continued = before if before is not None and before.driver == driver else None
    return DriverWork(
        driver=driver,
        from_=label if (label := node.metadata.labels.get(names.DRIVER_VARIANT)) != to else None,
        to=to,
        phase=phase,
        reason=reason,
        message=message[:1024] if message is not None else None,
        attempt=attempt,
        since=stamp(now),
        begun=(continued.begun if continued is not None else None) or stamp(now),
        deadline=stamp(now + limit) if limit is not None else None,
        retry_at=stamp(now + retry_in) if retry_in is not None else None,
        missing=missing,
        awaits_image=awaits_image,
        stratum=stratum or None,
        node_uid=node.metadata.uid,
        boot_id=node.status.node_info.boot_id or None,
    )


def last_of(node: Node | None, inventory: GPUNodeInventory | None) -> LastDriverWork | None:
    """How the last work on this very node ended; what another machine of its name did does not count."""
    last = inventory.status.last_driver_work if inventory is not None else None
    if last is None or node is None or last.node_uid not in (None, node.metadata.uid):
        return None
    return last


def has_failed_for(last: LastDriverWork | None, driver: str, revision: str, since: str | None) -> bool:
    """Whether the revision failed on the node for that GPUDriver when it was last at work, and that counts.

    `since`: as of `counts`. What failed for another GPUDriver, of an equal spec even, this one may try again.
    """
    if last is None or (last.driver, last.revision) != (driver, revision):
        return False
    return last.has_failed and counts(last.at, since)


def ended(work: DriverWork, now: float, *, good: bool) -> LastDriverWork:
    """How the work ended; of a node that got its former driver back, how it went with the revision that failed."""
    return LastDriverWork(
        driver=work.driver,
        revision=work.undoes or revision_of(work.to or ""),
        at=stamp(now),
        took=int(now - begun(work.begun or work.since, now)),
        gpu_seconds=work.gpu_seconds,
        out_seconds=work.out_seconds,
        result="Good" if good else "RolledBack" if work.undoes is not None else "Failed",
        wave=work.wave,
        reason=None if good else work.reason,
        fault=None if good else work.fault,
        stratum=work.stratum,
        node_uid=work.node_uid,
    )


def unproved(work: DriverWork, now: float) -> LastDriverWork:
    """The end of a work whose soak is broken off: what it would have shown of the revision nobody knows."""
    return replace(ended(work, now, good=False), result="Unproved", reason=None, fault=None)


def finished(work: DriverWork, before: LastDriverWork | None, now: float) -> LastDriverWork:
    """The end of the work of a node that got its driver as a bare one does, and serves.

    `before`: how its last work ended. Where that was a roll-out's start with this revision, which it has not stood, it
    proves nothing by being begun anew.
    """
    made = ended(work, now, good=True)
    if before is None or before.revision != made.revision or before.wave is None or before.result == "Good":
        return made
    return replace(made, result="Unproved", wave=before.wave)


def is_shown(last: LastDriverWork | None, revision: str, *, is_good: bool) -> bool:
    """Whether a node that serves with a revision needs show no more of it: its last work ended well, or it has none.

    Where that was about another revision, `is_good` decides: what is known of this one on its kind of node.
    """
    if last is None:
        return True  # the record went with an uninstallation, or is not in a backup: a whole fleet would be canaries
    return last.result == "Good" if last.revision == revision else is_good
