"""A module that is switched off: what a pool does in which order, what stays, and how it comes back."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from controllers.api.conditions import MAINTENANCE, find, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap, Node
from controllers.gpupool import plan
from controllers.gpupool.operands import cards_in
from tests.gpupool.world import Cluster

TAINT = {"key": "gpu-only", "value": "yes", "effect": "NoSchedule"}
CARDS = ["n1-0000-00-00-0", "n1-0000-01-00-0"]


@pytest.fixture
def cluster() -> Cluster:
    """A pool that serves two cards of a tainted node; a pod runs on one of them."""
    made = Cluster()
    made.node("n1")
    made.pool("a", scheduling={"taints": [TAINT]})
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    made.pod("p", "a", "r1", node="n1", phase="Running")
    return made


def pool(cluster: Cluster) -> GPUPool:
    (found,) = cluster.all(resources.GPUPOOL, GPUPool)
    return found


def cards(cluster: Cluster) -> list[GPUDevice]:
    return cluster.all(resources.GPUDEVICE, GPUDevice)


def operands(cluster: Cluster) -> list[str]:
    return sorted(kind for kind, _ in cluster.objects if kind in ("ConfigMap", "DaemonSet"))


def step(cluster: Cluster) -> None:
    """One look at the pool, without its plugins."""
    seen = cluster.view().pool("a")
    assert seen is not None
    cluster.execute(plan.act(seen, cluster.now).actions, names.MANAGER_POOL)


def test_it_is_said_first_then_cards_are_withdrawn_and_only_then_the_programs_go(cluster: Cluster) -> None:
    cluster.enabled = False
    step(cluster)
    told = find(pool(cluster).status.conditions, MAINTENANCE)
    assert told is not None
    assert (told.status, told.reason) == ("True", "ModuleDisabled")
    assert operands(cluster) == ["ConfigMap", "DaemonSet"]
    step(cluster)
    assert [cards_in(config) for config in cluster.all(resources.CONFIGMAP, ConfigMap)] == [set()]
    step(cluster)
    assert operands(cluster) == ["ConfigMap", "DaemonSet"], "the plugin has yet to withdraw its cards"
    cluster.plugin()
    step(cluster)
    assert operands(cluster) == []


def test_a_plugin_that_does_not_answer_is_waited_for_only_so_long(cluster: Cluster) -> None:
    cluster.enabled = False
    for _ in range(4):
        step(cluster)
    assert operands(cluster) == ["ConfigMap", "DaemonSet"]
    cluster.now += cluster.settings.pools.plugin_patience + 1
    step(cluster)
    assert operands(cluster) == []


def test_nothing_is_left_on_nodes_and_everything_that_was_told_stays(cluster: Cluster) -> None:
    cluster.enabled = False
    cluster.settle()
    (node,) = cluster.all(resources.NODE, Node)
    assert not node.metadata.labels
    assert not node.metadata.annotations
    assert not node.spec.taints
    assert operands(cluster) == []
    assert pool(cluster).metadata.finalizers == ()
    assert [card.status.pool_ref.name for card in cards(cluster) if card.status.pool_ref] == ["a", "a"]
    assert [card.metadata.annotations[names.ASSIGNMENT] for card in cards(cluster)] == ["a", "a"]
    capacity = pool(cluster).status.capacity
    assert capacity is not None
    assert (capacity.total, capacity.used, capacity.unavailable, capacity.available) == (2, 1, 1, 0)


def test_enabled_again_it_is_as_it_was(cluster: Cluster) -> None:
    cluster.settle()
    before = {key: obj for key, obj in cluster.objects.items() if key[0] in ("ConfigMap", "Node")}
    labels = dict(before["Node", "n1"]["metadata"]["labels"])
    cluster.enabled = False
    cluster.settle()
    cluster.enabled = True
    cluster.settle()
    assert operands(cluster) == ["ConfigMap", "DaemonSet"]
    assert cluster.objects["Node", "n1"]["metadata"]["labels"] == labels
    assert cluster.objects["Node", "n1"]["spec"]["taints"] == [TAINT]
    assert pool(cluster).metadata.finalizers == (names.FINALIZER_POOL,)
    assert not is_true(pool(cluster).status.conditions, MAINTENANCE)
    assert all(card.status.published is not None for card in cards(cluster))


def test_a_pool_that_is_deleted_meanwhile_goes_at_once_and_its_cards_are_free_once_nobody_uses_them(
    cluster: Cluster,
) -> None:
    cluster.enabled = False
    cluster.settle()
    cluster.delete_pool("a")
    cluster._collect()
    assert cluster.pools() == set()
    seen = cluster.view().without_pool("a")
    assert [action.ref.name for action in plan.orphans(seen, cluster.now).writes] == []  # a pod is on the node
    cluster.drop(resources.POD, "default/p")
    cluster.execute(plan.orphans(cluster.view().without_pool("a"), cluster.now).actions, names.MANAGER_POOL)
    assert [card.status.pool_ref for card in cards(cluster)] == [None, None]


def test_a_pool_that_is_made_meanwhile_takes_nothing_until_the_module_is_enabled() -> None:
    cluster = Cluster()
    cluster.enabled = False
    cluster.node("n1")
    cluster.pool("a")
    cluster.annotate(CARDS[0], "a")
    cluster.settle()
    assert operands(cluster) == []
    assert pool(cluster).metadata.finalizers == ()
    assert all(card.status.pool_ref is None for card in cards(cluster))
    cluster.enabled = True
    cluster.settle()
    assert [card.name for card in cards(cluster) if card.status.published] == [CARDS[0]]


def test_the_layout_of_a_divided_card_stays_since_it_alone_remembers_whose_mig_mode_it_is() -> None:
    cluster = Cluster()
    cluster.node("n1", 1)
    cluster.pool("a", allocation={"mode": "MIG", "migProfile": "1g.10gb"})
    cluster.annotate(CARDS[0], "a")
    cluster.settle()
    layout = ("ConfigMap", f"{names.NAMESPACE}/{names.mig_layout('n1')}")
    data = cluster.objects[layout]["data"]
    cluster.enabled = False
    cluster.settle()
    assert cluster.objects[layout]["data"] == data
    assert operands(cluster) == ["ConfigMap"]
    cluster.enabled = True
    cluster.settle()
    assert cluster.objects[layout]["data"] == data
    assert cards(cluster)[0].status.published is not None
