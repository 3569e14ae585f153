"""The fence, step by step: nobody who was admitted is overtaken, and no card is offered twice."""

from __future__ import annotations

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.domain.clock import stamp_exact
from tests.gpupool.world import Cluster

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
    cluster.execute(cluster._plan("GPUPool", "a").actions, names.MANAGER_POOL)


def reserve(cluster: Cluster, request: str = "r1") -> None:
    status = cluster.objects["GPUDevice", CARD]["status"]
    status["reservations"] = [
        {
            "requestID": request,
            "namespace": "default",
            "pod": "p",
            "slots": 1,
            "since": stamp_exact(cluster.now),
            "expiresAt": stamp_exact(cluster.now + 15),
            "seen": False,
        }
    ]
    cluster._touch(("GPUDevice", CARD))


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
    taken = {"podUID": "u", "namespace": "default", "pod": "p", "container": "c", "slots": 1}
    cluster.objects["GPUDevice", CARD]["status"]["allocations"] = [taken]
    cluster._touch(("GPUDevice", CARD))
    cluster.annotate(CARD, None)

    cluster.settle()
    assert pool_of(cluster) == "a"

    del cluster.objects["GPUDevice", CARD]["status"]["allocations"]
    cluster._touch(("GPUDevice", CARD))
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


def test_another_pool_gets_the_card_only_after_the_first_let_go() -> None:
    cluster = pooled()
    cluster.pool("b")
    cluster.annotate(CARD, "b")

    cluster.execute(cluster._plan("GPUPool", "b").actions, names.MANAGER_POOL)
    assert pool_of(cluster) == "a"

    cluster.settle()
    assert pool_of(cluster) == "b"


def test_a_deleted_pool_lets_go_of_its_cards_and_then_goes() -> None:
    cluster = pooled()
    cluster.objects["GPUPool", "a"]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    cluster._touch(("GPUPool", "a"))

    cluster.settle()

    assert ("GPUPool", "a") not in cluster.objects
    assert not [key for key in cluster.objects if key[0] in ("ConfigMap", "DaemonSet")]
    assert pool_of(cluster) is None
    assert names.pool_node_label("a") not in cluster.objects["Node", "n1"]["metadata"]["labels"]
