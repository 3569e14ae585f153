"""The reason of each card for one pod: every one there is, which comes first, and that the placement agrees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.tenant import Expression, NodeTerm
from controllers.domain.clock import stamp_exact
from controllers.domain.node_fit import PodConstraints, names_demanded
from controllers.domain.placement.choice import PlacementPolicy, candidate_nodes
from controllers.domain.queue.supply import capacities, node_slots
from controllers.domain.request import PoolRequest
from controllers.domain.verdict.card_reason import refused_by
from controllers.domain.verdict.demands import Demands, NodeUse
from controllers.domain.verdict.nodes import node_verdict
from controllers.domain.verdict.pod import asked_by, cards_of, pod_verdict
from controllers.domain.verdict.pool_cards import NodeCards
from controllers.domain.verdict.records import REASONS, ReservedForOthers
from tests.kit import objects
from tests.kit.objects import NOW, allocation, condition, reservation
from tests.kit.pods import pod

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import Node
    from controllers.api.tenant import TenantPod
    from controllers.domain.verdict.records import CardReason, CardVerdict, PodVerdict

LABEL: Final = names.pool_node_label("a")
OTHER: Final = NodeTerm(match_fields=(Expression(key="metadata.name", operator="In", values=("other",)),))
TAINT: Final = {"key": "dedicated", "value": "infer", "effect": "NoSchedule"}


POOL: Final = objects.pool()


@dataclass(frozen=True)
class Seen:
    """A pool as it is read."""

    members: tuple[GPUDevice, ...]
    nodes: dict[str, Node]
    bound: tuple[TenantPod, ...] = ()
    tolerated: tuple[Toleration, ...] = ()
    pool: GPUPool = POOL


def card(at: int = 1, node: str = "n1", **status: Any) -> GPUDevice:
    return objects.card(node, at, **{"pool": "a"} | status)


def node(name: str = "n1", **more: Any) -> Node:
    return objects.node(name, **{"labels": {LABEL: "true"}} | more)


def judged(
    *cards: GPUDevice,
    of: TenantPod | None = None,
    on: Node | None = None,
    kept: ReservedForOthers | None = None,
    **seen: Any,
) -> PodVerdict:
    """The verdict on cards of node n1."""
    found = Seen(cards, {"n1": node() if on is None else on}, **seen)
    asked = asked_by(pod() if of is None else of, "a", found.tolerated)
    there = cards_of(found, {"n1": kept} if kept else {}, NOW)
    return pod_verdict(found, there, asked, since={"team/busy": "2026-01-02T00:00:00Z"}, now=NOW)


def one(*cards: GPUDevice, **more: Any) -> CardVerdict:
    return judged(*cards, **more).cards[0]


BUSY: Final = [allocation("busy")]
SELECTING: Final = pod(nodeSelector={"zone": "b"})
TABLE: Final[dict[CardReason, tuple[CardVerdict, str]]] = {
    "OtherPool": (one(card(pool="b")), "b"),
    "Leaving": (one(card(meta={"annotations": {names.ASSIGNMENT: "b"}})), ""),
    "Faulted": (one(card(conditions=[condition("Faulted", reason="CriticalXid")])), "CriticalXid"),
    "Ignored": (one(card(conditions=[condition("Ignored", reason="LabelSet")])), "LabelSet"),
    "ManagedDisabled": (one(card(conditions=[condition("ManagedDisabled", reason="NodeLabel")])), "NodeLabel"),
    "InventoryIncomplete": (one(card(conditions=[condition("InventoryIncomplete", reason="NoPCI")])), "NoPCI"),
    "NotPublished": (
        one(card(published=None, conditions=[condition("Configured", "False", reason="AwaitingPlugin")])),
        "AwaitingPlugin",
    ),
    "NodeAway": (one(card(), on=node(ready=False)), ""),
    "NodeRefused": (one(card(), of=SELECTING), "lacks zone=b"),
    "InUse": (one(card(allocations=BUSY)), ""),
    "Promised": (one(card(reservations=[reservation("r-other", pod="other")])), ""),
    "KeptFor": (one(card(), kept=ReservedForOthers(1, position=2)), "position 2"),
    "TooFewHere": (one(card(1), card(2), card(3, allocations=BUSY), of=pod(units=4)), "2 of 4"),
    "Free": (one(card()), ""),
}


def test_the_table_has_every_reason_in_its_order() -> None:
    assert tuple(TABLE) == REASONS


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_is_found_and_says_more(reason: CardReason) -> None:
    verdict, detail = TABLE[reason]
    assert (verdict.reason, verdict.detail) == (reason, detail)
    assert verdict.slots == (1 if reason in ("KeptFor", "TooFewHere", "Free") else 0)


WORSE: Final[dict[CardReason, dict[str, Any]]] = {
    "OtherPool": {"pool_ref": objects.pool_ref("b")},
    "Leaving": {"meta": {"annotations": {}}},
    "Faulted": {"conditions": [condition("Faulted")]},
    "NotPublished": {"published": None},
    "NodeAway": {"on": node(ready=False, unschedulable=True)},
    "NodeRefused": {"on": node(unschedulable=True)},
    "InUse": {"allocations": BUSY, "reservations": [reservation("r-other")]},
    "Promised": {"reservations": [reservation("r-other")], "kept": ReservedForOthers(1, 1)},
    "KeptFor": {"kept": ReservedForOthers(1, 1), "of": pod(units=1)},
}


@pytest.mark.parametrize("reason", WORSE)
def test_of_several_reasons_the_first_is_given(reason: CardReason) -> None:
    """Each with all that come after it: an earlier one hides the later ones."""
    said: dict[str, Any] = {}
    for each in reversed([*WORSE][[*WORSE].index(reason) :]):
        said |= WORSE[each]
    more = {key: said.pop(key) for key in ("on", "kept", "of") if key in said}
    assert one(card(**said), **more).reason == reason


def test_a_card_in_use_names_who_has_it_and_since_when() -> None:
    found = one(card(allocations=BUSY))
    assert (found.namespace, found.pod, found.since) == ("team", "busy", "2026-01-02T00:00:00Z")


def test_a_pod_that_kubelet_has_yet_to_tell_of_has_the_cards_that_were_named_to_it() -> None:
    taken = card()
    runs = pod("runs", devices=taken.status.inventory_id or "", nodeName="n1", phase="Running")
    found = one(taken, bound=(runs,))
    assert (found.reason, found.namespace, found.pod) == ("InUse", "team", "runs")


def test_a_card_that_others_have_by_another_resource_is_in_use() -> None:
    theirs = {"namespace": "theirs", "pod": "x", "container": "c", "resource": "nvidia.com/gpu"}
    found = one(card(foreign_allocations=[theirs]))
    assert (found.reason, found.namespace, found.pod) == ("InUse", "theirs", "x")
    assert found.detail == "by nvidia.com/gpu"


def test_what_is_promised_names_whom_and_until_when() -> None:
    found = one(card(reservations=[reservation("r-other", pod="other", until=NOW + 60)]))
    assert (found.pod, found.until, found.slots) == ("other", stamp_exact(NOW + 60), 0)


def test_what_is_promised_to_the_pod_itself_is_its_own() -> None:
    found = judged(card(1, reservations=[reservation("r-p")]), card(2), of=pod(units=2))
    assert [(each.reason, each.slots) for each in found.cards] == [("Promised", 1), ("Free", 1)]


def test_a_promise_whose_time_is_over_keeps_nobody_away() -> None:
    assert one(card(1, reservations=[reservation(until=NOW - 1)]), card(2)).reason == "Free"


def test_a_promise_whose_time_is_over_is_none_where_its_node_is_full_of_such() -> None:
    over, holds = reservation(until=NOW - 1), reservation("r-2", pod="two", until=NOW + 1)
    assert one(card(1, reservations=[over])).reason == "Free"
    assert one(card(1, reservations=[over], allocations=BUSY)).reason == "InUse"
    assert one(card(1, reservations=[over, holds])).reason == "Promised"


@pytest.mark.parametrize(
    ("on", "detail"),
    [
        ({"unschedulable": True}, "cordoned"),
        ({"taints": [TAINT]}, "taint dedicated=infer:NoSchedule"),
        ({"labels": {}}, f"label {LABEL} is missing"),
        (
            {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
            "taint node.kubernetes.io/unreachable:NoExecute",
        ),
    ],
)
def test_a_node_that_refuses_says_by_what(on: dict[str, Any], detail: str) -> None:
    found = one(card(), on=node(**on))
    assert (found.reason, found.detail) == ("NodeRefused", detail)


@pytest.mark.parametrize(
    "constraints",
    [
        PodConstraints(None, (("zone", "b"), ("rack", "1")), None, ()),
        PodConstraints("other", (), None, ()),
        PodConstraints(None, (), (OTHER,), ()),
        PodConstraints(None, (), (), ()),
    ],
)
def test_a_card_and_its_node_say_in_the_same_words_why_the_node_takes_no_pod(constraints: PodConstraints) -> None:
    there = node()
    found = node_verdict(Demands(constraints, named=names_demanded(constraints)), there, NodeUse())
    place = NodeCards(there.name, there)
    assert refused_by(place, constraints) == (found.detail or found.messages[0])
    assert refused_by(place, constraints)
    assert not refused_by(place, PodConstraints(None, (), None, ()))


def test_a_node_that_is_gone_is_away() -> None:
    found = Seen((card(),), {})
    there = cards_of(found, {}, NOW)
    asked = asked_by(pod(), "a", ())
    assert [each.reason for each in pod_verdict(found, there, asked, since={}, now=NOW).cards] == ["NodeAway"]


def test_slots_of_a_shared_card_are_counted_one_by_one() -> None:
    shared = objects.pool(allocation={"mode": "TimeSlice", "time_slice": {"max_slices_per_device": 4}})
    found = one(card(slots=4, allocations=[allocation("busy", slots=3)]), pool=shared)
    assert (found.reason, found.slots) == ("Free", 1)
    found = one(card(slots=4, allocations=[allocation("busy", slots=4)]), pool=shared)
    assert found.reason == "InUse"


def test_what_the_node_does_not_show_yet_is_too_few() -> None:
    """Cards are offered, and the scheduler would not find them: the node counts them in its own time."""
    shows = node()
    shows = replace(shows, status=replace(shows.status, allocatable={names.resource_name("a"): "1"}))
    assert [each.reason for each in judged(card(1), card(2), of=pod(units=2), on=shows).cards] == ["TooFewHere"] * 2


STATES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"allocations": BUSY},
    {"reservations": [reservation("r-other")]},
    {"reservations": [reservation("r-p")]},
    {"published": None},
    {"conditions": [condition("Faulted")]},
    {"meta": {"annotations": {}}},
)
NODES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"unschedulable": True},
    {"ready": False},
    {"taints": [TAINT]},
    {"labels": {}},
)


@given(
    st.lists(
        st.tuples(st.sampled_from(NODES), st.lists(st.sampled_from(STATES), max_size=4), st.integers(0, 3)), max_size=3
    ),
    st.integers(1, 4),
)
@settings(max_examples=200, deadline=None)
def test_numbers_and_placement_agree_with_the_verdicts(nodes: list[Any], units: int) -> None:
    """A node has free cards by the verdicts exactly where the placement would put the pod; the summary counts both."""
    cards = [card(at, f"n{n}", **state) for n, (_, states, _) in enumerate(nodes) for at, state in enumerate(states)]
    found = Seen(tuple(cards), {f"n{n}": node(f"n{n}", **how) for n, (how, _, _) in enumerate(nodes)})
    kept = {f"n{n}": ReservedForOthers(count, 1) for n, (_, _, count) in enumerate(nodes) if count}
    asked = replace(asked_by(pod(units=units), "a", ()), request_id="r-none")
    made = pod_verdict(found, cards_of(found, kept, NOW), asked, since={}, now=NOW)
    assert sorted(each.card for each in made.cards) == sorted(each.name for each in cards)
    assert {reason: sum(each.reason == reason for each in made.cards) for reason in made.summary.cards} == dict(
        made.summary.cards
    )
    assert sum(made.summary.cards.values()) == len(cards)
    slots = node_slots(found, NOW)
    left = {name: each.free - min(each.free, kept[name].slots if name in kept else 0) for name, each in slots.items()}
    there = capacities(found, slots, left)
    wants = PodConstraints(None, (), None, ())
    could = candidate_nodes(there, PoolRequest("a", units), wants, PlacementPolicy("BinPack", "zone"), "seed")
    assert {each.node for each in made.cards if each.reason == "Free"} == {each.name for each, _ in could}
    assert made.summary.slots.most >= max((left[each.name] for each, _ in could), default=0)
