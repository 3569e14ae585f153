"""The writes of a roll-out on a node: it is looked at, waits for its turn, is taken out of service. Pure.

Each is one conditional write of `driverWork`: the last of them is what takes the permit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api.driver_work import DriverWork
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import revision_of
from controllers.driver.node.hand_over import asked_by
from controllers.driver.node.health import baseline
from controllers.driver.node.moves import take_out
from controllers.driver.node.work import step, unproved, write_work
from controllers.driver.rollout.counts import stratum_of

if TYPE_CHECKING:
    from controllers.api.driver_work import LastDriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.driver.rollout.observed import Candidate
    from controllers.driver.rollout.turns import Turn
    from controllers.runtime.plan import Merge


def begin(turn: Turn, driver: GPUDriver, wave: int, now: float) -> Merge | None:
    """The node's first step; None where there is nothing to begin it with."""
    one = turn.candidate
    if turn.kind == "HandOver":
        made: DriverWork | None = _hand_over(one, driver, now)
    elif turn.kind == "Undo":
        made = _undo(one, driver, now)
    else:
        made = _look(one, driver, wave, now)
    return write_work(one.facts.inventory, made, _broken_off(one, now)) if made is not None else None


def _broken_off(one: Candidate, now: float) -> LastDriverWork | None:
    """How the work of a node ends that goes back amid its soak; None for every other one."""
    work = one.facts.work
    return unproved(work, now) if work is not None and work.phase == "Soaking" else None


def start(turn: Turn, wave: int, now: float) -> Merge | None:
    """The node is taken out of service: whoever writes this has the permit."""
    work, facts = turn.candidate.facts.work, turn.candidate.facts
    if work is None:
        return None
    made = take_out(work, now, baseline(facts.devices))
    return write_work(facts.inventory, replace(made, wave=wave) if turn.kind == "Roll" else made)


def _look(one: Candidate, driver: GPUDriver, wave: int, now: float) -> DriverWork | None:
    work, target = one.facts.work, one.choice
    if not isinstance(target, Install):
        return None
    made = step(
        None,
        "Preflight",
        now,
        driver=driver.name,
        node=one.facts.node,
        to=target.variant.value,
        compiled=target.mode == "Compiled",
        attempt=work.attempt + 1 if work is not None else 1,
        stratum=one.stratum,
        missing=target.missing,
    )
    return replace(made, wave=wave, gpu_seconds=work.gpu_seconds if work is not None else 0)


def _undo(one: Candidate, driver: GPUDriver, now: float) -> DriverWork | None:
    """The node serves with a driver that is bad on its kind, and gets the former one back without a look."""
    work, last, label = one.facts.work, one.facts.last, one.facts.label
    if one.back is None or label is None:
        return None
    made = step(
        None, "Queued", now, driver=driver.name, node=one.facts.node, to=one.back.variant.value, stratum=stratum_of(one)
    )
    wave = work.wave if work is not None else last.wave if last is not None else None
    return replace(made, undoes=revision_of(label), wave=wave or 0)


def _hand_over(one: Candidate, driver: GPUDriver, now: float) -> DriverWork:
    """The node keeps its driver's label: only who uses the driver leaves."""
    node, work = one.facts.node, one.facts.work
    attempt = work.attempt + 1 if work is not None and work.hand_over is not None else 1
    made = step(None, "Queued", now, driver=driver.name, node=node, to=one.facts.label, attempt=attempt)
    return replace(made, hand_over=asked_by(node))
