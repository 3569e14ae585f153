"""Each invariant of rollouts can fail: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from tests.faults.test_invariants import device, told

OLD, NEW = "0000000000-ubuntu24.04-any", "1111111111-ubuntu24.04-any"
REVISION = "1111111111"
STAMP = "2026-01-01T00:00:00Z"
READY = {"type": "ReadyForPooling", "status": "True"}
Step = tuple[str, dict[str, Any], float]


def inventory(name: str, phase: str = "Withdrawing", *, ready: bool = False, **work: Any) -> dict[str, Any]:
    made = {"driver": "main", "phase": phase, "from": OLD, "to": NEW, "outSince": STAMP, "stratum": "s", **work}
    said = [READY] if ready else []
    status = {"conditions": said, "driverWork": {key: value for key, value in made.items() if value is not None}}
    return {"metadata": {"name": name, "uid": f"u-{name}"}, "status": status}


def idle(name: str, *, ready: bool = True) -> dict[str, Any]:
    status = {"conditions": [READY] if ready else []}
    return {"metadata": {"name": name, "uid": f"u-{name}"}, "status": status}


def driver(nodes: str = "1", per_pool: str = "100%", cards: int = 0, total: int = 0, **more: Any) -> dict[str, Any]:
    limits = {"nodes": nodes, "perPool": per_pool, "cards": cards}
    rollout = {"maxUnavailable": limits} | more.pop("rollout", {})
    status = {"counts": {"nodes": total}, **more}
    return {"metadata": {"name": "main", "uid": "u-d"}, "spec": {"rollout": rollout}, "status": status}


def out(*names_: str, at: float = 0) -> list[Step]:
    """Nodes that are taken out of service one after another."""
    return [("GPUNodeInventory", inventory(name), at) for name in names_]


def test_a_second_node_beyond_the_budget_of_nodes_is_told() -> None:
    (said,) = told(("GPUDriver", driver("1"), 0), *out("a", "b"))
    assert "2 of 2 nodes of driver main are out of service, 1 may be: ['a', 'b']" in said
    assert not told(("GPUDriver", driver("2"), 0), *out("a", "b"))
    assert not told(("GPUDriver", driver("50%", total=4), 0), *out("a", "b"))
    assert told(("GPUDriver", driver("50%", total=3), 0), *out("a", "b")), "shares are rounded down"


def test_a_node_that_is_back_in_service_makes_room_for_another() -> None:
    back = ("GPUNodeInventory", inventory("a", "Soaking", outSince=None), 0.0)
    assert not told(("GPUDriver", driver("1"), 0), *out("a"), back, *out("b"))
    later = ("GPUNodeInventory", inventory("a", "Draining"), 0.0)
    assert not told(("GPUDriver", driver("1"), 0), *out("a"), later), "its next phase starts nobody"


def test_a_second_node_of_a_pool_is_told_and_one_of_another_is_not() -> None:
    mine, theirs = {"poolRef": {"name": "p"}}, {"poolRef": {"name": "q"}}
    cards = [("GPUDevice", device("a-1", **mine) | {}, 0.0), ("GPUDevice", device("b-1", **mine), 0.0)]
    for (_, card, _), node in zip(cards, "ab", strict=True):
        card["status"]["nodeName"] = node
    (said,) = told(("GPUDriver", driver("2", "1"), 0), *cards, *out("a", "b"))
    assert "2 of 2 nodes of pool p are out of service, 1 may be" in said
    cards[1][1]["status"].update(theirs)
    assert not told(("GPUDriver", driver("2", "1"), 0), *cards, *out("a", "b"))


def test_cards_beyond_the_budget_are_told_but_of_a_first_node() -> None:
    cards = []
    for name, node in (("a-1", "a"), ("a-2", "a"), ("b-1", "b")):
        card = device(name)
        card["status"]["nodeName"] = node
        cards.append(("GPUDevice", card, 0.0))
    (said,) = told(("GPUDriver", driver("2", cards=2), 0), *cards, *out("a", "b"))
    assert "3 cards of driver main are out of service, 2 may be" in said
    assert not told(("GPUDriver", driver("2", cards=1), 0), *cards, *out("a"))
    assert not told(("GPUDriver", driver("2", cards=3), 0), *cards, *out("a", "b"))


BAD: tuple[dict[str, Any], ...] = (
    {"revisions": [{"hash": REVISION, "strata": [{"key": "s", "result": "Bad"}]}]},
    {"revisions": [{"hash": REVISION, "halted": "PullFailed"}]},
    {"rollout": {"paused": True}},
)


@pytest.mark.parametrize("stops", BAD)
def test_a_node_that_is_started_against_what_is_known_is_told(stops: dict[str, Any]) -> None:
    (said,) = told(("GPUDriver", driver(**stops), 0), *out("a", at=6))
    assert "it is taken out of service, main " in said
    assert not told(("GPUDriver", driver(**stops), 0), *out("a", at=1)), "the start may have been under way"
    assert not told(("GPUDriver", driver(**stops), 0), ("GPUDriver", driver(), 3), *out("a", at=9))


def test_a_bad_revision_stops_neither_other_kinds_of_nodes_nor_a_way_back() -> None:
    there = ("GPUDriver", driver(**BAD[0]), 0.0)
    assert not told(there, ("GPUNodeInventory", inventory("a", stratum="t"), 9))
    assert not told(there, ("GPUNodeInventory", inventory("a", to=OLD, undoes=REVISION), 9))
    assert not told(there, ("GPUNodeInventory", inventory("a", handOver="ansible"), 9))


def test_a_wave_without_a_node_that_has_proved_the_revision_is_told() -> None:
    there = ("GPUDriver", driver(), 0.0)
    (said,) = told(there, ("GPUNodeInventory", inventory("a", wave=1), 9))
    assert f"in wave 1, and revision {REVISION} is proved on no node" in said
    assert not told(there, ("GPUNodeInventory", inventory("a", wave=0), 9)), "the canary"
    assert not told(there, ("GPUNodeInventory", inventory("a", wave=1, to=OLD, undoes=REVISION), 9))
    for result in ("Unproved", "Good"):
        proof = idle("b")
        proof["status"]["lastDriverWork"] = {"revision": REVISION, "result": result}
        found = told(there, ("GPUNodeInventory", proof, 8), ("GPUNodeInventory", inventory("a", wave=1), 9))
        assert bool(found) == (result == "Unproved")
    known = driver(revisions=[{"hash": REVISION, "strata": [{"key": "s", "result": "Good"}]}])
    assert not told(("GPUDriver", known, 0), ("GPUNodeInventory", inventory("a", wave=1), 9)), "its node may be gone"


@pytest.mark.parametrize("phase", ["Draining", "Clearing", "Removing", "Installing", "HandedOver"])
def test_a_card_that_is_promised_on_a_node_without_offers_is_told(phase: str) -> None:
    promise = {"requestID": "r", "pod": "team/x", "units": 1, "expiresAt": "2099-01-01T00:00:00Z"}
    work = ("GPUNodeInventory", inventory("n", phase), 0.0)
    found = told(work, ("GPUDevice", device(reservations=[promise]), 1))
    assert [said for said in found if f"it is reserved for r while node n is in phase {phase}" in said]
    before = ("GPUDevice", device(reservations=[promise]), 0.0)
    found = told(before, work, ("GPUDevice", device(reservations=[promise], state="Assigned"), 1))
    assert not [said for said in found if "while node n" in said], "it was promised before"
    found = told(("GPUNodeInventory", inventory("n", "Soaking", outSince=None), 0), before)
    assert not [said for said in found if "while node n" in said]


def held(node: str) -> dict[str, Any]:
    meta = {"name": "e", "namespace": "default", "uid": "u-e"}
    return {"metadata": meta, "reason": names.EVENT_FUSE_HELD, "regarding": {"name": node}}


def test_a_fuse_that_holds_a_node_for_planned_ones_alone_is_told() -> None:
    steps = [*out("a"), ("GPUNodeInventory", idle("b", ready=True), 0.0)]
    assert (
        "node b is kept in service while ['a'] alone are out of it, by plan" in told(*steps, ("Event", held("b"), 1))[0]
    )
    broken = ("GPUNodeInventory", idle("c", ready=False), 0.0)
    assert not told(*steps, broken, ("Event", held("b"), 1))
    assert not told(("GPUNodeInventory", idle("b"), 0), ("Event", held("b"), 1)), "nothing is out by plan"
