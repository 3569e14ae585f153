"""The fence, step by step: nobody who was admitted is overtaken, and no card is offered twice."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from controllers.api.conditions import CONFIGURED, find
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap
from tests.gpupool.world import Cluster
from tests.kit.cluster import ConflictError

CARD = "n1-0000-00-00-0"


def pooled() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", 1)
    cluster.pool("a")
    cluster.annotate(CARD, "a")
    cluster.settle()
    return cluster


def pool_of(cluster: Cluster) -> str | None:
    (device,) = cluster.all(resources.GPUDEVICE, GPUDevice)
    return device.status.pool_ref.name if device.status.pool_ref else None


def pool_plan(cluster: Cluster) -> None:
    cluster.execute(cluster.planned("GPUPool", "a").actions, names.MANAGER_POOL)


def reserve(cluster: Cluster, request: str = "r1") -> None:
    cluster.reserve(CARD, request)


def test_a_card_leaves_only_after_its_plugin_withdrew_it() -> None:
    cluster = pooled()
    cluster.annotate(CARD, None)

    pool_plan(cluster)
    assert pool_of(cluster) == "a"

    cluster.plugin()
    pool_plan(cluster)
    assert pool_of(cluster) is None


def test_a_reserved_card_stays_until_the_reservation_ends() -> None:
    cluster = pooled()
    reserve(cluster)
    cluster.annotate(CARD, None)

    pool_plan(cluster)
    cluster.plugin()
    pool_plan(cluster)
    assert pool_of(cluster) == "a"

    cluster.now += 16
    cluster.settle()
    assert pool_of(cluster) is None


def test_a_card_in_use_stays_until_its_pod_is_gone() -> None:
    cluster = pooled()
    cluster.allocate(CARD)
    cluster.annotate(CARD, None)

    cluster.settle()
    assert pool_of(cluster) == "a"

    del cluster.objects["GPUDevice", CARD]["status"]["allocations"]
    cluster.touch(("GPUDevice", CARD))
    cluster.settle()
    assert pool_of(cluster) is None


def test_a_bound_pod_that_kubelet_has_not_reported_holds_the_card() -> None:
    cluster = pooled()
    cluster.pod("p", "a", "r1", node="n1", phase="Pending")
    cluster.annotate(CARD, None)

    cluster.settle()
    assert pool_of(cluster) == "a"

    cluster.drop(resources.POD, "default/p")
    cluster.settle()
    assert pool_of(cluster) is None


@pytest.mark.parametrize("main", [1, 0])
@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_of_what_init_containers_had_kubelet_does_not_tell_and_that_holds_no_card_but_theirs(
    phase: str, main: int
) -> None:
    """Kubelet lists containers and sidecars alone, for the pod's whole life."""
    cluster = Cluster()
    cluster.node("n1", 3)
    cluster.pool("a")
    cards = sorted(device.name for device in cluster.all(resources.GPUDEVICE, GPUDevice))
    for name in cards:
        cluster.annotate(name, "a")
    cluster.settle()
    resource = names.resource_name("a")
    init = {"name": "init", "resources": {"limits": {resource: "2"}}}
    cluster.pod("p", "a", "r1", node="n1", phase=phase, initContainers=[init])
    ids = [cluster.objects["GPUDevice", name]["status"]["inventoryID"] for name in cards]
    with cluster.edit("Pod", "default/p") as pod:
        pod["spec"]["containers"][0]["resources"]["limits"] = {resource: str(main)}
        pod["metadata"]["annotations"][names.DEVICES] = ",".join(ids[:2])
    if main:
        cluster.allocate(cards[0])
    for name in cards:
        cluster.annotate(name, None)
    cluster.settle()

    left = [d.name for d in cluster.all(resources.GPUDEVICE, GPUDevice) if d.status.pool_ref is None]
    assert left == (cards[2:] if phase == "Running" else [])  # while one runs it may be on any card

    cluster.drop(resources.POD, "default/p")
    with cluster.edit("GPUDevice", cards[0]) as found:
        found["status"]["allocations"] = []
    cluster.settle()
    assert all(device.status.pool_ref is None for device in cluster.all(resources.GPUDEVICE, GPUDevice))


def test_no_node_speaks_for_the_pods_of_another() -> None:
    cluster = pooled()
    cluster.pod("p", "a", "r1", node="n1", phase="Pending")
    cluster.node("n2", 1)
    cluster.annotate(CARD.replace("n1", "n2"), "a")
    cluster.settle()
    cluster.allocate(CARD.replace("n1", "n2"))
    with cluster.edit("GPUDevice", CARD.replace("n1", "n2")) as liar:
        liar["status"]["allocations"][0]["podUID"] = cluster.objects["Pod", "default/p"]["metadata"]["uid"]
    cluster.annotate(CARD, None)
    cluster.settle()

    devices = {device.name: device for device in cluster.all(resources.GPUDEVICE, GPUDevice)}
    assert devices[CARD].status.pool_ref is not None


def configured(cluster: Cluster) -> tuple[str, str]:
    """Reason and message."""
    (device,) = cluster.all(resources.GPUDEVICE, GPUDevice)
    found = find(device.status.conditions, CONFIGURED)
    assert found is not None
    return found.reason, found.message


def test_a_card_of_a_node_that_is_away_stays_and_says_why_and_what_to_do() -> None:
    cluster = pooled()
    cluster.unready("n1")
    ready = cluster.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    ready[0]["lastTransitionTime"] = "2026-01-05T00:00:00Z"
    cluster.touch(("Node", "n1"))
    cluster.annotate(CARD, None)
    for _ in range(3):
        pool_plan(cluster)  # and no plugin answers

    assert pool_of(cluster) == "a"
    reason, message = configured(cluster)
    assert reason == "AwaitingWithdrawal"
    assert "Node n1 is not Ready since 2026-01-05T00:00:00Z" in message
    assert "kubectl delete node n1" in message
    (pool,) = cluster.all(resources.GPUPOOL, GPUPool)
    assert pool.status.nodes[0].last_event == "n1-0000:00:00.0 is leaving the pool, and node n1 is not Ready"

    cluster.drop(resources.NODE, "n1")  # somebody says so
    pool_plan(cluster)
    assert "Node n1 is gone" in configured(cluster)[1]


def test_what_a_plugin_does_not_withdraw_from_a_node_out_of_service_is_not_available() -> None:
    """Such as one whose driver is gone, and its agents with it."""
    cluster = pooled()
    cluster.unready("n1")
    for _ in range(3):
        pool_plan(cluster)  # and no plugin answers

    assert configured(cluster)[0] == "AwaitingWithdrawal"
    (pool,) = cluster.all(resources.GPUPOOL, GPUPool)
    assert pool.status.capacity is not None
    assert (pool.status.capacity.available, pool.status.capacity.unavailable) == (0, 1)

    cluster.unready("n1", ready=True)
    cluster.settle()
    (pool,) = cluster.all(resources.GPUPOOL, GPUPool)
    assert pool.status.capacity is not None
    assert pool.status.capacity.available == 1


def test_a_card_that_its_plugin_withdrew_stays_while_a_pod_may_run_on_a_node_that_is_away() -> None:
    cluster = pooled()
    cluster.pod("p", "a", "r1", node="n1", phase="Running")
    cluster.annotate(CARD, None)
    cluster.settle()
    assert "is not Ready" not in configured(cluster)[1]
    cluster.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cluster.touch(("Node", "n1"))
    cluster.settle()

    assert pool_of(cluster) == "a"
    assert configured(cluster)[0] == "Withdrawn"
    assert "Node n1 is not Ready: nothing there answers" in configured(cluster)[1]


def test_a_card_waits_until_kubelet_has_told_every_card_of_the_pod_that_was_given_it() -> None:
    """Its object was deleted by hand and came back empty; the pod that it was given to has three cards."""
    cluster = Cluster()
    cluster.node("n1", 4)
    cluster.pool("a")
    names_of = sorted(device.name for device in cluster.all(resources.GPUDEVICE, GPUDevice))
    cluster.pod("p", "old", "r1", node="n1", phase="Running")
    pod = cluster.objects["Pod", "default/p"]
    pod["spec"]["containers"][0]["resources"]["limits"] = {names.resource_name("old"): "3"}
    ids = [cluster.objects["GPUDevice", name]["status"]["inventoryID"] for name in names_of]
    pod["metadata"]["annotations"][names.DEVICES] = ",".join(ids[:3])
    cluster.touch(("Pod", "default/p"))
    cluster.annotate(names_of[2], "a")

    def told(*cards: str) -> bool:
        """Kubelet tells that the pod has these; whether the card then comes into the pool."""
        for name in cards:
            cluster.allocate(name)
        pool_plan(cluster)
        return "poolRef" in cluster.objects["GPUDevice", names_of[2]]["status"]

    assert not told()
    assert not told(*names_of[:2])
    assert told(names_of[3])  # kubelet gave it another one in its place


@pytest.mark.parametrize("deleting", [False, True])
@pytest.mark.parametrize("runs", [False, True])
def test_no_card_is_let_go_while_a_list_names_it_though_the_status_was_lost(*, runs: bool, deleting: bool) -> None:
    """Its plugin is about to start, and would offer it for a pool that it has left."""
    cluster = pooled()
    cluster.objects["GPUDevice", CARD]["status"].pop("published")
    cluster.objects["GPUPool", "a"].pop("status")
    cluster.touch(("GPUPool", "a"))
    if not runs:
        del cluster.objects["DaemonSet", f"{names.NAMESPACE}/{names.plugin_object('a')}"]
    cluster.annotate(CARD, None)
    if deleting:
        cluster.delete_pool("a")
    for _ in range(20):
        cluster.execute(cluster.planned("GPUPool", "a").actions, names.MANAGER_POOL, stop_after=1)
        lists = cluster.all(resources.CONFIGMAP, ConfigMap)
        assert pool_of(cluster) == "a" or not any(config.data[names.ALLOWED_DEVICES] for config in lists)
    assert pool_of(cluster) is None


def test_a_card_that_cannot_come_in_keeps_no_other_on_the_list() -> None:
    cluster = Cluster()
    cluster.node("n1", 2)
    cluster.pool("a")
    cluster.annotate(CARD, "a")
    cluster.settle()
    cluster.annotate(CARD, None)
    other = "n1-0000-01-00-0"
    cluster.annotate(other, "a")
    made = cluster.planned("GPUPool", "a")
    cluster.touch(("GPUDevice", other))  # somebody else writes first, as often as we try
    with pytest.raises(ConflictError):
        cluster.execute(made.actions, names.MANAGER_POOL)
    (config,) = cluster.all(resources.CONFIGMAP, ConfigMap)
    assert config.data[names.ALLOWED_DEVICES] == ""


def test_another_pool_gets_the_card_only_after_the_first_let_go() -> None:
    cluster = pooled()
    cluster.pool("b")
    cluster.annotate(CARD, "b")

    cluster.execute(cluster.planned("GPUPool", "b").actions, names.MANAGER_POOL)
    assert pool_of(cluster) == "a"

    cluster.settle()
    assert pool_of(cluster) == "b"


def test_a_deleted_pool_lets_go_of_its_cards_and_then_goes() -> None:
    cluster = pooled()
    cluster.objects["GPUPool", "a"]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    cluster.touch(("GPUPool", "a"))

    cluster.settle()

    assert ("GPUPool", "a") not in cluster.objects
    assert not [key for key in cluster.objects if key[0] in ("ConfigMap", "DaemonSet")]
    assert pool_of(cluster) is None
    assert names.pool_node_label("a") not in cluster.objects["Node", "n1"]["metadata"]["labels"]
