"""What is kept of nodes, revisions and cards is worked out anew after each change of what it was made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controllers.api import names, resources
from tests.driver.draining import Draining
from tests.driver.world import NEXT
from tests.kit import conditions, objects

DRA: dict[str, Any] = {"resourceClaims": [{"name": "card", "resourceClaimName": "claim"}]}
CHANGES: dict[str, Callable[[Draining], object]] = {
    "a node's label": lambda made: made.merge("Node", "n1", {"metadata": {"labels": {names.DRIVER_OPT_OUT: "true"}}}),
    "a node goes": lambda made: made.drop_node("n2"),
    "a node comes": lambda made: made.node("n3"),
    "what an agent says": lambda made: made.report("n1", kernel="6.8.0-79-generic"),
    "a node leaves service": lambda made: made._service("n1", False),
    "a node is nobody's business": lambda made: said(made, "ManagedDisabled"),
    "a last work": lambda made: ended(made, "Failed"),
    "a card is lost": lambda made: made.card("n1", {"lostSince": objects.LONG_AGO}),
    "a card is another one": lambda made: made.card("n1", {"hardware": {"pci": {"device": "20b5"}}}),
    "a card leaves its pool": lambda made: made.card("n1", {"poolRef": None}),
    "a pod comes": lambda made: made.pod("late"),
    "a pod goes": lambda made: made.finish("first"),
    "a claim is given": lambda made: made.put(resources.RESOURCECLAIM, claim()),
    "a ConfigMap's content": lambda made: made.merge(
        "ConfigMap", f"{names.NAMESPACE}/files", {"data": {"a.list": "y"}}
    ),
    "a ConfigMap goes": lambda made: made.drop(resources.CONFIGMAP, f"{names.NAMESPACE}/files"),
    "another version": lambda made: made.merge("GPUDriver", "main", {"spec": {"version": NEXT}}),
    "a GPUDriver comes": lambda made: made.driver("second", priority=3),
    "a GPUDriver goes": lambda made: made.drop(resources.GPUDRIVER, "main"),
    "a revision is bad": lambda made: judged(made, "Bad"),
}


def said(made: Draining, kind: str) -> None:
    with made.edit("GPUNodeInventory", "n1") as inventory:
        conditions.put(inventory, objects.condition(kind, True))


def ended(made: Draining, result: str) -> None:
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["lastDriverWork"] |= {"result": result, "fault": "Revision"}


def judged(made: Draining, result: str) -> None:
    with made.edit("GPUDriver", "main") as driver:
        for one in driver["status"]["revisions"]:
            one |= {"result": result, "strata": [{"key": at["key"], "result": result} for at in one["strata"]]}


def claim() -> dict[str, Any]:
    """A ResourceClaim of pod `dra` that has a card by DRA."""
    device = {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0", "request": "card"}
    status = {"allocation": {"devices": {"results": [device]}}}
    return {"metadata": {"name": "claim", "namespace": "team"}, "spec": {}, "status": status}


@pytest.fixture
def made() -> Draining:
    """Two nodes that serve, pods on one of them, and a process that has looked at everything."""
    cluster = Draining()
    files = {"name": "files", "namespace": names.NAMESPACE, "labels": {}}
    cluster.put(resources.CONFIGMAP, {"metadata": files, "data": {"a.list": "x"}})
    for name in ("n1", "n2"):
        cluster.node(name)
    cluster.driver(build={"repositories": {"configMap": "files"}})
    cluster.pod("first")
    cluster.pod("dra", resource="cpu")
    cluster.merge("Pod", "team/dra", {"spec": DRA})
    cluster.settle()
    cluster.check_process()
    return cluster


@pytest.mark.parametrize("change", CHANGES)
def test_a_process_that_runs_sees_what_one_sees_that_has_just_started(made: Draining, change: str) -> None:
    before = (made.view().rollout("main"), made.view().node("n1"), made.view().driver("main"))
    CHANGES[change](made)
    after = (made.view().rollout("main"), made.view().node("n1"), made.view().driver("main"))

    assert before != after, "nothing follows from the change"
    made.check_process()
