"""A module that is switched off: what a pool does in which order, what stays, and how it comes back."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from controllers.api.conditions import MAINTENANCE, find, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap, Node
from controllers.gpupool.operands.device_plugin import cards_in
from controllers.gpupool.pool.plan import plan_orphans, plan_pool
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit.cluster import ConflictError
from tests.kit.manifests import body
from tests.kit.objects import allocation

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
    cluster.execute(plan_pool(seen, cluster.now).actions, names.MANAGER_POOL)


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


def gone(cluster: Cluster) -> list[str | None]:
    """The pools of the cards, after a look at the cards of the pool that is gone."""
    cluster.execute(plan_orphans(cluster.view().without_pool("a"), cluster.now).actions, names.MANAGER_POOL)
    return [card.status.pool_ref.name if card.status.pool_ref else None for card in cards(cluster)]


def serves(cluster: Cluster, card: str, pod: str) -> None:
    """The plugin has told that a pod has the card; nobody tells more."""
    with cluster.edit("GPUDevice", card) as found:
        found["status"]["allocations"] = [body(allocation(pod, namespace="default"))]


def without_a_word(cluster: Cluster) -> None:
    """The plugins are gone before they have withdrawn anything, and then so is the pool."""
    cluster.enabled = False
    step(cluster)
    cluster.now += cluster.settings.pools.plugin_patience + 1
    step(cluster)
    assert operands(cluster) == []
    cluster.delete_pool("a")
    assert cluster.pools() == set()
    assert all(card.status.published is not None for card in cards(cluster))


@pytest.mark.parametrize("enabled", [False, True])
def test_a_pool_that_is_deleted_meanwhile_goes_at_once_and_its_cards_are_free_once_nobody_uses_them(
    cluster: Cluster, *, enabled: bool
) -> None:
    """What its plugins told last stands there for ever: kubelet has nobody left to tell that the pod has ended."""
    serves(cluster, CARDS[0], "p")
    without_a_word(cluster)
    cluster.enabled = enabled
    assert gone(cluster) == ["a", "a"]  # a pod is on the node
    cluster.objects["Pod", "default/p"]["status"]["phase"] = "Succeeded"
    assert gone(cluster) == [None, None]
    assert all(card.status.published is None and not card.status.allocations for card in cards(cluster))
    cluster.enabled = True
    cluster.pool("b")
    for card in CARDS:
        cluster.annotate(card, "b")
    cluster.settle()
    assert [card.status.published.pool for card in cards(cluster) if card.status.published] == ["b", "b"]


def test_an_automatic_pool_that_was_being_deleted_leaves_its_name_on_no_card(cluster: Cluster) -> None:
    """Its pod still runs, and the module that is switched off waits for nobody."""
    with cluster.edit("GPUPool", "a") as found:
        found["spec"].update(AUTOMATIC)
    cluster.delete_pool("a")
    cluster.settle()
    assert cluster.pools() == {"a"}
    cluster.enabled = False
    cluster.settle()
    assert cluster.pools() == set()
    assert not any(names.ASSIGNMENT in card.metadata.annotations for card in cards(cluster))


def test_cards_of_a_pool_that_is_gone_stay_while_somebody_whom_no_cache_knows_may_use_or_offer_them(
    cluster: Cluster,
) -> None:
    """A pod that went round the webhook, one that is new, a plugin that has yet to end."""
    serves(cluster, CARDS[0], "stray")
    without_a_word(cluster)
    cluster.drop(resources.POD, "default/p")
    plugin = {"name": "plugin", "namespace": names.NAMESPACE, "labels": {names.LABEL_POOL: "a"}}
    for meta in ({"name": "stray"}, {"name": "new", "labels": {names.LABEL_POOL: "a"}}, plugin):
        key = f"{meta.get('namespace', 'default')}/{meta['name']}"
        cluster.put(resources.POD, {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})
        cluster.hidden = frozenset({key})
        with pytest.raises(ConflictError):
            gone(cluster)
        cluster.drop(resources.POD, key)
    assert gone(cluster) == [None, None]


@pytest.mark.parametrize("left", ["DaemonSet", "ConfigMap"])
@pytest.mark.parametrize("known", [True, False])
def test_cards_of_a_pool_that_is_gone_stay_while_an_operand_of_it_is_there(
    cluster: Cluster, *, left: str, known: bool
) -> None:
    kept = {key: obj for key, obj in cluster.objects.items() if key[0] == left}
    without_a_word(cluster)
    cluster.drop(resources.POD, "default/p")
    cluster.objects |= kept
    if known:
        assert gone(cluster) == ["a", "a"]
        return
    cluster.hidden = frozenset(key for _, key in kept)
    with pytest.raises(ConflictError):
        gone(cluster)


@pytest.mark.parametrize("away", ["NotReady", "gone"])
def test_cards_of_a_pool_that_is_gone_stay_where_nobody_answers(cluster: Cluster, away: str) -> None:
    without_a_word(cluster)
    cluster.drop(resources.POD, "default/p")  # by whoever gave up waiting
    if away == "gone":
        cluster.drop(resources.NODE, "n1")
    else:
        cluster.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert gone(cluster) == ["a", "a"]


def test_a_card_that_is_promised_for_a_pool_that_is_gone_stays_until_the_promise_ends(cluster: Cluster) -> None:
    without_a_word(cluster)
    cluster.drop(resources.POD, "default/p")
    cluster.reserve(CARDS[0], pod="q")
    assert gone(cluster) == ["a", None]
    cluster.now += 16
    assert gone(cluster) == [None, None]


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
