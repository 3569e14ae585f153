"""The order of a queue: by age, by priority, or fairly among namespaces; a limit passes over and disturbs nobody."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api.queue import NamespaceShare, Queue
from controllers.domain.node_fit import PodConstraints
from controllers.domain.queue.entry import Entry, Member
from controllers.domain.queue.order import Ranked, in_order
from controllers.domain.queue.policy import QueuePolicy, policy_of
from tests.kit import objects

ANYWHERE = PodConstraints(None, (), None, ())


def entry(key: str, at: int = 0, *, units: int = 1, priority: int = 0) -> Entry:
    namespace = key.partition("/")[0]
    created = f"2026-11-25T10:{at // 60:02}:{at % 60:02}Z"
    return Entry(key, namespace, priority, created, (Member(key, f"r-{key}", units, ANYWHERE),))


def policy(order: Any = "Fair", **shares: dict[str, int]) -> QueuePolicy:
    entries = [NamespaceShare(name=name, **each) for name, each in shares.items()]
    return QueuePolicy(order, 1, 600.0, {each.name: each for each in entries})


def keys(found: list[Ranked]) -> list[str]:
    return [each.entry.key for each in found]


def test_fifo_goes_by_age_and_then_by_name() -> None:
    entries = [entry("b/2", 5), entry("a/9", 5), entry("c/1", 1, priority=-10)]
    assert keys(in_order(entries, {}, policy("FIFO"))) == ["c/1", "a/9", "b/2"]


def test_priority_comes_before_age() -> None:
    entries = [entry("a/old", 0), entry("a/urgent", 9, priority=100), entry("b/older", 1, priority=-1)]
    for order in ("Priority", "Fair"):
        assert keys(in_order(entries, {}, policy(order))) == ["a/urgent", "a/old", "b/older"]


def test_namespaces_alternate_and_each_goes_by_age() -> None:
    entries = [*(entry(f"many/{at}", at) for at in range(4)), entry("few/a", 10), entry("few/b", 11)]
    assert keys(in_order(entries, {}, policy())) == ["many/0", "few/a", "many/1", "few/b", "many/2", "many/3"]


def test_who_has_more_of_the_pool_comes_later() -> None:
    entries = [entry("rich/a", 0), entry("poor/a", 1)]
    assert keys(in_order(entries, {"rich": 3}, policy())) == ["poor/a", "rich/a"]


def test_weights_are_shares() -> None:
    entries = [entry(f"{name}/{at:02}", at) for name in ("a", "b") for at in range(30)]
    first = in_order(entries, {}, policy(a={"weight": 2}))[:30]
    assert Counter(each.entry.namespace for each in first) == {"a": 20, "b": 10}


def test_a_guarantee_comes_before_shares() -> None:
    entries = [entry("a/1", 0), entry("a/2", 1), entry("g/1", 5), entry("g/2", 6), entry("g/3", 7)]
    found = keys(in_order(entries, {"g": 1}, policy(g={"guaranteed": 3})))
    assert found == ["g/1", "g/2", "a/1", "a/2", "g/3"]  # two are below the guarantee, the third is not


def test_a_limit_passes_over_and_smaller_ones_still_fit() -> None:
    entries = [entry("a/big", 0, units=3), entry("a/small", 1), entry("b/1", 2)]
    found = in_order(entries, {"a": 2}, policy("FIFO", a={"limit": 4}))
    assert [(each.entry.key, each.over_limit) for each in found] == [
        ("a/big", True),
        ("a/small", False),
        ("b/1", False),
    ]


def test_a_star_is_for_each_other_namespace() -> None:
    found = in_order([entry("x/1"), entry("y/1")], {"x": 1, "y": 1}, policy(y={"limit": 9}, **{"*": {"limit": 1}}))
    assert {each.entry.key: each.over_limit for each in found} == {"x/1": True, "y/1": False}


def test_a_pool_that_says_nothing_has_a_fair_queue() -> None:
    made = policy_of(objects.pool("a"))
    assert (made.order, made.hold_pods, made.hold_after, made.share("any").weight) == ("Fair", 1, 600.0, 1)
    assert Queue().max_waiting == 500


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 50), st.integers(1, 8), st.integers(-1, 1)), max_size=40
    ),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 20)),
    st.sampled_from(["FIFO", "Priority", "Fair"]),
    st.dictionaries(
        st.sampled_from(["a", "b", "*"]),
        st.fixed_dictionaries({"weight": st.integers(1, 9), "limit": st.none() | st.integers(1, 20)}),
    ),
)
@settings(max_examples=300, deadline=None)
def test_everybody_is_in_it_once_whatever_the_order_of_the_input(
    made: list[tuple[str, int, int, int]], used: dict[str, int], order: Any, shares: dict[str, Any]
) -> None:
    entries = [
        entry(f"{name}/{number}", at, units=units, priority=priority)
        for number, (name, at, units, priority) in enumerate(made)
    ]
    rules = policy(order, **shares)
    found = in_order(entries, used, rules)
    assert sorted(keys(found)) == sorted(each.key for each in entries)
    assert found == in_order(reversed(entries), used, rules)
    if order != "FIFO":
        priorities = [each.entry.priority for each in found]
        assert priorities == sorted(priorities, reverse=True)
    had: dict[str, int] = defaultdict(int, used)
    for each in found:
        limit = rules.share(each.entry.namespace).limit
        if not each.over_limit:
            had[each.entry.namespace] += each.entry.units
            assert limit is None or had[each.entry.namespace] <= limit
        else:
            assert limit is not None
            assert had[each.entry.namespace] + each.entry.units > limit


@pytest.mark.parametrize("order", ["Priority", "Fair"])
def test_within_a_namespace_and_a_priority_age_decides(order: Any) -> None:
    entries = [entry(f"a/{at}", at, units=1 + at % 3) for at in range(9)] + [entry("b/x", 4)]
    own = [key for key in keys(in_order(entries, {"a": 5}, policy(order))) if key.startswith("a/")]
    assert own == sorted(own)


def test_what_is_left_of_a_gang_comes_before_everybody_whatever_the_limit() -> None:
    torn = replace(entry("a/torn", 9), gang="g", is_torn=True)
    found = in_order([entry("b/urgent", 0, priority=9), torn], {"a": 5}, policy(a={"limit": 5}))
    assert [(each.entry.key, each.over_limit) for each in found] == [("a/torn", False), ("b/urgent", False)]
