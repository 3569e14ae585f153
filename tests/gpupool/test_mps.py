"""Mode MPS: a card is offered behind its control daemon, and goes on to what is next when the daemon is gone."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from tests.gpupool.test_driver_work import work
from tests.gpupool.test_maintenance import CARDS, allocate, applied, ask, end, pooled, status, told
from tests.gpupool.world import Cluster

FOUR: dict[str, Any] = {"mode": "MPS", "mps": {"clients": 4}}
TWO: dict[str, Any] = {"mode": "MPS", "mps": {"clients": 2, "memory": "8Gi"}}
DAEMONS = ("DaemonSet", f"{names.NAMESPACE}/{names.mps('a')}")


def daemon(made: Cluster, phase: str | None, *cards: str, reason: str | None = None, running: bool = True) -> None:
    """The plugin tells of the daemons of these cards, or of all."""
    for card in cards or CARDS:
        with made.edit("GPUDevice", card) as found:
            found["status"].pop("mps", None)
            if phase is not None:
                found["status"]["mps"] = {"pool": "a", "phase": phase, "running": running}
                if reason:
                    found["status"]["mps"]["reason"] = reason


def configured(made: Cluster, card: str) -> tuple[str, str]:
    device = next(one for one in made.all(resources.GPUDEVICE, GPUDevice) if one.name == card)
    found = kinds.find(device.status.conditions, kinds.CONFIGURED)
    assert found is not None
    return found.reason, found.message


def serving(**allocation: Any) -> Cluster:
    """A pool of two cards with daemons that serve."""
    made = pooled(**(allocation or FOUR))
    daemon(made, "Ready")
    made.settle()
    return made


@pytest.mark.parametrize(("mps", "slots"), [(None, 8), ({"clients": 4}, 4), ({"clients": 48, "threads": "10%"}, 48)])
def test_a_card_has_as_many_slots_as_clients(mps: dict[str, Any] | None, slots: int) -> None:
    made = serving(**({"mode": "MPS"} | ({"mps": mps} if mps else {})))
    capacity = status(made).capacity
    assert capacity is not None
    assert (capacity.unit, capacity.total, capacity.available) == ("mps", 2 * slots, 2 * slots)


def test_daemons_are_of_a_pool_in_mode_mps_and_no_new_version_ends_one() -> None:
    made = serving()
    spec = made.objects[DAEMONS]["spec"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["template"]["spec"]["automountServiceAccountToken"] is False
    assert DAEMONS not in pooled(mode="TimeSlice").objects


@pytest.mark.parametrize("goal", [{"mode": "Exclusive"}, {"mode": "TimeSlice"}, TWO])
def test_a_change_waits_for_pods_and_then_for_daemons(goal: dict[str, Any]) -> None:
    made = serving()
    allocate(made, CARDS[0], "u")
    made.settle()
    ask(made, goal)
    made.settle()
    assert told(made) == ("True", "WaitingForPods")
    end(made, CARDS[0])
    made.settle()
    assert told(made) == ("True", "Rebuilding")
    assert applied(made)[0] == "MPS"
    assert DAEMONS in made.objects
    daemon(made, "Stopping", CARDS[1])
    made.settle()
    assert told(made) == ("True", "Rebuilding")

    daemon(made, None)
    made.settle()
    assert told(made) == ("False", "AsExpected")
    assert applied(made)[0] == goal["mode"]
    assert (DAEMONS in made.objects) is (goal["mode"] == "MPS")


def test_a_daemon_of_a_node_that_is_away_is_not_waited_for() -> None:
    made = serving()
    made.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    made.touch(("Node", "n1"))
    ask(made, {"mode": "Exclusive"})
    made.settle()
    assert applied(made)[0] == "Exclusive"


def test_a_card_leaves_when_its_daemon_is_gone() -> None:
    made = serving()
    made.annotate(CARDS[0], None)
    daemon(made, "Stopping", CARDS[0], reason="compute mode is not put back: nvidia-smi does not end")
    made.settle()
    card = made.objects["GPUDevice", CARDS[0]]
    assert card["status"]["poolRef"]["name"] == "a"
    reason, message = configured(made, CARDS[0])
    assert reason == "AwaitingDaemonEnd"
    assert "nvidia-smi does not end" in message

    daemon(made, None, CARDS[0])
    made.settle()
    assert "poolRef" not in made.objects["GPUDevice", CARDS[0]]["status"]
    assert "poolRef" in made.objects["GPUDevice", CARDS[1]]["status"]


def test_a_dead_daemon_is_told_by_card_and_pool() -> None:
    made = serving()
    made.elsewhere = frozenset(CARDS[:1])
    daemon(made, "Down", CARDS[0], reason="the control daemon ended by signal 9")
    made.settle()
    reason, message = configured(made, CARDS[0])
    assert reason == names.MPS_DOWN
    assert "ended by signal 9" in message
    (node,) = status(made).nodes
    assert (node.health, names.MPS_DOWN in (node.last_event or "")) == ("Degraded", True)
    capacity = status(made).capacity
    assert capacity is not None
    assert (capacity.total, capacity.available, capacity.unavailable) == (8, 4, 4)


def test_a_card_whose_daemon_another_mode_waits_for_says_so() -> None:
    made = serving(mode="Exclusive")
    made.elsewhere = frozenset(CARDS[:1])
    with made.edit("GPUDevice", CARDS[0]) as found:
        found["status"].pop("published", None)
    daemon(made, "Stopping", CARDS[0], reason="the control daemon leaves the card")
    made.settle()
    assert configured(made, CARDS[0])[0] == "AwaitingDaemonEnd"
    # It is offered as soon as that is over, so whoever waits for the node's cards waits for this one, too.
    assert made.objects["GPUDevice", CARDS[0]]["status"]["offer"] == "AwaitingPlugin"


@pytest.mark.parametrize("left", [None, "Stopping"])
def test_daemons_stay_on_a_node_whose_driver_is_replaced_until_they_have_ended(left: str | None) -> None:
    """A compute mode that cannot be put back, as without a driver, keeps nobody there."""
    made, label = serving(), names.pool_node_label("a")
    work(made, "Withdrawing")
    for card in CARDS:
        with made.edit("GPUDevice", card) as found:
            found["status"].pop("published", None)
    made.elsewhere = frozenset(CARDS)
    made.settle()
    work(made, "Clearing")
    made.settle()
    assert label in made.objects["Node", "n1"]["metadata"]["labels"]
    daemon(made, left, reason="compute mode is not put back" if left else None, running=False)
    made.settle()
    assert label not in made.objects["Node", "n1"]["metadata"]["labels"]
