"""The Node itself says whether its cards may be in pools, for who reads Nodes alone; it says no more than that."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.runtime.plan import Apply
from tests.bootstrap.readiness.test_driver_work import settle, work
from tests.bootstrap.world import COMPONENTS, NODE, Cluster
from tests.kit.conditions import find


def told(cluster: Cluster, on: str = NODE) -> str | None:
    found = find(cluster.objects["Node", on], names.NODE_READY)
    return found["status"] if found else None


def written(made: Any) -> list[Any]:
    """Writes of the Node's status."""
    ours = [one for one in made.writes if isinstance(one, Apply) and one.subresource == "status"]
    return [one for one in ours if one.ref.resource == resources.NODE]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.prepare()
    return made


def test_two_writes_bring_a_node_from_nothing_to_ready() -> None:
    cluster = Cluster()
    cluster.node()
    cluster.report()
    cluster.inventory()
    cluster.device()
    cluster.pod("discover")
    writes = []
    for _ in (*COMPONENTS, ""):
        writes += written(cluster.step())
        cluster.kubelet()
    writes += written(cluster.step())
    assert [one.body["status"]["conditions"][0]["status"] for one in writes] == ["False", "True"]
    assert told(cluster) == "True"
    assert find(cluster.objects["Node", NODE], "Ready")["status"] == "True"


def test_it_follows_ready_for_pooling(cluster: Cluster) -> None:
    cluster.report(driver="")
    cluster.step()
    assert (cluster.pooling()[0], told(cluster)) == ("False", "False")
    assert (
        "ReadyForPooling of GPUNodeInventory worker-01"
        in find(cluster.objects["Node", NODE], names.NODE_READY)["message"]
    )
    cluster.report()
    cluster.step()
    assert (cluster.pooling()[0], told(cluster)) == ("True", "True")


@pytest.mark.parametrize("why", ["not managed", "no cards", "disabled"])
def test_a_node_that_is_not_to_be_prepared_has_none(cluster: Cluster, why: str) -> None:
    assert told(cluster) == "True"
    cluster.enabled = why != "disabled"
    cluster.inventory(cards=0 if why == "no cards" else 1, managed=why != "not managed")
    cluster.step()
    assert cluster.pooling()[0] == "False"
    assert told(cluster) is None
    assert cluster.plan().actions == ()


def test_a_node_that_has_no_cards_any_more_loses_it_also_after_a_restart(cluster: Cluster) -> None:
    cluster.drop(resources.GPUNODEINVENTORY, NODE)
    with cluster.edit("Node", NODE) as node:
        node["metadata"]["labels"] = {}
    assert cluster.view().gated(()) == {NODE}
    cluster.step()
    assert told(cluster) is None
    assert cluster.view().gated(()) == set()


def test_a_node_that_somebody_has_says_so_until_it_is_back(cluster: Cluster) -> None:
    since = find(cluster.objects["Node", NODE], names.NODE_READY)["lastTransitionTime"]
    cluster.now += 60
    work(cluster, "HandedOver", limit=None, handOver="kernel-update")
    handed = find(cluster.objects["Node", NODE], names.NODE_HANDED_OVER)
    assert (handed["status"], told(cluster)) == ("True", "False")
    assert "kernel-update wants node" in cluster.message("ReadyForPooling")
    ready = find(cluster.objects["Node", NODE], names.NODE_READY)["lastTransitionTime"]
    assert ready != since
    cluster.now += 86_400
    settle(cluster)
    assert cluster.plan().actions == ()
    assert find(cluster.objects["Node", NODE], names.NODE_HANDED_OVER) == handed
    work(cluster, "Validating", handOver="kernel-update")

    assert find(cluster.objects["Node", NODE], names.NODE_HANDED_OVER) is None
    assert find(cluster.objects["Node", NODE], names.NODE_READY)["lastTransitionTime"] == ready
    settle(cluster)
    assert told(cluster) == "True"


@pytest.mark.parametrize("phase", ["Queued", "Withdrawing", "Clearing"])
def test_a_node_that_is_about_to_be_handed_over_does_not_say_so_yet(cluster: Cluster, phase: str) -> None:
    work(cluster, phase, handOver="kernel-update")

    assert find(cluster.objects["Node", NODE], names.NODE_HANDED_OVER) is None


def test_a_person_who_takes_it_off_has_it_back(cluster: Cluster) -> None:
    with cluster.edit("Node", NODE) as node:
        node["status"]["conditions"] = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
    cluster.step()
    assert told(cluster) == "True"
