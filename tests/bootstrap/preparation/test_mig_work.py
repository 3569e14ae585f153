"""MIG work on cards suspends a node's preparation, closes what holds a card that is reset, and has a deadline."""

from __future__ import annotations

import pytest

from controllers.api.components import HOLDING_GPU_OPEN, VALIDATOR
from tests.bootstrap.world import COMPONENTS, NODE, Cluster

RESET, NO_RESET, UNKNOWN = "20b0", "2330", "ffff"
REST = [component for component in COMPONENTS if component not in HOLDING_GPU_OPEN]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.prepare()
    made.pooled("a")
    assert made.pooling() == ("True", "Ready")
    return made


def suspended(cluster: Cluster) -> bool | None:
    found: bool | None = cluster.status()["bootstrap"].get("suspended")
    return found


def work(cluster: Cluster, phase: str, board: str = RESET) -> None:
    """What the manager tells, and what the node makes of it."""
    cluster.mig(phase, board=board)
    cluster.step()
    cluster.kubelet()
    cluster.step()


@pytest.mark.parametrize("board", [RESET, UNKNOWN])
def test_what_holds_a_card_that_is_reset_goes_and_the_node_stays(cluster: Cluster, board: str) -> None:
    for phase in ("Waiting", "Applying"):
        work(cluster, phase, board)
        cluster.now += 30
        assert cluster.gates() == REST
        assert (suspended(cluster), cluster.pooling()) == (True, ("True", "MigWork"))
        assert "gfd does not run on node" in cluster.message("ReadyForPooling")
        assert cluster.plan().actions == ()


@pytest.mark.parametrize("phase", ["Waiting", "Applying"])
def test_only_who_is_to_tell_of_the_instances_goes_for_a_card_that_needs_no_reset(cluster: Cluster, phase: str) -> None:
    work(cluster, phase, NO_RESET)
    assert cluster.gates() == [component for component in COMPONENTS if component != VALIDATOR]
    assert (suspended(cluster), cluster.pooling()) == (True, ("True", "MigWork"))
    assert "validator does not run on node" in cluster.message("ReadyForPooling")
    work(cluster, "Done", NO_RESET)
    assert (suspended(cluster), cluster.gates(), cluster.pooling()[0]) == (None, COMPONENTS, "True")
    work(cluster, "Done", NO_RESET)
    assert cluster.pooling() == ("True", "Ready")


@pytest.mark.parametrize("end", ["Done", "Failed"])
def test_gates_open_again_in_order_and_the_node_never_leaves_service(cluster: Cluster, end: str) -> None:
    work(cluster, "Applying")
    cluster.now += 100
    cluster.mig(end)
    cluster.answers[NODE] = None
    opened = []
    for _ in COMPONENTS:
        cluster.step()
        assert cluster.pooling()[0] == "True"
        opened.append([component for component in cluster.gates() if component in HOLDING_GPU_OPEN])
        cluster.kubelet()
    assert opened[:4] == [[c for c in COMPONENTS if c in HOLDING_GPU_OPEN][: n + 1] for n in range(4)]
    assert (suspended(cluster), cluster.pooling()) == (None, ("True", "Ready"))


def test_a_component_that_does_not_come_back_has_its_deadline_from_the_end_of_the_work(cluster: Cluster) -> None:
    work(cluster, "Applying")
    cluster.now += cluster.settings.bootstrap.phase_deadline - 1
    cluster.mig("Done")
    cluster.step()
    assert cluster.pooling() == ("True", "Preparing")
    made = cluster.plan()
    assert made.requeue_after == pytest.approx(cluster.settings.bootstrap.phase_deadline)


def test_work_that_takes_too_long_is_over_until_there_is_other_work(cluster: Cluster) -> None:
    deadline = cluster.settings.bootstrap.phase_deadline
    work(cluster, "Waiting")
    assert cluster.plan().requeue_after == pytest.approx(deadline)
    cluster.now += deadline - 1
    cluster.step()
    assert suspended(cluster) is True
    cluster.now += 2
    for _ in (*COMPONENTS, ""):
        cluster.step()
        assert cluster.pooling()[0] == "True"
        cluster.kubelet()
    assert (suspended(cluster), cluster.gates(), cluster.pooling()) == (False, COMPONENTS, ("True", "Ready"))
    cluster.mig("Applying")  # the same work: no new deadline
    cluster.step()
    assert (suspended(cluster), cluster.gates()) == (False, COMPONENTS)
    work(cluster, "Failed")
    assert suspended(cluster) is None
    work(cluster, "Waiting")
    assert (suspended(cluster), cluster.gates()) == (True, REST)


def test_work_excuses_no_other_trouble(cluster: Cluster) -> None:
    work(cluster, "Applying")
    cluster.report(driver="")
    cluster.step()
    assert cluster.pooling()[1] != "MigWork"


def test_a_node_that_was_not_ready_does_not_become_it() -> None:
    cluster = Cluster()
    cluster.node()
    cluster.report()
    cluster.inventory()
    cluster.pod("discover")
    work(cluster, "Applying")
    assert cluster.pooling() == ("False", "ToolkitNotReady")
    for _ in COMPONENTS:
        cluster.step()
        cluster.kubelet()
    assert (suspended(cluster), cluster.gates()) == (True, REST)
    assert cluster.pooling() == ("False", "GfdNotReady")


def test_a_gate_opened_by_hand_is_closed_again(cluster: Cluster) -> None:
    work(cluster, "Applying")
    cluster.objects["Node", NODE]["metadata"]["labels"]["gpu.deckhouse.io/deploy.dcgm"] = "true"
    cluster.step()
    assert cluster.gates() == REST


def test_a_node_that_is_not_prepared_has_nothing_to_suspend(cluster: Cluster) -> None:
    cluster.inventory(managed=False)
    work(cluster, "Applying")
    assert (suspended(cluster), cluster.gates()) == (None, [])
