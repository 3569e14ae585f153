"""Windows of a week: what fits into them, and when they open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.driver_rollout import Window
from controllers.domain.driver.windows import DAYS, WEEK, Schedule, is_open, opens_at

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = 3600.0
NIGHT = (Window(days=("Sun",), from_="22:00", to="23:59"), Window(days=("Mon",), from_="00:00", to="04:00"))


def at(day: str, clock: str) -> float:
    """A time in the week that begins on Monday the fifth."""
    hours, minutes = map(int, clock.split(":"))
    return (MONDAY + timedelta(days=DAYS.index(day), hours=hours, minutes=minutes)).timestamp()


@pytest.mark.parametrize(
    ("day", "clock", "needed", "fits"),
    [
        ("Tue", "06:00", 2 * HOUR, True),
        ("Tue", "06:01", 2 * HOUR, False),
        ("Tue", "07:59", 0, True),
        ("Tue", "08:01", 0, False),
        ("Tue", "05:59", 0, False),
        ("Wed", "06:30", 0, False),
    ],
)
def test_a_start_fits_where_it_ends_before_its_window(day: str, clock: str, needed: float, fits: bool) -> None:
    assert Schedule((Window(days=("Tue",), from_="06:00", to="08:00"),)).fits(at(day, clock), needed) is fits


def test_without_windows_every_time_is_one() -> None:
    assert Schedule(()).fits(at("Wed", "03:33"), 40 * WEEK)
    assert opens_at([Schedule(())], 7.0, HOUR) == 7.0


def test_a_window_without_days_is_of_every_day() -> None:
    daily = Schedule((Window(from_="01:00", to="02:00"),))
    assert all(daily.fits(at(day, "01:30"), 60) for day in DAYS)
    assert not any(daily.fits(at(day, "02:30"), 60) for day in DAYS)


@pytest.mark.parametrize(("day", "clock"), [("Sun", "22:00"), ("Sun", "23:30"), ("Mon", "00:00"), ("Mon", "02:00")])
def test_two_windows_that_meet_at_midnight_are_one_also_where_the_week_ends(day: str, clock: str) -> None:
    night = Schedule(NIGHT)
    assert night.fits(at(day, clock), 2 * HOUR)
    assert not night.fits(at(day, clock), 7 * HOUR)


def test_days_that_are_open_all_day_have_no_end() -> None:
    assert Schedule((Window(from_="00:00", to="23:59"),)).fits(at("Sun", "23:00"), 400 * HOUR)


def test_what_opens_first_for_all_is_found() -> None:
    drivers = Schedule((Window(from_="06:00", to="12:00"),))
    pools = Schedule((Window(days=("Thu",), from_="10:00", to="20:00"),))
    assert opens_at([drivers, pools], at("Mon", "00:00"), HOUR) == at("Thu", "10:00")
    assert opens_at([drivers, pools], at("Thu", "11:30"), HOUR) == at("Thu", "10:00") + WEEK
    assert opens_at([drivers, pools], at("Thu", "10:30"), HOUR) == at("Thu", "10:30")


def test_where_no_week_has_such_a_time_none_is_told() -> None:
    early, late = (Schedule((Window(from_=begin, to=end),)) for begin, end in (("06:00", "08:00"), ("07:30", "09:00")))
    assert opens_at([early, late], at("Mon", "00:00"), HOUR) is None


CLOCKS = st.integers(0, 23 * 60 + 59).map(lambda minute: f"{minute // 60:02d}:{minute % 60:02d}")
WINDOWS = st.lists(
    st.tuples(st.lists(st.sampled_from(DAYS), max_size=3, unique=True), CLOCKS, CLOCKS)
    .filter(lambda one: one[1] < one[2])
    .map(lambda one: Window(days=tuple(one[0]), from_=one[1], to=one[2])),
    max_size=4,
)
MINUTES = st.integers(0, 14 * 24 * 60).map(lambda minute: MONDAY.timestamp() + 60.0 * minute)


def minute_is_open(windows: list[Window], moment: float) -> bool:
    """By the clock, minute for minute; the last minute of a day is open with what ends then."""
    when = datetime.fromtimestamp(moment, UTC)
    day, clock = DAYS[when.weekday()], f"{when.hour:02d}:{when.minute:02d}"
    return any(
        (not one.days or day in one.days) and (one.from_ <= clock < one.to or clock == one.to == "23:59")
        for one in windows
    )


@given(WINDOWS, MINUTES, st.integers(1, 300))
def test_a_start_fits_exactly_where_every_minute_that_it_needs_is_open(
    windows: list[Window], moment: float, minutes: int
) -> None:
    wanted = not windows or all(minute_is_open(windows, moment + 60 * passed) for passed in range(minutes))
    assert Schedule(windows).fits(moment, 60.0 * minutes) is wanted


@given(WINDOWS, WINDOWS, MINUTES, st.sampled_from([60.0, HOUR, 5 * HOUR]))
def test_what_opens_is_open_and_nothing_was_before(
    one: list[Window], other: list[Window], moment: float, needed: float
) -> None:
    both = [Schedule(one), Schedule(other)]
    found = opens_at(both, moment, needed)
    end = moment + WEEK if found is None else found
    assert found is None or is_open(both, found, needed)
    step = 600.0
    assert not any(is_open(both, moment + step * place, needed) for place in range(int((end - moment) // step)))
