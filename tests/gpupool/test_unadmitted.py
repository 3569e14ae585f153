"""Pods that ask for a pool's cards without having been admitted to it: nobody likes them, and they count."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.gpupool.membership import orphaned
from tests.gpupool.world import Cluster
from tests.kit.cluster import ConflictError

CARDS = ("n1-0000-00-00-0", "n1-0000-01-00-0")
ADMITTED = pytest.mark.parametrize("label", [None, "other"], ids=["without a label", "admitted to another pool"])


def pooled(**allocation: Any) -> Cluster:
    """A pool `a` of two offered cards on one node."""
    made = Cluster()
    made.node("n1", 2)
    made.pool("a", **({"allocation": allocation} if allocation else {}))
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    return made


def pool(made: Cluster) -> GPUPool:
    (found,) = made.all(resources.GPUPOOL, GPUPool)
    return found


def counts(made: Cluster) -> tuple[int, int, int]:
    """total, used, available"""
    capacity = pool(made).status.capacity
    assert capacity is not None
    return capacity.total, capacity.used, capacity.available


def promised(made: Cluster) -> list[str]:
    return [r.pod for device in made.all(resources.GPUDEVICE, GPUDevice) for r in device.status.reservations]


def members(made: Cluster) -> list[str]:
    return [d.name for d in made.all(resources.GPUDEVICE, GPUDevice) if d.status.pool_ref is not None]


def change(made: Cluster, **allocation: Any) -> None:
    made.objects["GPUPool", "a"]["spec"]["allocation"] = allocation
    made.touch(("GPUPool", "a"))


def withdrawn_as_it_was_bound(made: Cluster) -> None:
    """The plugin withdraws the pool's cards, and pod `p` gets a node, of which the cache does not know: no further."""
    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    made.plugin()
    made.objects["Pod", "default/p"]["spec"]["nodeName"] = "n1"
    made.behind = frozenset({"default/p"})
    with pytest.raises(ConflictError):
        made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)


@ADMITTED
def test_it_is_counted_where_it_runs_before_kubelet_tells(label: str | None) -> None:
    made = pooled()
    made.unadmitted("p", "a", node="n1", label=label)
    made.settle()

    assert counts(made) == (2, 1, 1)
    (node,) = pool(made).status.nodes
    assert node.used == 1


def test_what_kubelet_tells_of_it_is_not_counted_twice() -> None:
    made = pooled()
    made.unadmitted("p", "a", node="n1")
    made.allocate(CARDS[1])
    made.settle()

    assert counts(made) == (2, 1, 1)


@ADMITTED
def test_one_that_waits_holds_nothing_and_is_reserved_for_by_nobody(label: str | None) -> None:
    made = pooled()
    made.unadmitted("p", "a", label=label)
    made.now += 3600
    made.settle()

    assert counts(made) == (2, 0, 2)
    assert made.view().queue("a", {}) is None


@ADMITTED
def test_who_waits_is_not_reserved_what_it_runs_on(label: str | None) -> None:
    made = pooled()
    for name in ("one", "two"):
        made.unadmitted(name, "a", node="n1", label=label)
    made.pod("waits", "a", "r")
    made.settle()
    assert promised(made) == []

    made.drop(resources.POD, "default/two")
    made.settle()
    assert promised(made) == ["waits"]


@ADMITTED
def test_no_card_leaves_under_it(label: str | None) -> None:
    made = pooled()
    made.unadmitted("p", "a", node="n1", label=label)
    for card in CARDS:
        made.annotate(card, None)
    made.settle()
    assert members(made) == list(CARDS), "kubelet has yet to tell which one it has"

    made.drop(resources.POD, "default/p")
    made.settle()
    assert members(made) == []


@ADMITTED
def test_no_card_leaves_when_it_was_bound_a_moment_ago(label: str | None) -> None:
    """The cache has it waiting; no list by label shows that it has a node."""
    made = pooled()
    made.unadmitted("p", "a", label=label)
    made.unadmitted("harmless", "a")
    for card in CARDS:
        made.annotate(card, None)
    withdrawn_as_it_was_bound(made)
    assert members(made) == list(CARDS)

    made.drop(resources.POD, "default/p")
    made.settle()
    assert members(made) == [], "one that waits elsewhere stops nothing"


def test_no_card_of_a_pool_that_is_gone_is_let_go_when_it_was_bound_a_moment_ago() -> None:
    made = pooled()
    made.unadmitted("p", "a", node="n1")
    made.behind = frozenset({"default/p"})
    made.drop(resources.GPUPOOL, "a")
    for kind in (resources.CONFIGMAP, resources.DAEMONSET):
        for key in [name for found, name in made.objects if found == kind.kind]:
            made.drop(kind, key)

    def release() -> None:
        made.execute(orphaned.release_orphaned_cards(made.view().without_pool("a"), made.now), names.MANAGER_POOL)

    with pytest.raises(ConflictError):
        release()
    assert members(made) == list(CARDS)
    made.drop(resources.POD, "default/p")
    release()
    assert members(made) == []


def test_maintenance_waits_for_it_and_counts_it() -> None:
    made = pooled()
    made.unadmitted("p", "a", node="n1")
    change(made, mode="TimeSlice")
    made.settle()
    told = kinds.find(pool(made).status.conditions, kinds.MAINTENANCE)
    assert told is not None
    assert (told.reason, "are promised some (1)." in told.message) == ("WaitingForPods", True)

    made.drop(resources.POD, "default/p")
    made.settle()
    assert counts(made) == (16, 0, 16)


def test_maintenance_does_not_end_when_it_was_bound_a_moment_ago() -> None:
    made = pooled()
    made.unadmitted("p", "a")
    change(made, mode="TimeSlice")
    withdrawn_as_it_was_bound(made)
    assert pool(made).status.applied_allocation.mode == "Exclusive"  # type: ignore[union-attr]


@pytest.mark.parametrize("lags", [False, True])
def test_no_card_is_divided_under_it(lags: bool) -> None:
    """The pool goes to MIG with the pod unknown to its Maintenance; the node's layout looks for itself."""
    made = pooled()
    change(made, mode="MIG", migProfile="1g.10gb")
    made.settle()
    layout = ("ConfigMap", f"{names.NAMESPACE}/{names.mig_layout('n1')}")
    before = dict(made.objects[layout]["data"])
    made.unadmitted("p", "a", node="n1")
    made.behind = frozenset({"default/p"}) if lags else frozenset()
    change(made, mode="MIG", migProfile="2g.20gb")
    applied = made.objects["GPUPool", "a"]["status"]["appliedAllocation"]
    applied["migProfile"] = "2g.20gb"
    made.touch(("GPUPool", "a"))
    for device in made.all(resources.GPUDEVICE, GPUDevice):
        made.objects["GPUDevice", device.name]["status"].pop("published", None)
        made.touch(("GPUDevice", device.name))
    for config in [key for key in made.objects if key[0] == "ConfigMap" and key != layout]:
        made.objects[config]["data"] = {}
        made.touch(config)
    actions = made.planned("GPUNodeInventory", "n1").actions
    if lags:
        with pytest.raises(ConflictError):
            made.execute(actions, names.MANAGER_POOL)
    else:
        made.execute(actions, names.MANAGER_POOL)
    assert made.objects[layout]["data"] == before

    made.drop(resources.POD, "default/p")
    made.execute(made.planned("GPUNodeInventory", "n1").actions, names.MANAGER_POOL)
    assert made.objects[layout]["data"] != before


def test_it_keeps_no_taint_off_the_node() -> None:
    """A taint waits for who was admitted before it."""
    made = pooled()
    made.unadmitted("p", "a", node="n1")
    made.objects["GPUPool", "a"]["spec"]["scheduling"] = {"taints": [{"key": "gpu", "effect": "NoExecute"}]}
    made.touch(("GPUPool", "a"))
    made.settle()
    (node,) = made.all(resources.NODE, Node)
    assert [taint.key for taint in node.spec.taints] == ["gpu"]
