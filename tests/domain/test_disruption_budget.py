"""Fuses: never more than the share goes out by itself, and many failures at once are our blindness."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.disruption_budget import admit, blindness, limit

names = st.sets(st.integers(0, 60).map(lambda n: f"card-{n:02}"), max_size=61)
percents = st.integers(1, 100)


@given(names, names, names, percents)
def test_never_more_than_the_share_is_out(everybody, out, wanting, percent):
    out, wanting = out & everybody, wanting & everybody
    decided = admit(out, wanting, len(everybody), percent)
    after = out | set(decided.allowed)
    assert len(after) <= max(len(out), limit(len(everybody), percent))
    assert set(decided.allowed) | set(decided.denied) == wanting
    assert not set(decided.allowed) & set(decided.denied)
    assert not set(decided.denied) & out
    if decided.denied:
        assert len(after) >= limit(len(everybody), percent)  # nobody is held while there is room


@given(st.lists(st.integers(0, 30).map(str), max_size=30), st.randoms(), percents)
def test_the_order_of_asking_changes_nothing(wanting, random, percent):
    other = list(wanting)
    random.shuffle(other)
    assert admit((), wanting, 31, percent) == admit((), other, 31, percent)


@given(names, percents, st.randoms())
def test_asked_again_and_again_the_share_still_holds(everybody, percent, random):
    out: set[str] = set()
    for _ in range(10):
        wanting = {name for name in everybody if random.random() < 0.5}
        out |= set(admit(out, wanting, len(everybody), percent).allowed)
    assert len(out) <= limit(len(everybody), percent)


@given(names, names, percents)
def test_deciding_twice_is_deciding_once(out, wanting, percent):
    first = admit(out, wanting, 61, percent)
    second = admit(out | set(first.allowed), wanting, 61, percent)
    assert (set(second.allowed), second.denied) == (set(first.allowed), first.denied)


def test_those_already_out_leave_no_room():
    assert admit({"a", "b"}, {"c"}, 10, 20).denied == ("c",)
    assert admit({"a"}, {"c", "d"}, 10, 20) == admit({"a"}, {"d", "c"}, 10, 20)
    assert admit({"a"}, {"d", "c"}, 10, 20).allowed == ("c",)


def test_one_may_always_go():
    assert admit((), {"a"}, 1, 20).allowed == ("a",)
    assert admit((), {"a", "b"}, 2, 20).denied == ("b",)


def test_many_failing_at_once_is_blindness():
    assert blindness({"a", "b"}, 10, 20) is None
    assert blindness({"a"}, 1, 20) is None
    found = blindness({"c", "b", "a", "d"}, 10, 20)
    assert found is not None
    assert found.status is None
    assert "4 of 10 nodes" in found.message
    assert "a, b, c" in found.message
