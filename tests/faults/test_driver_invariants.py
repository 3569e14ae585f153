"""Each invariant of drivers can fail: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from reliability.faults import driver_invariants
from reliability.faults.process_proxy import Sent
from reliability.faults.trace import key_of
from tests.faults.test_invariants import device, told

OLD, NEW = "0000000000-ubuntu24.04-any", "1111111111-ubuntu24.04-any"


def node(label: str | None = None, uid: str = "u-n", **spec: Any) -> dict[str, Any]:
    labels = {names.DRIVER_VARIANT: label} if label else {}
    return {"metadata": {"name": "n", "uid": uid, "labels": labels}, "spec": spec}


def inventory(uid: str = "u-n", **work: Any) -> dict[str, Any]:
    status = {"driverWork": {"phase": "Installing", "nodeUID": uid, **work}} if work else {}
    return {"metadata": {"name": "n", "uid": "u-i"}, "status": status}


def driver_pod(name: str, owner: str = "DaemonSet", phase: str = "Running", **meta: Any) -> dict[str, Any]:
    about = {"name": name, "namespace": names.NAMESPACE, "uid": f"u-{name}", "labels": {names.LABEL_DRIVER: "main"}}
    owners = [{"kind": owner, "name": "o"}]
    return {
        "metadata": about | {"ownerReferences": owners} | meta,
        "spec": {"nodeName": "n"},
        "status": {"phase": phase},
    }


def test_a_cordon_is_told() -> None:
    assert "it is cordoned" in told(("Node", node(unschedulable=True), 0))[0]
    assert not told(("Node", node(), 0))


def test_a_write_about_cordons_is_told_whatever_became_of_it() -> None:
    def sent(body: Any, resource: str = "nodes") -> Sent:
        return Sent("driver", "patch", resource, None, "n", None, 0.0, 403, body)

    assert driver_invariants.cordons([sent({"spec": {"unschedulable": None}})] * 2) == [
        "driver: patch nodes/n says whether pods may come to the node"
    ]
    assert not driver_invariants.cordons([sent({"metadata": {}}), sent(b"junk"), sent({"spec": None}, "gpupools")])


@pytest.mark.parametrize("work", [{"to": NEW}, {"from": NEW, "to": OLD}])
def test_the_label_is_one_that_the_nodes_work_speaks_of(work: dict[str, str]) -> None:
    assert not told(("Node", node(), 0), ("GPUNodeInventory", inventory(**work), 1), ("Node", node(NEW), 2))


def test_a_label_that_changes_without_work_or_to_something_else_is_told() -> None:
    there = ("Node", node(OLD), 0)
    initial = (("Node", node(OLD)),)
    assert not told(there, initial=initial)
    (said,) = told(("Node", node(NEW), 1), initial=initial)
    assert f"its label turns from {OLD} to {NEW}, and its work says nothing" in said
    assert "turns from" in told(("Node", node(), 1), initial=initial)[0], "it is not taken away without work, either"
    other = ("GPUNodeInventory", inventory(to="2222222222-x-any"), 1)
    assert "and its work says {" in told(other, ("Node", node(NEW), 2), initial=initial)[0]


def test_work_on_another_machine_of_that_name_gives_no_label() -> None:
    work = ("GPUNodeInventory", inventory(uid="u-former", to=NEW), 0)
    assert "turns from None" in told(work, ("Node", node(NEW), 1))[0]


def test_two_pods_that_bring_a_driver_onto_a_node_are_told() -> None:
    one, two = driver_pod("one"), driver_pod("two")
    assert "node n has 2 pods that bring a driver" in told(("Pod", one, 0), ("Pod", two, 1))[0]
    leaving = driver_pod("one", deletionTimestamp="2026-01-01T00:00:00Z")
    assert not told(("Pod", leaving, 0), ("Pod", two, 1))
    assert not told(("Pod", driver_pod("one", phase="Failed"), 0), ("Pod", two, 1))
    assert not told(("Pod", driver_pod("check", owner="GPUDriver"), 0), ("Pod", two, 1))


@pytest.mark.parametrize("used", [{"published": {"pool": "p", "slots": 1}}, {"allocations": [{"podUID": "x"}]}])
def test_a_driver_that_goes_from_under_cards_is_told(used: dict[str, Any]) -> None:
    card = device(**used)
    initial = (("Node", node()), ("GPUDevice", card), ("Pod", driver_pod("one")))
    said = [sentence for sentence in told(("-Pod", driver_pod("one"), 0), initial=initial) if "from under" in sentence]
    assert said == [f"at version 1, Pod {names.NAMESPACE}/one: the driver goes from under cards of node n: n-1"]
    assert not told(("-Pod", driver_pod("one"), 0), initial=(("Node", node()), ("GPUDevice", device())))
    assert not told(("-Pod", driver_pod("one"), 0)), "nor with its node"
    assert not told(("-Pod", driver_pod("check", owner="GPUDriver"), 0), initial=(("Node", node()),))


def test_what_is_left_at_the_end_is_told() -> None:
    tainted = node(taints=[{"key": names.DRIVER_TAINT, "effect": "NoSchedule"}])
    check = driver_pod("check", owner="GPUDriver")
    left = [("Node", tainted), ("GPUNodeInventory", inventory(reason="Late")), ("Pod", check)]
    assert driver_invariants.at_end({key_of(kind, obj): obj for kind, obj in left}) == [
        "GPUNodeInventory n: is still at work: Installing Late",
        f"Node n: still has taint {names.DRIVER_TAINT}",
        f"Pod {names.NAMESPACE}/check: still looks at node n",
    ]
    well = [("Node", node()), ("GPUNodeInventory", inventory()), ("Pod", driver_pod("one"))]
    assert not driver_invariants.at_end({key_of(kind, obj): obj for kind, obj in well})
