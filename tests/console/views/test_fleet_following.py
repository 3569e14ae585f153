"""The page Fleet as it stays open: rows are kept while nothing changes them, and say what new ones would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.records import Row, Seen
from console.views import VIEWS
from console.views.fleet import rows
from controllers.api.gpunodeinventory import GPUNodeInventory
from tests.console.views.world import READY, world
from tests.kit.objects import NOW, card, inventory, node, reservation

PENDING = {"inventory_id": card("gpu-3", 1).status.inventory_id, "reason": "AwaitingApproval", "pool": "training"}


def opened() -> Callable[[Seen, float], Mapping[str, Row]]:
    """A page that stays open."""
    make = VIEWS["fleet"].open()
    return lambda seen, now: make(seen, {}, now)


def kept(before: Mapping[str, Row], after: Mapping[str, Row]) -> set[str]:
    """The rows that are the same objects."""
    return {key for key, row in after.items() if before.get(key) is row}


def test_a_card_that_changes_makes_the_row_of_its_node_anew_and_no_other() -> None:
    page, seen = opened(), world()
    first = page(seen, NOW)
    changed = card("gpu-1", 1, pool="other")
    then = page(replace(seen, cards=dict(seen.cards) | {changed.name: changed}), NOW + 1)
    assert kept(first, then) == {"node/gpu-2", "node/gpu-3"}
    assert then["node/gpu-1"] != first["node/gpu-1"]


def test_equal_objects_of_a_new_list_keep_all_rows() -> None:
    page = opened()
    first = page(world(), NOW)
    assert kept(first, page(world(), NOW + 1)) == set(first)


def test_a_promise_that_ends_shows_without_a_change_of_its_card() -> None:
    page, seen = opened(), world()
    promised = page(seen, NOW)["node/gpu-2"]["cards"]
    assert "Promised" in str(promised)
    assert "Promised" in str(page(seen, NOW + 299)["node/gpu-2"])
    assert "Promised" not in str(page(seen, NOW + 300)["node/gpu-2"])
    assert page(seen, NOW)["node/gpu-2"]["cards"] == promised, "a clock that was set back"


def test_a_node_that_goes_takes_its_row_and_comes_back_as_it_is_then() -> None:
    page, seen = opened(), world()
    page(seen, NOW)
    left = {name: one for name, one in seen.cards.items() if one.status.node_name != "gpu-3"}
    some = {name: one for name, one in seen.inventories.items() if name != "gpu-3"}
    assert "node/gpu-3" not in page(replace(seen, cards=left, inventories=some), NOW)
    assert page(seen, NOW) == rows(seen, {}, NOW)


def _inventory(change: int) -> GPUNodeInventory:
    pending = {"pools": {"pending": [PENDING]}} if change % 2 else {}
    return inventory("gpu-3", [card("gpu-3", 1)], conditions=[READY] if change % 3 else [], **pending)


def _promise(ends: int) -> Any:
    return reservation(until=NOW + ends)


CHANGES = st.one_of(
    st.builds(
        lambda at, pool: ("cards", card(f"gpu-{at}", 1, pool=pool)),
        st.integers(1, 4),
        st.sampled_from(["training", "other", None]),
    ),
    st.builds(
        lambda at, ends: (
            "cards",
            card(f"gpu-{at}", 2, pool="training", reservations=(reservation(until=NOW + ends),)),
        ),
        st.integers(1, 3),
        st.integers(1, 30),
    ),
    st.builds(lambda at: ("inventories", _inventory(at)), st.integers(0, 5)),
    st.builds(lambda at, no: ("nodes", node(f"gpu-{at}", unschedulable=no)), st.integers(1, 3), st.booleans()),
)


@given(steps=st.lists(st.tuples(CHANGES, st.integers(-3, 20)), max_size=8))
def test_whatever_changes_and_whatever_the_clock_says_the_rows_are_those_of_a_page_that_is_opened_now(
    steps: list[tuple[tuple[str, Any], int]],
) -> None:
    page, seen, now = opened(), world(), float(NOW)
    for (part, made), passed in steps:
        now += passed
        seen = replace(seen, **{part: dict(getattr(seen, part)) | {made.name: made}})
        assert page(seen, now) == rows(seen, {}, now)
