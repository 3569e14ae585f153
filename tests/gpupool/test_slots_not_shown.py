"""Cards that plugins offer and kubelet does not show: promised to nobody, waited for, and told of where that lasts."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from controllers.api.conditions import AVAILABLE, CAPACITY_LOW, find
from controllers.api.gpupool import GPUPool, GPUPoolStatus
from controllers.gpupool.pool.status_plan import plan_pool_status
from tests.gpupool.world import Cluster

PATIENCE = 30.0
"""`pools.pluginPatience`."""


@pytest.fixture
def cluster() -> Cluster:
    """A pool of two cards on a node whose kubelet shows cpu alone."""
    made = Cluster()
    made.pool("a")
    made.node("n1", 2)
    shows(made, 0)
    for number in range(2):
        made.annotate(f"n1-0000-{number:02x}-00-0", "a")
    made.settle()
    return made


def shows(cluster: Cluster, slots: int) -> None:
    with cluster.edit("Node", "n1") as node:
        node["status"]["allocatable"] = {"cpu": "64", "gpu.deckhouse.io/a": str(slots)}


def status(cluster: Cluster) -> GPUPoolStatus:
    return cluster.all(resources.GPUPOOL, GPUPool)[0].status


def says(cluster: Cluster, kind: str) -> tuple[str, str]:
    found = find(status(cluster).conditions, kind)
    assert found is not None
    return found.status, found.reason


def later(cluster: Cluster, seconds: float) -> None:
    cluster.now += seconds
    cluster.settle()


def available(cluster: Cluster) -> int:
    capacity = status(cluster).capacity
    assert capacity is not None
    return capacity.available


def test_what_has_just_come_in_alarms_nobody(cluster: Cluster) -> None:
    assert (available(cluster), says(cluster, AVAILABLE)[1], says(cluster, CAPACITY_LOW)[0]) == (
        0,
        "CardsOffered",
        "False",
    )
    shows(cluster, 2)
    later(cluster, 5)
    assert (available(cluster), status(cluster).nodes[0].not_shown_since) == (2, None)


def test_where_kubelet_never_shows_them_the_pool_says_so_after_a_while_and_promises_nothing(cluster: Cluster) -> None:
    later(cluster, PATIENCE + 1)

    assert available(cluster) == 0
    assert says(cluster, AVAILABLE) == ("False", "SlotsNotShown")
    assert says(cluster, CAPACITY_LOW) == ("True", "BelowTenPercent")
    (node,) = status(cluster).nodes
    assert node.not_shown_since is not None
    assert node.health == "Degraded"
    assert f"has not shown 2 free slots of the pool since {node.not_shown_since}" in str(node.last_event)
    message = str(find(status(cluster).conditions, AVAILABLE))
    assert "2 free slots" in message
    assert "status.nodes" in message


def test_that_it_lasts_is_said_though_nothing_changes(cluster: Cluster) -> None:
    """The pool comes back by itself when the time is over, also where it is not low for it."""
    shows(cluster, 1)
    cluster.settle()
    seen = cluster.view().pool("a")
    assert seen is not None
    again = plan_pool_status(seen, cluster.now).requeue_after
    assert again is not None
    assert 0 < again <= PATIENCE


def test_since_when_is_kept_and_ends_when_kubelet_shows_them(cluster: Cluster) -> None:
    since = status(cluster).nodes[0].not_shown_since
    later(cluster, PATIENCE + 1)
    assert status(cluster).nodes[0].not_shown_since == since

    shows(cluster, 2)
    cluster.settle()
    assert (status(cluster).nodes[0].not_shown_since, says(cluster, AVAILABLE)) == (None, ("True", "CardsOffered"))
    shows(cluster, 0)  # kubelet is started anew
    cluster.settle()
    assert says(cluster, CAPACITY_LOW)[0] == "False"


def test_a_pool_of_which_pods_get_something_is_available_and_says_what_is_not_shown(cluster: Cluster) -> None:
    shows(cluster, 1)
    later(cluster, PATIENCE + 1)

    assert (available(cluster), says(cluster, AVAILABLE)) == (1, ("True", "SlotsNotShown"))


def test_a_pod_on_a_card_that_is_withdrawn_hides_a_slot_and_is_no_fault_of_kubelets(cluster: Cluster) -> None:
    """Schedulers count that pod, and no longer its card: the slot beside it is withheld until the pod ends."""
    shows(cluster, 2)
    cluster.pod("p", "a", "r", node="n1", phase="Running")
    cluster.allocate("n1-0000-00-00-0")
    cluster.settle()
    cluster.fault("n1-0000-00-00-0")
    cluster.settle()
    shows(cluster, 1)
    later(cluster, 1)
    later(cluster, PATIENCE + 1)

    assert (available(cluster), says(cluster, AVAILABLE)) == (0, ("True", "CardsOffered"))
    assert status(cluster).nodes[0].not_shown_since is None
    assert says(cluster, CAPACITY_LOW) == ("True", "BelowTenPercent")

    shows(cluster, 0)
    later(cluster, 1)
    later(cluster, PATIENCE + 1)
    assert says(cluster, AVAILABLE)[1] == "SlotsNotShown"
    assert "kubelet has not shown 1 free slots" in str(find(status(cluster).conditions, AVAILABLE))


def test_of_a_node_beyond_those_that_the_status_lists_nothing_is_said_without_a_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary delay of kubelet's there was told as SlotsNotShown at once."""
    monkeypatch.setattr(names, "LIST_MAX", 1)
    shows(cluster, 2)
    cluster.node("n2", 1)
    with cluster.edit("Node", "n2") as node:
        node["status"]["allocatable"] = {"cpu": "64", "gpu.deckhouse.io/a": "0"}
    cluster.annotate("n2-0000-00-00-0", "a")
    later(cluster, 1)
    assert [node.name for node in status(cluster).nodes] == ["n1"]
    assert says(cluster, AVAILABLE) == ("True", "CardsOffered")

    shows(cluster, 0)
    later(cluster, 1)
    later(cluster, PATIENCE + 1)
    assert says(cluster, AVAILABLE) == ("False", "SlotsNotShown")
    assert "kubelet has not shown 2 free slots" in str(find(status(cluster).conditions, AVAILABLE))
