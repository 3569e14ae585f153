"""Drivers as people see them: the rows of `kubectl gpu driver`, and one of them with its nodes. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names, reasons
from controllers.api.conditions import find as condition
from controllers.api.record import to_json
from controllers.domain.wording import listed
from controllers.explain import rollout
from controllers.explain.cures import UNLISTED, cure
from controllers.explain.explanation import Explanation, Finding
from controllers.explain.explanation import as_json as explanation_as_json
from controllers.explain.lists import SYMBOL_NONE
from controllers.explain.table import Cell, Column
from controllers.explain.words import counted, since

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.explain.explanation import Level
    from controllers.explain.lists import Row

DRIVERS: Final = (
    Column("DRIVER"),
    Column("VERSION"),
    Column("MODE"),
    Column("NODES"),
    Column("CURRENT"),
    Column("BUSY"),
    Column("BLOCKED"),
    Column("FAILED"),
    Column("STATE"),
    Column("FLAVOUR", wide=True),
    Column("REVISION", wide=True),
    Column("PRIORITY", wide=True),
    Column("OVERLAPS", wide=True),
    Column("AGE"),
)
NODES: Final = (
    Column("NODE"),
    Column("PHASE"),
    Column("WAVE", wide=True),
    Column("SINCE"),
    Column("REASON"),
    Column("MESSAGE"),
)
COUNTS: Final = ("nodes", "current", "busy", "blocked", "failed")
TONES: Final = {
    "Ready": "green",
    "Installing": "yellow",
    "Rolling": "yellow",
    "Soaking": "yellow",
    "Paused": "yellow",
    "Blocked": "red",
    "Failed": "red",
    "Halted": "red",
}
QUIET: Final = ("Current", "Host", "OptedOut")
"""Phases of nodes that nobody has to look at."""
UNTOUCHED: Final = (*QUIET, "Outdated")
"""Phases of nodes that serve and to which nothing is done; why they wait is told once for all."""
BAD: Final = ("Blocked", "Failed", "Broken", "RolledBack")
TROUBLES: Final = ("Blocked", "Failed", "Halted", "SettingsInvalid")
NOTES: Final = ("Overlaps", "NextKernelUnserved")


@dataclass(frozen=True, slots=True)
class Placed:
    """A node of a driver."""

    name: str
    phase: str
    reason: str | None
    since: str | None
    message: str
    """What its `driverWork` says; empty where that is not there or not read."""
    wave: int | None = None
    """In which wave it was begun, 0 being the canary; None where it was begun in none, or that is not read."""
    stratum: str = ""
    """Its kind; empty likewise."""


def driver_row(found: GPUDriver, now: float) -> Row:
    """A driver with its nodes by how far they are."""
    status = found.status
    overlaps = condition(status.conditions, "Overlaps")
    word = status.state or SYMBOL_NONE
    return (
        Cell(found.name),
        Cell(found.spec.version),
        Cell(found.spec.mode),
        *(Cell(str(getattr(status.counts, count)) if status.counts else SYMBOL_NONE) for count in COUNTS),
        Cell(word, TONES.get(word.partition(" ")[0], "")),
        Cell(found.spec.flavour),
        Cell(status.target or SYMBOL_NONE),
        Cell(str(found.spec.priority)),
        Cell(overlaps.reason if overlaps is not None and overlaps.status == "True" else SYMBOL_NONE),
        Cell(since(found.metadata.creation_timestamp, now)),
    )


def placed(found: GPUDriver, works: Mapping[str, DriverWork]) -> list[Placed]:
    """The nodes that its status lists, those in trouble first; `works`: what is done to each, by its name."""
    return [
        Placed(
            one.name,
            one.phase,
            one.reason,
            one.since,
            (work.message or "") if work else "",
            work.wave if work else None,
            (work.stratum or "") if work else "",
        )
        for one in found.status.nodes
        for work in (works.get(one.name),)
    ]


def node_row(one: Placed, now: float) -> Row:
    """A node of a driver."""
    wave = SYMBOL_NONE if one.wave is None else "canary" if one.wave == 0 else str(one.wave)
    return (
        Cell(one.name),
        Cell(one.phase, "red" if one.phase in BAD else "green" if one.phase in QUIET else "yellow"),
        Cell(wave),
        Cell(since(one.since, now) if one.since else SYMBOL_NONE),
        Cell(one.reason or SYMBOL_NONE),
        Cell(one.message or SYMBOL_NONE),
    )


def explained(found: GPUDriver, nodes: list[Placed], now: float, unread: tuple[str, ...] = ()) -> Explanation:
    """How far the driver is, then what is wrong, each with its cure, and who waits for whom."""
    counts = found.status.counts
    name = f"GPUDriver {found.name}"
    if counts is None:
        verdict = f"{name} has not been looked at yet: is setting driver.enabled on?"
    elif not counts.nodes:
        verdict = f"{name} has no node"
    else:
        served = counts.current + counts.host
        verdict = f"{name}, version {found.spec.version}: {served} of {counted(counts.nodes, 'node')} as asked for"
    said = (*_findings(found), *rollout.about(found, now), *_cures(found, nodes))
    return Explanation("GPUDriver", found.name, verdict, said, unread)


def _findings(found: GPUDriver) -> Iterator[Finding]:
    """What its conditions say."""
    ready = condition(found.status.conditions, "Ready")
    if ready is not None:
        level: Level = "good" if ready.status == "True" else "note"
        yield Finding(level, f"{ready.reason}: {ready.message}")
    for kinds, level in ((TROUBLES, "bad"), (NOTES, "warning")):
        for kind in kinds:
            one = condition(found.status.conditions, kind)
            if one is not None and one.status == "True":
                yield Finding(level, f"{kind} ({one.reason}): {one.message}", cure("driver", one, driver=found.name))
    if revisions := found.status.revisions:
        told = listed(f"{one.hash} ({one.version}) {one.result}" for one in revisions)
        yield Finding("note", f"Revisions, the newest first: {told}")


def _cures(found: GPUDriver, nodes: list[Placed]) -> Iterator[Finding]:
    """Of each reason of a node that no condition has said, what to do; the first node stands for all."""
    said = {one.reason for one in found.status.conditions if one.status == "True"}
    for reason in dict.fromkeys(one.reason for one in nodes if one.reason and one.phase not in QUIET):
        if reason in said:
            continue
        those = [one for one in nodes if one.reason == reason]
        row = reasons.of_driver_work(reason)
        do = row.spoken(driver=found.name, node=those[0].name) if row is not None else UNLISTED
        text = f"{reason} on {counted(len(those), 'node')} ({listed(one.name for one in those)})"
        yield Finding("note", text + rollout.whom(reason, nodes), do)


def as_json(found: GPUDriver, made: Explanation, nodes: list[Placed]) -> dict[str, Any]:
    """The same for programs."""
    strata = [to_json(one) for one in found.status.strata]
    return explanation_as_json(made) | {
        "state": found.status.state,
        "paused": found.spec.rollout.paused or found.metadata.annotations.get(names.PAUSE) or False,
        "eta": found.status.eta,
        "gpuHours": rollout.gpu_hours(found),
        "strata": strata,
        "nodes": [asdict(one) for one in nodes],
    }
