"""A verdict is a function of what was sampled and recorded: it can be replayed, over restarts too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.conditions import FAULTED, condition
from controllers.bootstrap.health.evaluate import CardEvaluation, evaluate
from controllers.bootstrap.health.ingest import ingest
from controllers.bootstrap.health.limits import Limits
from controllers.bootstrap.health.status_update import health_status, health_to_write
from controllers.bootstrap.records import CardStatus
from tests.bootstrap.world import WELL, recall_from

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from controllers.bootstrap.health.dcgm_parser import CardSample

LIMITS = Limits()
PERIOD = 15.0


@dataclass(frozen=True)
class Moment:
    """What happens at one moment of a recording."""

    sample: CardSample | None
    """None: the scrape does not name the card."""
    validated: bool = True
    return_asked: bool = False
    excused: bool = False


def write(recorded: CardStatus, made: CardEvaluation, now: float) -> CardStatus:
    """The status after the planner's write."""
    found, conditions = made.verdict.finding, recorded.conditions
    if found is not None:
        said = condition(
            list(conditions), FAULTED, status=found.status, reason=found.reason, message=found.message, now="t"
        )
        conditions = (said,)
    health = health_to_write(recorded.health, health_status(made.state), LIMITS, now) or recorded.health
    fault = made.verdict.fault.kind if made.verdict.fault is not None else None
    return replace(recorded, conditions=conditions, health=health, fault=fault, fault_end=made.verdict.end)


def replay(
    recording: Sequence[Moment], restarts: Collection[int] = (), looks: Collection[int] = ()
) -> list[CardStatus]:
    """The status after each moment; restarts come before one, and `looks` are passes without a new sample after it."""
    now, recorded = 1000.0, CardStatus()
    known = recall_from(recorded, now)
    statuses = []
    for number, moment in enumerate(recording):
        if number in restarts:
            known = recall_from(recorded, now)
        now += PERIOD
        state = known.state if moment.sample is None else ingest(known.state, moment.sample, LIMITS, now)
        for _ in range(1 + (number in looks)):
            known = evaluate(
                state,
                known.verdict,
                LIMITS,
                now,
                validated=moment.validated,
                return_asked=moment.return_asked,
                excused=moment.excused,
            )
            recorded, state = write(recorded, known, now), known.state
        statuses.append(recorded)
    return statuses


def state_of(recorded: CardStatus) -> tuple[str, str] | None:
    return (recorded.conditions[0].status, recorded.conditions[0].reason) if recorded.conditions else None


def bad(**fields: object) -> Moment:
    return Moment(replace(WELL, **fields))  # type: ignore[arg-type]


well = Moment(WELL)
XID = bad(xids=(79,))
ROWS = bad(remap_failed=True)
ACCEPTED = [well, ROWS, replace(ROWS, return_asked=True), *[ROWS] * 3]
RECORDINGS = {
    "accepted rows": (ACCEPTED, ("False", "ReturnedByHand")),
    "accepted rows, then another fault that ends": (
        [*ACCEPTED, *[bad(remap_failed=True, xids=(79,))] * 50],
        ("False", "Recovered"),
    ),
    "accepted rows, then silence": (
        [*ACCEPTED, *[Moment(None)] * 20, *[ROWS] * 3],
        ("False", "ReturnedByHand"),
    ),
    "accepted rows that were in order since": ([*ACCEPTED, well, ROWS], ("True", "RowRemapFailure")),
    "another fault was taken back, not the rows": (
        [well, XID, replace(XID, return_asked=True), bad(remap_failed=True, xids=(79,))],
        ("True", "RowRemapFailure"),
    ),
    "a fault that ends by clean scrapes": ([well, *[bad(xids=(79,))] * 50], ("False", "Recovered")),
    "a fault without a passed validation": (
        [well, *[Moment(replace(WELL, xids=(79,)), validated=False)] * 50],
        ("True", "CriticalXid"),
    ),
    "an error of before the first look": ([*[bad(xids=(79,))] * 5], ("False", "Healthy")),
    "double-bit errors": (
        [well, *[Moment(replace(WELL, ecc_volatile=3), validated=False)] * 3],
        ("True", "DoubleBitEcc"),
    ),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_ends_alike_wherever_the_controller_restarts(name: str) -> None:
    recording, end = RECORDINGS[name]
    assert state_of(replay(recording)[-1]) == end
    for number in range(1, len(recording)):
        # Counts of clean scrapes begin anew, so that a recovery may need as many again; no other verdict differs.
        again = replay([*recording, *[recording[-1]] * LIMITS.recovery_scrapes], {number})
        assert state_of(again[-1]) == end, f"restart before moment {number}"


samples = st.none() | st.builds(
    lambda **fields: replace(WELL, **fields),
    temperature=st.none() | st.integers(30, 110),
    xids=st.none() | st.sampled_from([(), (13,), (48,), (63,), (79,), (95,)]),
    ecc_volatile=st.none() | st.integers(0, 2),
    remap_failed=st.none() | st.booleans(),
    throttle=st.none() | st.sampled_from([0, 0x40]),
)
moments = st.builds(Moment, samples, st.booleans(), st.booleans(), st.booleans())
recordings = st.lists(moments, max_size=60)


@given(recordings)
def test_the_same_recording_gives_the_same_verdicts(recording: list[Moment]) -> None:
    assert replay(recording) == replay(recording)


@given(st.lists(st.builds(Moment, samples, st.booleans()), max_size=60), st.sets(st.integers(0, 60)))
def test_a_pass_without_news_changes_no_verdict(recording: list[Moment], looks: set[int]) -> None:
    assert replay(recording, looks=looks) == replay(recording)


steady = st.builds(
    lambda **fields: replace(WELL, **fields),
    xids=st.sampled_from([(), (13,), (79,), (95,)]),
    ecc_volatile=st.integers(0, 2),
    remap_failed=st.booleans(),
)
"""Samples that name every value and no heat, whose verdicts no count of scrapes delays."""


def of_one_engine(recording: list[Moment]) -> list[Moment]:
    """DCGM's engine keeps the number of the last error: statuses record that one, and not that the engine restarted."""
    last: tuple[int, ...] | None = ()
    made = []
    for moment in recording:
        assert moment.sample is not None
        last = moment.sample.xids or last
        made.append(replace(moment, sample=replace(moment.sample, xids=last)))
    return made


unrecovered = st.lists(st.builds(Moment, steady, st.just(False), st.booleans()), min_size=1, max_size=40)


@given(unrecovered.map(of_one_engine), st.sets(st.integers(1, 40), max_size=5))
def test_a_restart_changes_no_verdict_that_statuses_record(recording: list[Moment], restarts: set[int]) -> None:
    as_it_ran, replayed = replay(recording), replay(recording, restarts)
    assert [state_of(one) for one in replayed] == [state_of(one) for one in as_it_ran]
    assert [(one.fault, one.fault_end) for one in replayed] == [(one.fault, one.fault_end) for one in as_it_ran]
