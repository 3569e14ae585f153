"""Who had a card: `GPUDevice.status.history` after tenancies of every end, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import resources
from controllers.api.gpudevice import HISTORY_MAX, GPUDevice, Tenancy
from controllers.gpupool.tenancies import PATIENCE
from tests.gpupool.world import Cluster

CARD = "n1-0000-00-00-0"


class Counting(Cluster):
    """Counts what planners write of cards."""

    card_writes = 0

    def admit(self, action: Any, old: Any, new: Any) -> None:
        super().admit(action, old, new)
        self.card_writes += action.ref.resource.kind == "GPUDevice"


@pytest.fixture
def cluster() -> Counting:
    return made("Exclusive")


def made(mode: str) -> Counting:
    """A pool with one card, and a process that watches it."""
    cluster = Counting()
    cluster.pool("a", allocation={"mode": mode})
    cluster.node("n1", 1)
    cluster.annotate(CARD, "a")
    cluster.settle()
    return cluster


def begin(cluster: Counting, pod: str = "p") -> None:
    cluster.pod(pod, "a", f"r-{pod}", node="n1", phase="Running")
    with cluster.edit("Pod", f"default/{pod}") as found:
        found["status"]["startTime"] = "2026-01-01T00:00:00Z"
    cluster.allocate(CARD, pod)
    cluster.settle()


def take_back(cluster: Counting) -> None:
    """kubelet has the card back, and the plugin says so."""
    with cluster.edit("GPUDevice", CARD) as card:
        del card["status"]["allocations"]


def change(cluster: Counting, pod: str = "p", *, deleted: bool = False, **status: Any) -> None:
    with cluster.edit("Pod", f"default/{pod}") as found:
        found["status"] |= status
        if deleted:
            found["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"


def history(cluster: Counting) -> tuple[Tenancy, ...]:
    found: list[GPUDevice] = cluster.all(resources.GPUDEVICE, GPUDevice)
    return found[0].status.history


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "it succeeded": ({"phase": "Succeeded"}, "Finished"),
    "it failed": ({"phase": "Failed"}, "Failed"),
    "kubelet evicted it": (
        {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
        "Evicted",
    ),
    "it was evicted by the API": (
        {"deleted": True, "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
        "Evicted",
    ),
    "it was deleted": ({"deleted": True}, "Deleted"),
    "it was deleted and exits with success": ({"deleted": True, "phase": "Succeeded"}, "Deleted"),
}


@pytest.mark.parametrize(("changes", "ended"), ENDS.values(), ids=ENDS)
def test_each_end_of_a_pod_is_in_the_history(cluster: Counting, changes: dict[str, Any], ended: str) -> None:
    begin(cluster)
    uid = cluster.objects["Pod", "default/p"]["metadata"]["uid"]
    assert history(cluster) == ()
    change(cluster, **changes)
    cluster.settle()
    assert history(cluster) == (), "kubelet has not given the card back"
    take_back(cluster)
    cluster.settle()
    (entry,) = history(cluster)
    assert (entry.pool, entry.namespace, entry.pod, entry.uid) == ("a", "default", "p", uid)
    assert (entry.since, entry.ended) == ("2026-01-01T00:00:00Z", ended)


def test_a_pod_that_finished_and_was_deleted_later_finished(cluster: Counting) -> None:
    begin(cluster)
    change(cluster, phase="Succeeded")
    cluster.settle()
    cluster.drop(resources.POD, "default/p")
    take_back(cluster)
    cluster.settle()
    assert [entry.ended for entry in history(cluster)] == ["Finished"]


def test_the_end_of_an_allocation_may_be_seen_before_that_of_its_pod(cluster: Counting) -> None:
    begin(cluster)
    take_back(cluster)
    cluster.settle()
    assert history(cluster) == ()
    change(cluster, phase="Failed")
    cluster.settle()
    assert [entry.ended for entry in history(cluster)] == ["Failed"]


def test_a_card_that_goes_from_under_a_pod_is_lost_to_it(cluster: Counting) -> None:
    begin(cluster)
    take_back(cluster)
    cluster.settle()
    left = cluster.planned("GPUDevice", CARD).requeue_after
    assert left is not None
    assert 0 < left <= PATIENCE + 1
    cluster.now += left
    cluster.settle()
    assert [entry.ended for entry in history(cluster)] == ["Lost"]


def test_an_allocation_that_is_back_ends_once(cluster: Counting) -> None:
    begin(cluster)
    take_back(cluster)
    cluster.now += 5
    cluster.allocate(CARD)
    cluster.settle()
    cluster.now += PATIENCE
    cluster.settle()
    assert history(cluster) == ()
    change(cluster, phase="Succeeded")
    take_back(cluster)
    cluster.settle()
    assert [entry.ended for entry in history(cluster)] == ["Finished"]


def test_a_restart_goes_on_with_the_pods_that_have_cards(cluster: Counting) -> None:
    begin(cluster)
    cluster.restart()
    cluster.settle()
    change(cluster, phase="Succeeded")
    take_back(cluster)
    cluster.settle()
    assert [(entry.since, entry.ended) for entry in history(cluster)] == [("2026-01-01T00:00:00Z", "Finished")]


def test_the_ring_keeps_the_newest(cluster: Counting) -> None:
    for number in range(HISTORY_MAX + 3):
        begin(cluster, f"p{number}")
        change(cluster, f"p{number}", phase="Succeeded")
        take_back(cluster)
        cluster.now += 60
        cluster.settle()
    assert [entry.pod for entry in history(cluster)] == [f"p{number}" for number in range(3, HISTORY_MAX + 3)]


def test_a_tenancy_costs_one_write_of_its_card(cluster: Counting) -> None:
    """Beside those that there are without a history: of the status of pool and node."""
    begin(cluster)
    writes = cluster.card_writes
    change(cluster, phase="Succeeded")
    take_back(cluster)
    cluster.settle()
    assert cluster.card_writes - writes == 1
    cluster.now += 3600
    cluster.settle()
    assert cluster.card_writes - writes == 1


def test_a_shared_card_has_no_history_and_costs_nothing() -> None:
    cluster = made("TimeSlice")
    begin(cluster)
    writes = cluster.card_writes
    change(cluster, phase="Succeeded")
    take_back(cluster)
    cluster.settle()
    assert (cluster.card_writes - writes, history(cluster)) == (0, ())


def test_a_pod_whose_end_is_learned_late_stands_where_it_ended(cluster: Counting) -> None:
    begin(cluster, "slow")
    take_back(cluster)  # its end is not seen for half a minute
    cluster.settle()
    cluster.now += 5
    begin(cluster, "quick")
    take_back(cluster)
    change(cluster, "quick", phase="Succeeded")
    cluster.settle()
    assert [each.pod for each in history(cluster)] == ["quick"]
    cluster.now += PATIENCE
    cluster.settle()
    assert [(each.pod, each.ended) for each in history(cluster)] == [("slow", "Lost"), ("quick", "Finished")]
