"""A card whose Node was deleted: to its pool it is not there, and once it is recognised it is where it was."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit import conditions, objects
from tests.kit.objects import condition

GONE, OTHER = "n1-0000-00-00-0", "n2-0000-00-00-0"


@pytest.fixture
def cluster() -> Cluster:
    """A pool with a card on each of two nodes; the pod on the first node has its card."""
    made = Cluster()
    made.pool("a")
    for node in ("n1", "n2"):
        made.node(node, 1)
        made.annotate(f"{node}-0000-00-00-0", "a")
    made.settle()
    made.pod("p", "a", "r", node="n1", phase="Running")
    made.allocate(GONE)
    made.settle()
    return made


def node_goes(cluster: Cluster) -> None:
    """What gpu-inventory-controller writes when a Node is deleted."""
    cluster.drop(resources.NODE, "n1")
    cluster.drop(resources.GPUNODEINVENTORY, "n1")
    with cluster.edit("GPUDevice", GONE) as card:
        card["status"]["nodeGoneSince"] = "2026-01-01T00:00:00Z"
        conditions.put(card, condition("InventoryIncomplete", True, "NodeGone"))


def node_is_back(cluster: Cluster, *, recognised: bool = True) -> None:
    cluster.add(objects.node("n1"), objects.inventory("n1", conditions=[condition("ReadyForPooling", True)]))
    with cluster.edit("GPUDevice", GONE) as card:
        if recognised:
            del card["status"]["nodeGoneSince"]
        conditions.put(card, condition("InventoryIncomplete", not recognised, "NotRecognised"))


def counts(cluster: Cluster) -> tuple[int, int, int]:
    pool = cluster.all(resources.GPUPOOL, GPUPool)[0]
    found = pool.status.capacity
    assert found is not None
    return found.total, found.used, found.available


def test_its_pool_goes_on_without_it(cluster: Cluster) -> None:
    assert counts(cluster) == (2, 1, 1)
    node_goes(cluster)
    cluster.settle()

    assert counts(cluster)[0] == 1
    assert all(GONE not in str(made) for (kind, _), made in cluster.objects.items() if kind == "ConfigMap")


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "missed"])
def test_it_comes_back_with_its_pool_and_its_pod(cluster: Cluster, seen: bool) -> None:
    node_goes(cluster)
    if seen:
        cluster.settle()
    node_is_back(cluster)
    cluster.settle()

    assert counts(cluster) == (2, 1, 1)


def test_until_it_is_recognised_nobody_gets_it(cluster: Cluster) -> None:
    node_goes(cluster)
    node_is_back(cluster, recognised=False)
    cluster.settle()

    assert counts(cluster)[0] == 1
    # The label calls the pool's pods, and its plugin with its token, to whatever machine took the name.
    labels = {node.name: node.metadata.labels for node in cluster.all(resources.NODE, Node)}
    key = names.pool_node_label("a")
    assert (key in labels["n1"], key in labels["n2"]) == (False, True)


def test_no_pool_takes_it_by_itself_while_it_is_not_recognised(cluster: Cluster) -> None:
    node_goes(cluster)
    with cluster.edit("GPUDevice", GONE) as card:
        for key in ("poolRef", "published", "allocations"):
            card["status"].pop(key, None)
        del card["metadata"]["annotations"]
    cluster.drop(resources.POD, "default/p")
    cluster.pool("b", **AUTOMATIC)
    node_is_back(cluster, recognised=False)
    cluster.settle()

    (device,) = (d for d in cluster.all(resources.GPUDEVICE, GPUDevice) if d.name == GONE)
    assert device.metadata.annotations == {}


def test_a_pool_that_is_deleted_does_not_wait_for_it(cluster: Cluster) -> None:
    node_goes(cluster)
    cluster.delete_pool("a")
    cluster.settle()

    assert cluster.all(resources.GPUPOOL, GPUPool) == []
    assert [node.name for node in cluster.all(resources.NODE, Node)] == ["n2"]
    assert [one.name for one in cluster.all(resources.GPUNODEINVENTORY, GPUNodeInventory)] == ["n2"]
