"""What Prometheus reads of pools, and that nothing stays of what is gone."""

from __future__ import annotations

from prometheus_client import REGISTRY

from controllers.api import resources
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.gpupool import metrics
from tests.gpupool.world import AUTOMATIC, Cluster

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
