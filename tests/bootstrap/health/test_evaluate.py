"""Cards are faulted for a reason, stay so until it is gone, and come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.conditions import FAULTED, condition
from controllers.api.gpudevice import DeviceHealth
from controllers.bootstrap.health.dcgm_parser import CardSample
from controllers.bootstrap.health.evaluate import REASONS, CardEvaluation, evaluate
from controllers.bootstrap.health.ingest import ingest
from controllers.bootstrap.health.limits import Limits
from controllers.bootstrap.health.recall import recall_state, recall_verdict
from controllers.bootstrap.health.status_update import health_status, health_to_write
from controllers.bootstrap.records import CardStatus

LIMITS = Limits()
WELL = CardSample(
    "GPU-1", None, temperature=50, xids=(), ecc_volatile=0, ecc_aggregate=7, remap_failed=False, throttle=0
)


def recall(recorded, now) -> CardEvaluation:
    return CardEvaluation(recall_state(recorded, now), recall_verdict(recorded))


def step(known: CardEvaluation, sample, limits, now, *, validated=True, **options) -> CardEvaluation:
    """A scrape of the card's node, and the pass of the planner that it wakes."""
    state = known.state if sample is None else ingest(known.state, sample, limits, now)
    return evaluate(state, known.verdict, limits, now, validated=validated, **options)


class Card:
    """A card that is scraped each 15 s, its status as the API server keeps it, and our restarts."""

    def __init__(self, **first) -> None:
        self.now, self.writes = 1000.0, 0
        self.health: Any = None
        self.condition: Any = None
        self.fault: Any = None
        self.end: Any = None
        self.warnings: list[str] = []
        self.known = recall(CardStatus(), self.now)
        self.scrape(replace(WELL, **first))

    def scrape(self, sample=WELL, *, times=1, validated=True, **options):
        for _ in range(times):
            self.now += 15
            made = step(self.known, sample, LIMITS, self.now, validated=validated, **options)
            self.warnings += made.state.warnings
            self.known = replace(made, state=replace(made.state, warnings=()))
            self.write()
        return self

    def write(self):
        found, was = self.known.verdict.finding, self.condition
        if found is not None:
            self.condition = condition(
                [was] if was else [], FAULTED, status=found.status, reason=found.reason, message=found.message, now="t"
            )
        health = health_to_write(self.health, health_status(self.known.state), LIMITS, self.now)
        self.writes += (health is not None) + (self.condition != was)
        self.health = health or self.health
        self.fault, self.end = self.known.verdict.fault, self.known.verdict.end

    @property
    def status(self):
        fault = self.fault.kind if self.fault is not None else None
        conditions = (self.condition,) if self.condition is not None else ()
        return CardStatus(health=self.health, fault=fault, fault_end=self.end, conditions=conditions)

    def restart(self):
        self.known = recall(self.status, self.now)
        return self

    @property
    def state(self):
        return self.condition and (self.condition.status, self.condition.reason)


def seen(**fields):
    return replace(WELL, **fields)


def test_a_healthy_card_is_written_once():
    card = Card().scrape(times=50)
    assert (card.state, card.writes) == (("False", "Healthy"), 2)
    assert card.restart().scrape(times=50).writes == 2


def test_a_new_critical_error_faults_and_says_what_to_do():
    card = Card().scrape(seen(xids=(79,)))
    assert card.state == ("True", "CriticalXid")
    assert "XID 79 (GPU has fallen off the bus): reboot the node" in card.condition.message
    assert card.health.last_xid == 79


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68])
def test_an_error_of_a_program_is_recorded_and_no_more(xid):
    card = Card().scrape(seen(xids=(xid,)), times=5)
    assert (card.state, card.health.last_xid, card.warnings) == (("False", "Healthy"), xid, [])


def test_a_row_that_waits_to_be_remapped_is_told_once_and_faults_nothing():
    card = Card().scrape(seen(remap_pending=False)).scrape(seen(remap_pending=True), times=3)
    assert card.scrape(seen(remap_pending=None)).scrape(seen(remap_pending=True)).state == ("False", "Healthy")
    assert [text[:26] for text in card.warnings] == ["A row waits to be remapped"]
    assert "reset the card" in card.warnings[0]
    card.scrape(seen(remap_pending=False)).scrape(seen(remap_pending=True))
    assert len(card.warnings) == 2


def test_a_warning_is_told_once():
    card = Card().scrape(seen(xids=(63,)), times=5)
    assert card.state == ("False", "Healthy")
    assert [text[:6] for text in card.warnings] == ["XID 63"]
    assert [text[:8] for text in card.scrape(seen(xids=(9999,)), times=5).warnings[1:]] == ["XID 9999"]


def test_an_error_from_before_our_first_look_is_old():
    card = Card(xids=(79,)).scrape(seen(xids=(79,)), times=5)
    assert (card.state, card.health.last_xid) == (("False", "Healthy"), 79)
    assert card.scrape(seen(xids=(95,))).state == ("True", "CriticalXid")


def test_after_a_restart_the_recorded_error_tells_what_is_new():
    card = Card(xids=(79,)).restart().scrape(seen(xids=(79,)))
    assert card.state == ("False", "Healthy")
    assert card.restart().scrape(seen(xids=(95,))).state == ("True", "CriticalXid")
    assert Card().restart().scrape(seen(xids=(79,))).state == ("True", "CriticalXid")


@pytest.mark.parametrize("xid", [74, *range(144, 152), 158, 167, 169])
def test_a_broken_link_takes_its_card_out_whatever_its_generation(xid):
    assert Card().scrape(seen(xids=(xid,))).state == ("True", "CriticalXid")


def test_the_same_error_is_news_after_the_engine_was_started_again():
    """Newer exporters then show no number, which is what a reboot of the node, the usual cure, comes to."""
    card = Card(xids=None).scrape(seen(xids=(119,)))
    assert card.state == ("True", "CriticalXid")
    assert card.scrape(seen(xids=(119,)), times=30).state == ("False", "Recovered")
    assert card.scrape(seen(xids=None)).restart().scrape(seen(xids=None)).state == ("False", "Recovered")
    assert card.scrape(seen(xids=(119,))).state == ("True", "CriticalXid")


def test_an_answer_without_a_cards_values_says_nothing_of_its_errors():
    card = Card(xids=(79,)).scrape(CardSample("GPU-1", None))
    assert card.scrape(seen(xids=(79,)), times=3).condition.status != "True"
    first = Card(temperature=None, xids=None, ecc_volatile=None, ecc_aggregate=None, remap_failed=None, throttle=None)
    assert first.scrape(seen(xids=(79,)), times=3).condition.status != "True"  # it was there when we first looked


def test_the_gauge_beginning_anew_makes_the_same_error_news():
    card = Card(xids=(79,)).scrape(seen(xids=()))
    assert card.scrape(seen(xids=None)).scrape(seen(xids=())).state == ("False", "Healthy")
    assert card.scrape(seen(xids=(79,))).state == ("True", "CriticalXid")


def test_settings_go_before_the_table():
    ignoring, strict = replace(LIMITS, ignored_xids=frozenset({79})), replace(LIMITS, critical_xids=frozenset({13, 79}))
    both = replace(strict, ignored_xids=frozenset({13, 79}))
    known = Card().known
    for limits, xid, status in ((ignoring, 79, False), (strict, 13, True), (both, 79, True)):
        made = step(known, seen(xids=(xid,)), limits, 2000)
        assert made.verdict.finding.status is status


@pytest.mark.parametrize("field", ["ecc_volatile", "ecc_aggregate"])
def test_a_rising_count_of_double_bit_errors_faults(field):
    card = Card(**{field: 3})
    assert card.scrape(seen(**{field: 3})).state == ("False", "Healthy")
    assert card.scrape(seen(**{field: 4})).state == ("True", "DoubleBitEcc")


def test_a_counter_that_began_anew_faults_only_if_it_counts():
    assert Card(ecc_volatile=5).scrape(seen(ecc_volatile=0)).state == ("False", "Healthy")
    assert Card(ecc_volatile=5).scrape(seen(ecc_volatile=1)).state == ("True", "DoubleBitEcc")


def test_errors_while_we_were_away_are_seen():
    card = Card(ecc_volatile=2).restart()
    assert card.scrape(seen(ecc_volatile=2)).state == ("False", "Healthy")
    assert card.restart().scrape(seen(ecc_volatile=3)).state == ("True", "DoubleBitEcc")


def test_heat_faults_after_three_scrapes_and_ends_below_the_lower_border():
    card = Card().scrape(seen(temperature=95), times=2)
    assert card.state == ("False", "Healthy")
    assert card.scrape(seen(temperature=94)).scrape(seen(temperature=99), times=2).state == ("False", "Healthy")
    assert card.scrape(seen(temperature=99)).state == ("True", "Overheated")
    card.scrape(seen(temperature=85), times=100)
    assert card.state == ("True", "Overheated")
    card.scrape(seen(temperature=84), times=19)
    assert card.state == ("True", "Overheated")
    assert card.scrape(seen(temperature=84)).state == ("False", "Recovered")


def test_it_returns_after_twenty_clean_scrapes_and_a_passed_validation():
    card = Card().scrape(seen(xids=(79,))).scrape(seen(xids=(79,)), times=200, validated=False)
    assert card.state == ("True", "CriticalXid")
    assert card.scrape(seen(xids=(79,))).state == ("False", "Recovered")
    writes = card.writes
    assert card.scrape(seen(xids=(79,)), times=30).restart().scrape(seen(xids=(79,)), times=30).writes == writes


def test_trouble_begins_the_count_anew():
    card = Card().scrape(seen(xids=(79,))).scrape(seen(xids=(79,)), times=19)
    card.scrape(seen(xids=(95,))).scrape(seen(xids=(95,)), times=19)
    assert card.state == ("True", "CriticalXid")
    assert "XID 95" in card.condition.message
    assert card.scrape(seen(xids=(95,))).state == ("False", "Recovered")


def test_a_person_returns_it_at_once():
    card = Card().scrape(seen(xids=(79,))).scrape(seen(xids=(79,)), return_asked=True, validated=False)
    assert card.state == ("False", "ReturnedByHand")
    assert card.scrape(seen(xids=(79,)), times=10).restart().scrape(seen(xids=(79,))).state[0] == "False"
    silent = step(Card().scrape(seen(xids=(79,))).known, None, LIMITS, 1100, validated=False, return_asked=True)
    assert silent.verdict.finding.reason == "ReturnedByHand"
    assert step(Card().known, WELL, LIMITS, 1100, return_asked=True).verdict.end is None


def test_rows_that_cannot_be_remapped_keep_it_out_until_a_person_accepts_that():
    broken = seen(remap_failed=True)
    card = Card().scrape(broken, times=100)
    assert card.state == ("True", "RowRemapFailure")
    card.scrape(broken, return_asked=True).scrape(broken, times=50)
    assert card.state == ("False", "ReturnedByHand")
    assert card.restart().scrape(broken, times=50).state == ("False", "ReturnedByHand")
    card.scrape(None, times=20).scrape(broken)
    assert card.restart().scrape(broken).state == ("False", "ReturnedByHand")
    assert card.scrape(WELL).scrape(broken).state == ("True", "RowRemapFailure")


def test_rows_that_a_person_accepted_stay_accepted_after_another_fault_and_a_restart():
    broken = seen(remap_failed=True)
    card = Card().scrape(broken).scrape(broken, return_asked=True)
    card.scrape(seen(remap_failed=True, xids=(79,)))
    assert card.state == ("True", "CriticalXid")
    card.scrape(seen(remap_failed=True, xids=(79,)), times=LIMITS.recovery_scrapes)
    assert card.state == ("False", "Recovered")
    assert card.restart().scrape(seen(remap_failed=True, xids=(79,)), times=50).state == ("False", "Recovered")


def test_a_return_after_another_fault_accepts_no_rows_also_after_a_restart():
    card = Card().scrape(seen(xids=(79,))).scrape(seen(xids=(79,)), return_asked=True).restart()
    assert card.scrape(seen(xids=(79,), remap_failed=True)).state == ("True", "RowRemapFailure")


def test_rows_that_were_accepted_before_a_version_that_records_it_stay_accepted():
    broken = seen(remap_failed=True)
    card = Card().scrape(broken).scrape(broken, return_asked=True)
    card.health = replace(card.health, row_remap_failure_accepted=None)
    assert card.restart().scrape(broken).state == ("False", "ReturnedByHand")
    assert card.health.row_remap_failure_accepted is True


def test_rows_are_accepted_also_where_no_sample_has_come():
    card = Card().scrape(seen(remap_failed=True))
    card.health = None
    card.restart().scrape(None, return_asked=True)
    assert card.health.row_remap_failure_accepted is True


def test_silence_says_nothing_for_two_minutes_and_then_that_nothing_is_known():
    card = Card().scrape(None, times=7)
    assert card.state == ("False", "Healthy")
    assert card.scrape(None).state == ("Unknown", "NoTelemetry")
    writes = card.writes
    assert card.scrape(None, times=50).restart().scrape(None, times=50).writes == writes
    assert card.scrape().state == ("False", "Healthy")


def test_silence_neither_returns_a_card_nor_shortens_its_way():
    card = Card().scrape(seen(xids=(79,))).scrape(seen(xids=(79,)), times=19).scrape(None, times=60)
    assert card.state == ("True", "CriticalXid")
    assert card.scrape(seen(xids=(79,)), times=19).state == ("True", "CriticalXid")
    assert card.scrape(seen(xids=(79,))).state == ("False", "Recovered")


def test_silence_during_mig_work_is_expected():
    assert Card().scrape(None, times=100, excused=True).scrape(None, times=7).state == ("False", "Healthy")


def test_a_restart_changes_no_verdict():
    for card in (Card().scrape(seen(xids=(79,))), Card().scrape(None, times=9), Card()):
        before = card.condition
        card.restart().write()
        assert card.condition == before
    assert step(recall(CardStatus(), 0), None, LIMITS, 60).verdict.finding is None


def test_a_lost_card_is_another_planners_verdict():
    lost = condition([], FAULTED, status=True, reason="CardLost", message="gone", now="t")
    assert recall_verdict(CardStatus(conditions=(lost,))).fault is None
    back = condition([], FAULTED, status=False, reason="CardBack", message="back", now="t")
    made = step(recall(CardStatus(conditions=(back,)), 0), WELL, LIMITS, 15)
    assert made.verdict.finding.reason == "CardBack"


def test_a_fault_that_an_earlier_version_held_is_a_fault():
    card = Card().scrape(seen(xids=(79,)))
    message = card.known.verdict.fault.text
    card.condition = replace(
        card.condition, status="Unknown", reason="CriticalXidHeld", message=f"{message} Held back: too many at once"
    )
    card.fault = None
    card.restart().scrape(seen(xids=(79,)))
    assert (card.state, card.condition.message) == (("True", "CriticalXid"), message)


noise = st.builds(
    lambda heat, slow: seen(temperature=heat, throttle=slow),
    st.integers(81, 94),
    st.sampled_from([0, 0x1, 0x4, 0x8]),
)


@given(st.lists(noise, max_size=120), st.sets(st.integers(0, 120), max_size=4))
def test_noise_writes_nothing(samples, restarts):
    card = Card(temperature=86)
    before, in_a_row = card.writes, 0
    for number, sample in enumerate(samples):
        in_a_row = in_a_row + 1 if sample.throttle == 0x8 else 0
        if number in restarts:
            card.restart()
        card.scrape(replace(sample, throttle=0) if in_a_row >= LIMITS.throttle_on else sample)
        in_a_row %= LIMITS.throttle_on
    assert card.writes == before


anything = st.none() | st.builds(
    lambda **fields: replace(WELL, **fields),
    temperature=st.none() | st.integers(30, 110),
    xids=st.none() | st.sampled_from([(), (13,), (48,), (63,), (79,)]),
    ecc_volatile=st.none() | st.integers(0, 2),
    remap_failed=st.none() | st.booleans(),
    throttle=st.none() | st.sampled_from([0, 0x40]),
)


@given(st.lists(st.tuples(anything, st.booleans(), st.booleans()), max_size=60), anything)
def test_whatever_comes_it_comes_to_rest(steps, last):
    card = Card()
    for sample, validated, asked in steps:
        card.scrape(sample, validated=validated, return_asked=asked)
        assert card.condition.reason in REASONS
        assert card.known.verdict.fault is None or card.condition.status == "True"
    card.scrape(last, times=30)
    writes = card.writes
    card.scrape(last, times=10)
    assert card.writes == writes


def test_health_is_written_when_a_class_changes():
    old = DeviceHealth(temperature_c=50, ecc_errors_total=0, throttled=False, last_updated="t")
    for heat, expected in ((84, None), (85, 85), (20, None), (95, 95)):
        new = health_to_write(old, replace(old, temperature_c=heat, last_updated=None), LIMITS, 0)
        assert (new and new.temperature_c) == expected
    warm = replace(old, temperature_c=86)
    for heat, expected in ((80, None), (79, 79), (94, None), (95, 95)):
        new = health_to_write(warm, replace(warm, temperature_c=heat), LIMITS, 0)
        assert (new and new.temperature_c) == expected
    new = health_to_write(old, DeviceHealth(last_xid=79), LIMITS, 0)
    assert (new.temperature_c, new.last_xid, new.throttled) == (50, 79, False)
    assert health_to_write(old, DeviceHealth(), LIMITS, 0) is None
    assert health_to_write(None, None, LIMITS, 0) is None
    assert health_to_write(old, None, LIMITS, 0) is None
