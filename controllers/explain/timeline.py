"""The time line of a card: who had it, and when something was the matter with it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api.conditions import CONFIGURED, FAULTED
from controllers.domain.clock import seconds
from controllers.explain.table import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.explain.lists import Row

COLUMNS: Final = (
    Column("FROM"),
    Column("TO"),
    Column("WHAT"),
    Column("POD"),
    Column("POOL"),
    Column("MESSAGE", wide=True),
)
NOW: Final = "now"
NOT_KNOWN: Final = "?"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a pod that has or had the card, or a fault or another condition."""

    what: str
    """`Serving` or how it ended, of a pod; else the condition with its reason, such as `Faulted (CriticalXid)`."""
    since: str | None
    """When it began; None where that is not known."""
    until: str | None = None
    """When it ended; of what lasts None."""
    pods: tuple[str, ...] = ()
    """As `namespace/pod`: who has or had it, or who had the card when this began."""
    pool: str = ""
    message: str = ""
    is_tenancy: bool = False

    def covers(self, moment: float) -> bool:
        """Whether this pod had the card then."""
        begun, ended = _moment(self.since), _moment(self.until)
        return self.is_tenancy and begun is not None and begun <= moment and (ended is None or moment <= ended)


def entries(device: GPUDevice, started: Mapping[str, str]) -> list[Entry]:
    """All that is known, the oldest first. `started`: when kubelet began with the pods that have it, by uid."""
    tenancies = [*_ended(device), *_serving(device, started)]
    found = [*tenancies, *(_with_pods(each, tenancies) for each in _conditions(device))]
    return sorted(found, key=lambda each: (_moment(each.since) or _moment(each.until) or math.inf, each.what))


def _ended(device: GPUDevice) -> Iterable[Entry]:
    for each in device.status.history:
        pods = (f"{each.namespace}/{each.pod}",)
        yield Entry(each.ended, each.since, each.until, pods, each.pool, is_tenancy=True)


def _serving(device: GPUDevice, started: Mapping[str, str]) -> Iterable[Entry]:
    home = device.status.pool_ref.name if device.status.pool_ref is not None else ""
    for each in {taken.pod_uid: taken for taken in device.status.allocations}.values():
        pods = (f"{each.namespace}/{each.pod}",)
        yield Entry("Serving", started.get(each.pod_uid), None, pods, home, is_tenancy=True)


def _conditions(device: GPUDevice) -> Iterable[Entry]:
    """What is the matter with the card, and when its last fault ended; other conditions do not tell that they ended."""
    for each in device.status.conditions:
        moment = each.last_transition_time
        if each.type == CONFIGURED:
            continue  # of the module's own work
        if each.status == "True":
            yield Entry(f"{each.type} ({each.reason})", moment, message=each.message)
        elif each.type == FAULTED and device.status.fault_end is not None:
            yield Entry(f"{FAULTED} ended ({device.status.fault_end})", moment, moment, message=each.message)


def _with_pods(happened: Entry, tenancies: Iterable[Entry]) -> Entry:
    moment = _moment(happened.since)
    if moment is None:
        return happened
    had = [each for each in tenancies if each.covers(moment)]
    pods = tuple(dict.fromkeys(pod for each in had for pod in each.pods))
    pools = dict.fromkeys(each.pool for each in had)
    return Entry(happened.what, happened.since, happened.until, pods, ", ".join(pools), happened.message)


def row(entry: Entry) -> Row:
    """A line of the table; a moment has no end."""
    tone = "" if entry.is_tenancy else "note" if entry.until is not None else "bad"
    until = "" if entry.until is not None and entry.until == entry.since else entry.until or NOW
    cells = (entry.since or NOT_KNOWN, until, entry.what, ", ".join(entry.pods), entry.pool, entry.message)
    return tuple(Cell(text, tone if at == COLUMNS.index(Column("WHAT")) else "") for at, text in enumerate(cells))


def as_json(device: GPUDevice, found: Iterable[Entry]) -> dict[str, Any]:
    """The same for a program."""
    return {"card": device.name, "timeline": [_entry(each) for each in found]}


def _entry(entry: Entry) -> dict[str, Any]:
    kind = "Tenancy" if entry.is_tenancy else "Condition"
    made = {"kind": kind, "what": entry.what, "since": entry.since, "until": entry.until}
    return made | {"pods": list(entry.pods), "pool": entry.pool or None, "message": entry.message or None}


def _moment(stamp: str | None) -> float | None:
    try:
        return seconds(stamp) if stamp else None
    except ValueError:
        return None
