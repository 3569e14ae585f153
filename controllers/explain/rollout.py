"""A driver's roll-out as people see it: kinds of nodes with their waves, who waits for whom, and how long. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.clock import seconds
from controllers.domain.driver.node_work import PLANNED
from controllers.domain.driver.pause import paused_until
from controllers.domain.driver.waves import wave_word
from controllers.domain.wording import listed
from controllers.explain.explanation import Finding
from controllers.explain.lists import SYMBOL_NONE
from controllers.explain.table import Cell, Column
from controllers.explain.words import HOUR, since, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controllers.api.gpudriver import GPUDriver, StratumStatus
    from controllers.explain.driver import Placed
    from controllers.explain.lists import Row

STRATA: Final = (
    Column("KIND"),
    Column("NODES"),
    Column("WAVE"),
    Column("STARTED"),
    Column("FINISHED"),
    Column("RESULT"),
    Column("UNDER WAY"),
)
AWAY: Final = PLANNED | {"RollingBack"}
"""Phases of nodes that are out of service for the driver's sake."""
TRYING: Final = (PLANNED - {"HandedOver"}) | {"Soaking"}
"""Phases of nodes by which it is seen what the revision does."""
BY_BUDGET: Final = ("BudgetReached", "PoolBudgetReached", "AwaitingSlot", "GPUHoursSpent")
BY_PROOF: Final = ("AwaitingWave", "AwaitingProof")
RESULTS: Final = {"Good": "green", "Bad": "red"}


def wave_of(found: GPUDriver, one: StratumStatus) -> str:
    """Where nodes of a kind are: the canary, a wave of how many, or done; a dash where nothing is in waves."""
    if one.wave is not None:
        return wave_word(one.wave, found.spec.rollout)
    return "done" if one.nodes and one.finished >= one.nodes else SYMBOL_NONE


def stratum_row(found: GPUDriver, one: StratumStatus, nodes: Sequence[Placed], now: float) -> Row:
    """A kind of node with its wave, and those of its nodes that are under way."""
    working = [node for node in nodes if node.stratum == one.key and (node.phase in AWAY or node.phase == "Soaking")]
    told = listed(f"{node.name} ({node.phase}{_age(node, now)})" for node in working)
    return (
        Cell(one.key),
        Cell(str(one.nodes)),
        Cell(wave_of(found, one)),
        Cell(str(one.started)),
        Cell(str(one.finished)),
        Cell(one.result, RESULTS.get(one.result, "")),
        Cell(told or SYMBOL_NONE),
    )


def _age(node: Placed, now: float) -> str:
    return f" {since(node.since, now)}" if node.since else ""


def whom(reason: str, nodes: Sequence[Placed]) -> str:
    """For which nodes those wait that are kept by a reason, with what these are at; empty where it is no node."""
    phases = AWAY if reason in BY_BUDGET else TRYING if reason in BY_PROOF else frozenset()
    told = listed(f"{node.name} in {node.phase}" for node in nodes if node.phase in phases)
    return f"; it waits for {told}" if told else ""


def about(found: GPUDriver, now: float) -> Iterator[Finding]:
    """Whether a person has it paused, what it has cost, and when it is done."""
    end = paused_until(found.metadata.annotations, now)
    if found.spec.rollout.paused:
        yield Finding("warning", "spec.rollout.paused is true: no node is begun", "set it to false")
    if end is not None:
        until = found.metadata.annotations[names.PAUSE]
        yield Finding(
            "warning", f"it is paused until {until}, in {span(end - now)}", f"kubectl gpu driver resume {found.name}"
        )
    if hours := gpu_hours(found):
        yield Finding("note", f"cards have been out of service for {hours:g} GPU hours in the last 24 hours")
    if found.status.eta is not None and (left := _left(found.status.eta, now)) is not None:
        yield Finding("note", f"all nodes will have it by {found.status.eta}, in {left}, as far as can be said")


def gpu_hours(found: GPUDriver) -> float:
    """Cards times hours out of service in works that ended in the last 24 hours."""
    return round(sum(one.gpu_seconds for one in found.status.spent) / HOUR, 1)


def _left(eta: str, now: float) -> str | None:
    try:
        left = seconds(eta) - now
    except ValueError:
        return None
    return span(left) if left > 0 else None
