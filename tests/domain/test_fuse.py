"""Fuses: never more than the share goes out by itself, and many failures at once are our blindness."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.fuse import allow, blindness, limit

names = st.sets(st.integers(0, 60).map(lambda n: f"card-{n:02}"), max_size=61)
percents = st.integers(1, 100)


@given(names, names, names, percents)
def test_never_more_than_the_share_is_out(everybody, out, wanting, percent):
    out, wanting = out & everybody, wanting & everybody
    decided = allow(out, wanting, len(everybody), percent)
    after = out | set(decided.go)
    assert len(after) <= max(len(out), limit(len(everybody), percent))
    assert set(decided.go) | set(decided.held) == wanting
    assert not set(decided.go) & set(decided.held)
    assert not set(decided.held) & out
    if decided.held:
        assert len(after) >= limit(len(everybody), percent)  # nobody is held while there is room


@given(st.lists(st.integers(0, 30).map(str), max_size=30), st.randoms(), percents)
def test_the_order_of_asking_changes_nothing(wanting, random, percent):
    other = list(wanting)
    random.shuffle(other)
    assert allow((), wanting, 31, percent) == allow((), other, 31, percent)


@given(names, percents, st.randoms())
def test_asked_again_and_again_the_share_still_holds(everybody, percent, random):
    out: set[str] = set()
    for _ in range(10):
        wanting = {name for name in everybody if random.random() < 0.5}
        out |= set(allow(out, wanting, len(everybody), percent).go)
    assert len(out) <= limit(len(everybody), percent)


@given(names, names, percents)
def test_deciding_twice_is_deciding_once(out, wanting, percent):
    first = allow(out, wanting, 61, percent)
    second = allow(out | set(first.go), wanting, 61, percent)
    assert (set(second.go), second.held) == (set(first.go), first.held)


def test_those_already_out_leave_no_room():
    assert allow({"a", "b"}, {"c"}, 10, 20).held == ("c",)
    assert allow({"a"}, {"c", "d"}, 10, 20) == allow({"a"}, {"d", "c"}, 10, 20)
    assert allow({"a"}, {"d", "c"}, 10, 20).go == ("c",)


def test_one_may_always_go():
    assert allow((), {"a"}, 1, 20).go == ("a",)
    assert allow((), {"a", "b"}, 2, 20).held == ("b",)


def test_many_failing_at_once_is_blindness():
    assert blindness({"a", "b"}, 10, 20) is None
    assert blindness({"a"}, 1, 20) is None
    found = blindness({"c", "b", "a", "d"}, 10, 20)
    assert found is not None
    assert found.status is None
    assert "4 of 10 nodes" in found.message
    assert "a, b, c" in found.message
