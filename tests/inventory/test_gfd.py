"""GFD's labels: what they may say of a card, and what they may not."""

from __future__ import annotations

import pytest

from controllers.api import names
from controllers.runtime.plan import Apply
from tests.inventory.world import NODE, Cluster
from tests.kit.conditions import state_of
from tests.kit.reports import reported

WITHOUT_LIBRARY = {"memory_mib": "", "compute_major": "", "compute_minor": "", "mig_capable": ""}
H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/gpu.compute.minor": "0",
}


def recorded(labels: dict[str, str], *cards: dict[str, str]) -> Cluster:
    cluster = Cluster()
    cluster.node(**labels)
    cluster.report(list(cards))
    cluster.settle()
    return cluster


def bare(number: int, **changes: str) -> dict[str, str]:
    """A card as the agent reports it that may not open the driver's library."""
    return reported(number, **{**WITHOUT_LIBRARY, **changes})


def test_a_node_of_equal_cards_is_completed() -> None:
    cluster = recorded(H100, bare(0), bare(1))
    hardware = cluster.device()["status"]["hardware"]

    assert hardware["product"] == "NVIDIA H100 80GB HBM3"
    assert hardware["memoryMiB"] == 81559
    assert hardware["computeCapability"] == {"major": 9, "minor": 0}
    assert "fp8" in hardware["precision"]["supported"]
    assert cluster.device()["metadata"]["labels"][names.LABEL_FAMILY] == "hopper"
    assert state_of(cluster.device(), "InventoryIncomplete") == ("False", "Complete")


def test_what_the_driver_told_the_agent_counts_before_a_label() -> None:
    hardware = recorded(H100, reported(0, memory_mib="80000"), reported(1)).device()["status"]["hardware"]

    assert hardware["memoryMiB"] == 80000
    assert hardware["product"] == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("changes", "cards"),
    [
        ({}, [bare(0), bare(1, device="20b5")]),
        ({}, [bare(0)]),
        ({}, [bare(0), bare(1), bare(2)]),
        ({}, [bare(0), bare(1, vendor="")]),
        ({"nvidia.com/gpu.memory": "81920M"}, [bare(0), bare(1)]),
        ({"nvidia.com/gpu.memory": "85520809984"}, [bare(0), bare(1)]),
        ({"nvidia.com/gpu.memory": "0"}, [bare(0), bare(1)]),
        ({"nvidia.com/gpu.count": "two"}, [bare(0), bare(1)]),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, [bare(0), bare(1)]),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, [bare(0), bare(1)]),
        ({}, [bare(0, product=""), bare(1)]),
    ],
    ids=[
        "two models",
        "fewer",
        "more",
        "one unread",
        "a unit",
        "bytes",
        "nothing",
        "no number",
        "an instance",
        "of cards that were exchanged",
        "of cards whose driver has not told their product",
    ],
)
def test_a_label_that_may_not_be_true_of_each_card_says_nothing(
    changes: dict[str, str], cards: list[dict[str, str]]
) -> None:
    cluster = recorded({**H100, **changes}, *cards)

    assert "memoryMiB" not in cluster.device()["status"]["hardware"]
    assert state_of(cluster.device(), "InventoryIncomplete")[0] == "True"


def test_cards_that_are_shared_by_time_are_whole_cards() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "8"}
    hardware = recorded({**H100, **labels}, bare(0), bare(1)).device()["status"]["hardware"]

    assert hardware["memoryMiB"] == 81559


def test_under_mig_strategy_single_the_labels_are_the_instances() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.count": "14"}
    labels |= {"nvidia.com/gpu.memory": "4864", "nvidia.com/gpu.compute.major": "8"}
    hardware = recorded({**H100, **labels}, bare(0), bare(1)).device()["status"]["hardware"]

    assert not {"memoryMiB", "computeCapability"} & set(hardware)


def test_labels_that_come_after_the_report_complete_it_in_one_pass() -> None:
    cluster = recorded({}, bare(0), bare(1))
    assert state_of(cluster.device(), "InventoryIncomplete") == ("True", "AttributesMissing")

    cluster.node(**H100)
    written = [(a.ref.name, a.subresource) for a in cluster.step().writes if isinstance(a, Apply)]
    first, second = f"{NODE}-0000-17-00-0", f"{NODE}-0000-18-00-0"
    assert written == [(first, None), (first, "status"), (second, None), (second, "status"), (NODE, "status")]
    assert state_of(cluster.device(), "InventoryIncomplete") == ("False", "Complete")
    assert cluster.step().writes == ()
