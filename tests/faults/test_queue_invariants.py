"""Each invariant of the queue can fail: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.gangs import GANG
from controllers.domain.clock import stamp
from tests.faults.test_eventual_invariants import allocation, reservation
from tests.faults.test_invariants import NOW, SLACK, device, told

OURS, THEIRS = names.CARDS_GATE, "example.com/theirs"
MUCH = SLACK + 10


def pool(**queue: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": "u-p", "generation": 1}, "spec": {"queue": queue}, "status": {}}


def pod(name: str, *gates: str, units: int = 1, created: str = "2026-01-01T00:00:01Z", **marks: str) -> dict[str, Any]:
    """A pod whose request bears its name. `marks`: annotations; `devices` and `gang` by these words."""
    known = {"devices": names.DEVICES, "gang": GANG}
    annotations = {names.REQUEST_ID: name} | {known[key]: value for key, value in marks.items()}
    meta = {
        "name": name,
        "namespace": "team",
        "uid": f"u-{name}",
        "creationTimestamp": created,
        "labels": {names.LABEL_POOL: "p"},
        "annotations": annotations,
    }
    limits = {names.resource_name("p"): str(units)}
    spec = {"containers": [{"resources": {"limits": limits}}], "schedulingGates": [{"name": gate} for gate in gates]}
    return {"metadata": meta, "spec": spec}


def card(name: str = "n-1", node: str = "n", **status: Any) -> dict[str, Any]:
    made = device(name, poolRef={"name": "p"}, published={"pool": "p", "slots": 1}, **status)
    made["status"]["nodeName"] = node
    return made


def reserved(*requests: str, **more: Any) -> list[dict[str, Any]]:
    return [reservation(request, NOW + 999) | {"namespace": "team"} | more for request in requests]


def test_a_pod_goes_on_when_all_its_cards_are_reserved_on_one_node() -> None:
    waits, goes = ("Pod", pod("a", OURS, units=2), 0.0), ("Pod", pod("a", units=2, devices="n-1,n-2"), 1.0)
    first = ("GPUDevice", card("n-1", reservations=reserved("a")), 0.5)

    assert not told(waits, first, ("GPUDevice", card("n-2", reservations=reserved("a")), 0.6), goes)
    (said,) = told(waits, first, goes)
    assert "it was released with {'n': 1} of 2 slots reserved for it" in said
    other = ("GPUDevice", card("n-3", reservations=reserved("a")), 0.6)
    assert "it was released for ['n-1', 'n-2'], and ['n-1', 'n-3'] are" in told(waits, first, other, goes)[0]
    over = [{**one, "expiresAt": stamp(NOW - SLACK)} for one in reserved("a")]
    assert "of 2 slots reserved" in told(waits, first, ("GPUDevice", card("n-2", reservations=over), 0.6), goes)[0]
    elsewhere = ("GPUDevice", card("n-2", node="m", reservations=reserved("a")), 0.6)
    assert "{'n': 1, 'm': 1} of 2 slots" in told(waits, first, elsewhere, goes)[0]


def test_a_reservation_that_a_clock_behind_has_dated_counts_as_its_writer_meant_it() -> None:
    over = [{**one, "expiresAt": stamp(NOW - 600 + SLACK)} for one in reserved("a")]
    steps = [("Pod", pod("a", OURS), 0.0), ("GPUDevice", card(reservations=over), 0.5)]
    goes = ("Pod", pod("a", devices="n-1"), 1.0)

    assert "{} of 1 slots" in told(*steps, goes)[0]
    assert not told(*steps, goes, behind=600)
    assert "{} of 1 slots" in told(steps[0], goes, behind=600)[0]
    assert "{} of 1 slots" in told(*steps, goes, behind=500)[0]


def test_a_pod_goes_on_without_cards_where_its_pool_asks_an_autoscaler() -> None:
    waits, goes = ("Pod", pod("a", OURS), 0.0), ("Pod", pod("a"), 1.0)

    assert "it was released without cards" in told(("GPUPool", pool(), 0), waits, goes)[0]
    assert not told(("GPUPool", pool(scaleUp={"after": "1m"}), 0), waits, goes)


def test_gates_of_others_are_left_to_them() -> None:
    held = card(reservations=reserved("a"))
    waits = ("Pod", pod("a", OURS, THEIRS), 0.0)
    alone, goes = ("Pod", pod("a", OURS), 1.0), ("Pod", pod("a", devices="n-1"), 2.0)

    assert f"our gate went together with those of others: {THEIRS}" in told(waits, ("GPUDevice", held, 1), goes)[0]
    assert not told(waits, alone, ("GPUDevice", held, 1.5), goes, until=NOW + 3)


def test_nothing_stays_reserved_behind_a_gate_of_others() -> None:
    steps = ("Pod", pod("a", OURS, THEIRS), 0.0), ("GPUDevice", card(reservations=reserved("a")), 0.0)

    assert f"team/a has cards reserved behind {THEIRS}" in told(*steps, until=NOW + MUCH)[0]
    assert not told(*steps, ("GPUDevice", card(), SLACK - 1), until=NOW + MUCH)


def test_a_gang_is_wholly_let_go_on_or_waits_wholly() -> None:
    both = [("Pod", pod(name, OURS, gang="g"), 0.0) for name in ("a", "b")]
    cards = [("GPUDevice", card(f"n-{name}", reservations=reserved(name)), 0.5) for name in ("a", "b")]
    goes = [("Pod", pod(name, gang="g", devices=f"n-{name}"), 1.0) for name in ("a", "b")]

    assert "of gang g team/b wait" in told(*both, *cards, goes[0], until=NOW + MUCH)[0]
    assert not told(*both, *cards, *goes, until=NOW + MUCH)
    assert not told(both[0], ("Pod", pod("b", THEIRS, gang="g"), 0.0), until=NOW + MUCH), "it has yet to be released"
    assert not told(*both, *cards, goes[0], ("-Pod", pod("b", OURS, gang="g"), 2.0), until=NOW + MUCH)


@pytest.mark.parametrize(
    ("waited", "units", "expected"),
    [(MUCH, 2, "it was released before team/old"), (MUCH, 1, "team/old"), (SLACK - 1, 2, ""), (MUCH, 3, "")],
    ids=["long enough to be seen", "for less", "too short to be seen", "for more than there was"],
)
def test_nobody_is_let_go_on_before_an_older_one_that_was_there_to_be_seen(
    waited: float, units: int, expected: str
) -> None:
    old = pod("old", OURS, created="2026-01-01T00:00:00Z", units=units)
    shared = card(reservations=[{**one, "slots": 2} for one in reserved("young")])
    shared["status"]["published"]["slots"] = 2
    steps = [
        ("Pod", pod("young", OURS, units=2), 0.0),
        ("GPUDevice", shared, waited),
        ("Pod", pod("young", units=2, devices="n-1"), waited),
    ]
    said = told(("Pod", old, 0.0), *steps, until=NOW + MUCH)
    assert expected in said[0] if expected else not said
    assert not told(("Pod", old, 0.0), *steps, until=NOW + MUCH, away=((NOW, NOW + MUCH),))
    condition = {"type": names.QUEUED, "status": "True", "reason": "ReleaseDenied"}
    denied = old | {"status": {"conditions": [condition]}}
    assert not told(("Pod", denied, 0.0), *steps, until=NOW + MUCH), "others come before one that may not go on"
    urgent = {**steps[2][1], "spec": {**steps[2][1]["spec"], "priority": 7}}
    assert not told(("Pod", old, 0.0), *steps[:2], ("Pod", urgent, waited), until=NOW + MUCH)


@pytest.mark.parametrize("share", ["team", "*"])
def test_a_namespace_has_no_more_than_its_limit(share: str) -> None:
    limited = ("GPUPool", pool(namespaces=[{"name": share, "limit": 1}]), 0)
    # Kubelet gave the pod another card than that which is reserved for it.
    given = card("n-1", allocations=[allocation("u-a") | {"namespace": "team"}])
    before = [limited, ("Pod", pod("a", devices="n-3"), 0), ("GPUDevice", given, 0)]
    before += [("GPUDevice", card("n-3", reservations=reserved("a")), 0)]
    more = ("GPUDevice", card("n-2", reservations=reserved("b")), 1)
    waits = ("Pod", pod("b", OURS), 0)

    assert not told(*before)
    (said,) = told(*before, waits, more)
    assert "namespace team has 2 slots of pool p, whose limit for it is 1" in said
    # What is reserved for a pod that is gone, or has ended, is nobody's any more.
    assert not told(*before, waits, ("-Pod", pod("a"), 0.5), more)
    assert not told(*before, waits, ("Pod", pod("a") | {"status": {"phase": "Succeeded"}}, 0.5), more)
    free = ("GPUPool", pool(namespaces=[{"name": "team"}, {"name": "*", "limit": 1}]), 0)
    assert not told(free, *before[1:], waits, more), "its own entry has no limit"
