"""A card whose Node was deleted: to its pool it is not there, and once it is recognised it is where it was."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.domain.assignment import assigned_pool
from controllers.gpupool.pool.node_outage import explain_node_outage
from controllers.gpupool.pool.plan import plan_orphans
from controllers.gpupool.views import NodeFacts
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit import conditions, objects
from tests.kit.cluster import ConflictError
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

    assert device(cluster).metadata.annotations == {}


def test_a_pool_that_is_deleted_does_not_wait_for_it(cluster: Cluster) -> None:
    node_goes(cluster)
    cluster.delete_pool("a")
    cluster.settle()

    assert cluster.all(resources.GPUPOOL, GPUPool) == []
    assert [node.name for node in cluster.all(resources.NODE, Node)] == ["n2"]
    assert [one.name for one in cluster.all(resources.GPUNODEINVENTORY, GPUNodeInventory)] == ["n2"]


@pytest.mark.parametrize("node", [None, objects.node("n1", ready=False)], ids=["gone", "not ready"])
def test_a_card_whose_node_is_away_says_what_becomes_of_its_assignment(node: Node | None) -> None:
    """Its record outlives the Node where a person confirmed it: nobody is told that it goes."""
    said = explain_node_outage(NodeFacts(node, None), "n1")

    assert "leave" in said
    assert "inventory.rememberFor" in said
    assert "goes with it" not in said
    assert "go with it" not in said


def made_anew(cluster: Cluster) -> None:
    """Somebody makes a pool of the name that another pool had; a time later than all that happened before."""
    cluster.pool("a", meta={"creation_timestamp": "2026-01-01T12:00:00Z"})


@pytest.mark.parametrize("how", ["deleted", "gone without a word", "made anew while nobody looked"])
def test_a_pool_that_is_made_anew_under_the_name_of_its_pool_does_not_get_it(cluster: Cluster, how: str) -> None:
    """A card was confirmed for a pool, and not for whatever is called so by the time that the card is back."""
    node_goes(cluster)
    cluster.drop(resources.POD, "default/p")
    if how == "deleted":
        cluster.delete_pool("a")
        cluster.settle()
    else:  # the module was disabled, or its finalizer taken off by hand
        cluster.drop(resources.GPUPOOL, "a")
    if how == "gone without a word":
        cluster.execute(plan_orphans(cluster.view().without_pool("a"), cluster.now).actions, names.MANAGER_POOL)
    made_anew(cluster)
    cluster.settle()
    node_is_back(cluster)
    cluster.settle()
    with cluster.edit("GPUDevice", GONE) as card:
        card["status"].pop("allocations", None)  # its plugin has looked
    cluster.settle()

    found = device(cluster)
    assert (assigned_pool(found), found.status.pool_ref, found.status.published) == (None, None, None)


def test_the_pool_that_it_was_confirmed_for_keeps_it(cluster: Cluster) -> None:
    node_goes(cluster)
    cluster.settle()

    assert assigned_pool(device(cluster)) == "a"


def test_what_a_person_says_of_it_meanwhile_for_a_new_pool_holds(cluster: Cluster) -> None:
    """As a backup that is applied does: the pool is younger than the deletion of the Node, and so is the word."""
    node_goes(cluster)
    cluster.drop(resources.POD, "default/p")
    cluster.pool("b", meta={"creation_timestamp": "2026-01-01T12:00:00Z"})
    cluster.annotate(GONE, "b")
    cluster.settle()
    node_is_back(cluster)
    with cluster.edit("GPUDevice", GONE) as card:
        card["status"].pop("allocations", None)
    cluster.settle()

    assert device(cluster).home == "b"


def test_what_a_person_says_of_it_meanwhile_for_a_pool_of_the_same_name_holds_too(cluster: Cluster) -> None:
    """It was removed each time: the card's place in the pool that is gone stayed on the record."""
    node_goes(cluster)
    with cluster.edit("GPUDevice", GONE) as card:  # which keeps the record, whatever becomes of the annotation
        card["metadata"]["labels"] = {names.LABEL_IGNORE: "true"}
    cluster.drop(resources.GPUPOOL, "a")
    made_anew(cluster)
    cluster.settle()
    assert assigned_pool(device(cluster)) is None
    cluster.drop(resources.POD, "default/p")  # which Kubernetes collects a while after the Node
    cluster.settle()

    cluster.annotate(GONE, "a")
    cluster.settle()
    assert assigned_pool(device(cluster)) == "a"
    node_is_back(cluster)
    with cluster.edit("GPUDevice", GONE) as card:
        card["metadata"]["labels"] = {}
    cluster.settle()
    assert device(cluster).home == "a"


def test_that_its_pool_is_gone_is_asked_of_the_quorum(cluster: Cluster) -> None:
    node_goes(cluster)
    pool = cluster.objects["GPUPool", "a"]
    cluster.drop(resources.GPUPOOL, "a")
    made = plan_orphans(cluster.view().without_pool("a"), cluster.now)
    assert made.writes

    cluster.objects["GPUPool", "a"] = pool  # the cache was behind
    with pytest.raises(ConflictError):
        cluster.execute(made.actions, names.MANAGER_POOL)
    assert assigned_pool(device(cluster)) == "a"


def device(cluster: Cluster) -> GPUDevice:
    (found,) = (one for one in cluster.all(resources.GPUDEVICE, GPUDevice) if one.name == GONE)
    return found
