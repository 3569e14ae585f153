"""What Prometheus reads of pools, and that nothing stays of what is gone."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import REGISTRY

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import Capacity, GPUPool, ProfileCapacity
from controllers.api.record import adapter
from controllers.api.tenant import TenantPod
from controllers.gpupool import metrics
from controllers.runtime.store import Store
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit import objects
from tests.kit.pods import pod_body

CARD = "n1-0000-00-00-0"


def slots(pool: str) -> float | None:
    return REGISTRY.get_sample_value("gpupool_node_slots", {"pool": pool, "node": "n1"})


def record_node(made: Cluster) -> None:
    (inventory,) = made.all(resources.GPUNODEINVENTORY, GPUNodeInventory)
    metrics.record_node("n1", inventory)


def test_slots_of_a_node_follow_its_cards() -> None:
    made = Cluster()
    made.node("n1", 2)
    for pool in ("metric-a", "metric-b"):
        made.pool(pool)
    made.annotate(CARD, "metric-a")
    made.settle()
    record_node(made)
    assert (slots("metric-a"), slots("metric-b")) == (1, None)

    made.annotate(CARD, "metric-b")
    made.settle()
    record_node(made)
    assert (slots("metric-a"), slots("metric-b")) == (None, 1)

    metrics.record_node("n1", None)
    assert (slots("metric-a"), slots("metric-b")) == (None, None)


def test_a_pool_tells_its_cards_until_it_is_gone() -> None:
    made = Cluster()
    made.node("n1", 2)
    made.pool("metric-c", **AUTOMATIC)
    made.settle()
    (pool,) = made.all(resources.GPUPOOL, GPUPool)
    metrics.record(pool, 2)

    def told(name: str) -> float | None:
        return REGISTRY.get_sample_value(name, {"pool": "metric-c"})

    assert (told("gpupool_assignments"), told("gpupool_capacity_total"), told("gpupool_capacity_available")) == (
        2,
        2,
        2,
    )
    metrics.forget("metric-c")
    assert (told("gpupool_assignments"), told("gpupool_capacity_total")) == (None, None)


def test_a_pool_of_a_mixed_layout_tells_the_slots_of_each_profile_while_it_has_them() -> None:
    def told(profile: str, state: str) -> float | None:
        labels = {"pool": "metric-d", "profile": profile, "state": state}
        return REGISTRY.get_sample_value("gpupool_profile_slots", labels)

    def record(*profiles: ProfileCapacity) -> None:
        capacity = Capacity(unit="mig-partition", total=6, available=6, profiles=profiles)
        pool = objects.pool("metric-d")
        metrics.record(replace(pool, status=replace(pool.status, capacity=capacity)), 2)

    small = ProfileCapacity(profile="1g.10gb", total=4, used=1, available=3)
    record(small, ProfileCapacity(profile="3g.40gb", total=2, available=2))
    assert [told("1g.10gb", state) for state in ("total", "used", "available")] == [4, 1, 3]
    assert told("3g.40gb", "total") == 2
    record(small)
    assert (told("1g.10gb", "total"), told("3g.40gb", "total")) == (4, None)
    metrics.forget("metric-d")
    assert told("1g.10gb", "total") is None


def promises(pool: str) -> dict[str, float | None]:
    return {
        promise_outcome: REGISTRY.get_sample_value("gpupool_promises_total", {"pool": pool, "got": promise_outcome})
        for promise_outcome in ("card", "node", "elsewhere")
    }


def test_what_became_of_promises_is_counted_once_for_each_card_and_pod() -> None:
    listed = []
    for name, devices in (("kept", "n-a"), ("near", "n-b,n-c"), ("far", "m-1-a"), ("none", "")):
        body = pod_body(name, 1, request=name, devices=devices, meta={"uid": f"u-{name}"}, nodeName="n")
        listed.append(adapter(TenantPod).validate_python(body))
    pods: Store[TenantPod] = Store("Pod")
    pods.replace(listed, 1)
    metrics.record(objects.pool("kept-pool"), 1)
    assert promises("kept-pool") == {"card": 0, "node": 0, "elsewhere": 0}

    def held(*names: str, uid: str = "u-{}") -> GPUDevice:
        taken = tuple(objects.allocation(name, uid.format(name), namespace="team") for name in names)
        return objects.card("n", pool="kept-pool", inventory_id="n-a", allocations=taken)

    now = held("kept", "near", "far", "none")
    metrics.count_promises(None, now, pods)
    assert promises("kept-pool") == {"card": 0, "node": 0, "elsewhere": 0}, "what was so before we looked is not news"
    metrics.count_promises(held(), now, pods)
    metrics.count_promises(now, now, pods)
    assert promises("kept-pool") == {"card": 1, "node": 1, "elsewhere": 1}
    metrics.count_promises(held(), held("kept", uid="another"), pods)
    assert promises("kept-pool")["card"] == 1, "a pod of that name that is another one"

    metrics.forget("kept-pool")
    assert promises("kept-pool") == {"card": None, "node": None, "elsewhere": None}
