"""Monitoring is ready after three fresh scrapes, missing after two minutes, and does not flap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers.bootstrap.health.heartbeat import is_silent, on_scrape, recall, seconds_left, tick
from controllers.bootstrap.health.limits import Limits

LIMITS = Limits()


def after(heart, *scrapes, start=0.0):
    for number, fresh in enumerate(scrapes, 1):
        heart = tick(on_scrape(heart, LIMITS, start + 15 * number, fresh=fresh), LIMITS, start + 15 * number)
    return heart


def test_three_fresh_scrapes_in_a_row_make_it_ready():
    heart = recall(None, 0)
    assert after(heart, True, True).ready is None
    assert after(heart, True, True, False, True, True).ready is None
    assert after(heart, True, True, True).ready is True


def test_two_minutes_without_one_make_it_missing():
    heart = after(recall(None, 0), True, True, True)
    assert tick(heart, LIMITS, 45 + 119.9).ready is True
    assert seconds_left(heart, LIMITS, 45 + 119.5) == 0.5
    assert tick(heart, LIMITS, 45 + 120).ready is False


def test_a_single_scrape_keeps_it_ready_and_does_not_bring_it_back():
    lossy = after(recall(True, 0), *([False] * 6 + [True]) * 5)
    assert lossy.ready is True
    gone = tick(recall(True, 0), LIMITS, 120)
    assert on_scrape(gone, LIMITS, 121, fresh=True).ready is False
    assert after(gone, True, True, True, start=121).ready is True


def test_what_was_recorded_holds_after_a_restart():
    for recorded in (True, False):
        heart = recall(recorded, 1000)
        assert tick(heart, LIMITS, 1119).ready is recorded
        assert on_scrape(heart, LIMITS, 1015, fresh=True).ready is recorded
    assert tick(recall(True, 1000), LIMITS, 1120).ready is False
    assert tick(recall(None, 1000), LIMITS, 1120).ready is False


def test_mig_work_stops_the_clock():
    heart = after(recall(None, 0), True, True, True)
    for now in range(60, 1000, 60):
        heart = tick(heart, LIMITS, now, suspended=True)
        assert heart.ready is True
    assert tick(heart, LIMITS, 960 + 119).ready is True
    assert tick(heart, LIMITS, 960 + 120).ready is False


def test_a_node_fails_before_it_is_missing():
    heart = after(recall(None, 0), True, True, True)
    assert not is_silent(heart, LIMITS, 15, 75)
    assert is_silent(heart, LIMITS, 15, 76)
    assert not is_silent(tick(heart, LIMITS, 200), LIMITS, 15, 200)  # known to be missing: no news


@given(st.lists(st.booleans(), max_size=60))
def test_its_verdict_changes_only_with_cause(scrapes):
    heart, now = recall(None, 0.0), 0.0
    for fresh in scrapes:
        now += 15
        before, heart = heart, tick(on_scrape(heart, LIMITS, now, fresh=fresh), LIMITS, now)
        if heart.ready is not before.ready:
            assert heart.streak >= 3 if heart.ready else now - (heart.last or 0) >= 120
