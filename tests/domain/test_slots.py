"""Slots of a node: what is used, promised and free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.gpudevice import Allocation, GPUDevice, Reservation
from controllers.api.gpupool import AllocationSpec, TimeSlice
from controllers.api.kube import Node, Pod
from controllers.api.record import adapter, to_json
from controllers.domain.accounting import account
from controllers.domain.capacity import capacity
from controllers.domain.slots import NodeSlots
from tests.kit import objects
from tests.kit.objects import NOW
from tests.kit.pods import pod_body

NODE = objects.node("n")


def card(
    number: int, *, published: bool = True, allocated: str = "", reserved: str = "", claimed: bool = True
) -> GPUDevice:
    status: dict[str, Any] = {"inventory_id": f"n-{number}"} | ({} if published else {"published": None})
    if allocated:
        status["allocations"] = [objects.allocation(uid=allocated)]
    if reserved:
        status["reservations"] = [objects.reservation(reserved)]
    meta: dict[str, Any] = {"name": f"n-{number}"} | ({} if claimed else {"annotations": {}})
    return objects.card("n", number, pool="a", meta=meta, **status)


def pod(uid: str, request: str, units: int = 1, devices: str = "", phase: str = "Running", node: str = "n") -> Pod:
    made = pod_body(uid, units, request=request, devices=devices, phase=phase, meta={"uid": uid}, nodeName=node)
    return adapter(Pod).validate_python(made)


def count(cards: list[GPUDevice], pods: list[Pod] = (), now: float = NOW, node: Node | None = NODE) -> NodeSlots:
    return account("a", node=node, node_name="n", devices=cards, pods=pods, allocation=AllocationSpec(), now=now)


def test_a_bound_pod_counts_until_kubelet_reports_it_and_then_once() -> None:
    before = count([card(0), card(1)], [pod("u", "r", devices="n-1")])
    assert [c.used for c in before.cards] == [0, 1]

    after = count([card(0, allocated="u"), card(1)], [pod("u", "r", devices="n-1")])
    assert [c.used for c in after.cards] == [1, 0]
    assert after.free == 1


def test_a_reservation_whose_pod_is_bound_counts_no_more() -> None:
    made = count([card(0, reserved="r"), card(1)], [pod("u", "r", devices="n-0")])

    assert [(c.used, c.reserved) for c in made.cards] == [(1, 0), (0, 0)]


def test_a_reservation_ends_with_its_time() -> None:
    assert count([card(0, reserved="r")]).free == 0
    assert count([card(0, reserved="r")], now=NOW + 11).free == 1


def test_a_finished_pod_holds_nothing() -> None:
    assert count([card(0)], [pod("u", "r", phase="Succeeded")]).free == 1


def test_cards_that_are_not_offered_are_unavailable_not_free() -> None:
    for blocked in (card(0, published=False), card(0, claimed=False)):
        made = count([blocked])
        assert (made.free, made.cards[0].unavailable) == (0, 1)
    assert count([card(0)], node=None).free == 0


def test_a_card_that_its_plugin_has_yet_to_withdraw_is_not_given_out() -> None:
    """Its node is out of service, say, and nothing answers there."""
    told = objects.condition("Configured", False, "AwaitingWithdrawal")
    withdrawn = replace(card(0), status=replace(card(0).status, conditions=(told,)))
    made = count([withdrawn, card(1)])
    assert (made.free, [c.unavailable for c in made.cards]) == (1, [1, 0])

    differs = replace(told, reason="SettingsDiffer")  # its plugin is behind, and offers it all the same
    assert count([replace(withdrawn, status=replace(withdrawn.status, conditions=(differs,)))]).free == 1


def showing(slots: int | str | None, name: str = "n") -> Node:
    """A node whose kubelet has told the scheduler of so many slots; None: of other resources alone."""
    ours = {} if slots is None else {"gpu.deckhouse.io/a": str(slots)}
    status = NODE.status
    return replace(
        objects.node(name), status=replace(status, allocatable={"cpu": "64", "gpu.deckhouse.io/b": "8", **ours})
    )


@pytest.mark.parametrize(
    ("shows", "free", "hidden"),
    [(4, 2, 0), (9, 2, 0), (3, 1, 1), (2, 0, 2), (0, 0, 2), (None, 0, 2), ("1k", 2, 0), ("many", 0, 2)],
)
def test_no_more_is_free_than_the_scheduler_would_find(shows: int | str | None, free: int, hidden: int) -> None:
    cards = [card(0, allocated="u"), card(1, reserved="r"), card(2), card(3)]
    slots = count(cards, [pod("u", "q")], node=showing(shows))

    assert (slots.free, slots.hidden) == (free, hidden)
    told = capacity([slots], AllocationSpec())
    assert (told.total, told.used, told.reserved, told.unavailable, told.available) == (4, 1, 1, hidden, free)


def test_a_node_that_shows_nothing_at_all_says_nothing_of_the_pool() -> None:
    assert count([card(0)], node=objects.node("n")).free == 1


def test_more_bound_pods_than_slots_are_told_as_overflow() -> None:
    made = count([card(0), card(1)], [pod("u", "r", 2), pod("v", "s", 1)])
    total = capacity([made], AllocationSpec())

    assert made.overflow == 1
    assert (total.total, total.used, total.available) == (2, 3, 0)


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["", "u", "v"]), st.sampled_from(["", "r", "s"]), st.booleans()),
        max_size=6,
    ),
    st.lists(
        st.tuples(st.sampled_from(["u", "v", "w"]), st.sampled_from(["r", "s", "t"]), st.integers(1, 3)), max_size=4
    ),
    st.none() | st.integers(0, 8),
)
def test_the_parts_always_add_up(cards: list[Any], pods: list[Any], shows: int | None) -> None:
    made = count(
        [card(n, published=p, allocated=a, reserved=r, claimed=c) for n, (p, a, r, c) in enumerate(cards)],
        [pod(u, r, n) for u, r, n in pods],
        node=NODE if shows is None else showing(shows),
    )
    total = capacity([made], AllocationSpec())
    parts = total.used + total.reserved + total.unavailable

    assert parts + total.available == total.total or (total.available == 0 and parts > total.total)
    assert 0 <= made.free <= max(0, total.total - total.used - total.reserved)
    assert made.hidden >= 0
    if shows is not None:
        # What the scheduler counts: the requests of pods that are bound there, or will be.
        assert made.free <= max(0, shows - total.used - total.reserved)


def test_what_one_node_says_of_its_cards_takes_nothing_from_others() -> None:
    """A stolen token may write what it likes of its own node's cards."""
    liar = replace(card(0), status=replace(card(0).status, allocations=(taken("ghost", 64), taken("other", 64))))
    honest = [replace(count([card(0), card(1)]), node="honest") for _ in range(2)]
    total = capacity([count([liar]), *honest], AllocationSpec())

    assert (total.total, total.used, total.available) == (5, 1, 4)


def test_what_kubelet_gave_beyond_a_card_is_not_looked_for_on_another() -> None:
    """It would hide that the other is broken, and promise a slot that the scheduler does not have."""
    crowded = replace(card(0), status=replace(card(0).status, allocations=(taken("u", 1), taken("v", 1))))
    made = count([crowded, card(1, claimed=False), card(2)], [pod("u", "r"), pod("v", "s")])
    total = capacity([made], AllocationSpec())

    assert [c.used for c in made.cards] == [1, 0, 0]
    assert (made.overflow, made.free) == (1, 0)
    assert (total.used, total.unavailable, total.available) == (2, 1, 0)


def test_more_than_a_node_has_takes_nothing_from_others() -> None:
    crowded = count([card(0)], [pod("u", "r", 3)])
    total = capacity([crowded, replace(count([card(0)]), node="honest")], AllocationSpec())

    assert (total.used, total.available) == (3, 1)


def test_a_reservation_whose_card_went_to_another_pod_takes_the_next_card() -> None:
    """Kubelet chose the reserved card for somebody else: the promise still needs a slot of the node."""
    made = count([card(0, allocated="u", reserved="r"), card(1)])

    assert made.cards[1].free == 1
    assert made.free == 0
    assert capacity([made], AllocationSpec()).available == 0


def test_a_reservation_whose_pod_was_bound_to_another_node_counts_no_more() -> None:
    made = count([card(0, reserved="r")], [pod("u", "r", node="elsewhere")])

    assert [(c.used, c.reserved) for c in made.cards] == [(0, 0)]


SHARED = AllocationSpec(mode="TimeSlice", time_slice=TimeSlice(max_slices_per_device=4))


def shared(cards: list[GPUDevice], pods: list[Pod] = (), allocation: AllocationSpec = SHARED) -> NodeSlots:
    return account("a", node=NODE, node_name="n", devices=cards, pods=pods, allocation=allocation, now=NOW)


def offered(number: int, slots: int, **status: Any) -> GPUDevice:
    made = card(number)
    fields = to_json(made.status) | {"published": {"pool": "a", "configVersion": "v", "slots": slots}} | status
    return replace(made, status=adapter(GPUDevice).validate_python({"status": fields}).status)


def taken(uid: str, slots: int) -> Allocation:
    return objects.allocation(uid, uid, slots=slots)


def test_several_pods_share_a_card_up_to_its_slots() -> None:
    made = shared([offered(0, 4, allocations=[taken("u", 1), taken("v", 2)])], [pod("u", "r"), pod("v", "s", 2)])

    assert [(c.slots, c.used, c.free) for c in made.cards] == [(4, 3, 1)]


def test_a_pod_that_is_reported_on_one_card_still_takes_its_slots_of_the_next() -> None:
    """Kubelet gave all at once; the cards are reported one by one."""
    made = shared([offered(0, 4, allocations=[taken("u", 4)]), offered(1, 4)], [pod("u", "r", 6, devices="n-0,n-1")])

    assert [c.used for c in made.cards] == [4, 2]
    assert made.free == 2


def test_what_is_not_reported_fills_the_cards_in_the_order_of_the_annotation() -> None:
    made = shared([offered(0, 4), offered(1, 4)], [pod("u", "r", 5, devices="n-1,n-0")])

    assert [c.used for c in made.cards] == [1, 4]


def test_a_card_has_no_more_slots_than_it_offers_and_no_more_than_it_should() -> None:
    assert [c.slots for c in shared([offered(0, 8), offered(1, 2), card(2, published=False)]).cards] == [4, 2, 4]
    assert [c.slots for c in shared([offered(0, 8)], allocation=AllocationSpec()).cards] == [1]


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5), st.integers(0, 4), st.booleans()), max_size=5),
    st.lists(
        st.tuples(st.sampled_from(["u", "v", "w"]), st.integers(1, 9)), max_size=4, unique_by=lambda pair: pair[0]
    ),
)
def test_the_parts_of_shared_cards_add_up_too(cards: list[Any], pods: list[Any]) -> None:
    def promised(slots: int) -> list[Reservation]:
        return [objects.reservation("x", slots=slots)] if slots else []

    devices = [
        offered(at, slots, allocations=[taken("u", used)] if used else [], reservations=promised(kept))
        if there
        else card(at, published=False)
        for at, (slots, used, kept, there) in enumerate(cards)
    ]
    made = shared(devices, [pod(uid, f"r-{uid}", units) for uid, units in pods])
    total = capacity([made], SHARED)
    parts = total.used + total.reserved + total.unavailable

    assert parts + total.available == total.total or (total.available == 0 and parts > total.total)
    assert 0 <= made.free <= max(0, total.total - total.used - total.reserved)
    assert total.used >= sum(units for _, units in pods if devices)
