"""A pod that is away for a moment takes no card out of service: the grace, and what ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.runtime.plan import EmitEvent
from tests.bootstrap.world import Cluster

if TYPE_CHECKING:
    from controllers.runtime.plan import Plan

GRACE = 60.0
AWAY = ["driver-validator", "toolkit", "validator", "discover"]
"""Pods that nobody vouches for; the exporter's answers do for dcgm and the exporter."""


@pytest.fixture
def ready() -> Cluster:
    made = Cluster()
    made.prepare()
    made.now += 86_400
    return made


def notes(made: Plan) -> list[str]:
    return [action.reason for action in made.actions if isinstance(action, EmitEvent)]


@pytest.mark.parametrize("component", AWAY)
def test_a_restart_passes_without_leaving(ready: Cluster, component: str) -> None:
    ready.pod(component, ready=False)
    made = ready.step()
    assert ready.pooling() == ("True", "Restarting")
    assert "stays in service for a while" in ready.message("ReadyForPooling")
    assert notes(made) == []
    assert made.requeue_after == pytest.approx(GRACE, abs=1e-3)
    ready.now += GRACE - 1
    assert ready.plan().writes == ()
    assert ready.plan().requeue_after == pytest.approx(1, abs=1e-3)

    ready.pod(component)
    made = ready.step()
    assert ready.pooling() == ("True", "Ready")
    assert notes(made) == []  # it never left: nothing to tell
    assert ready.plan().actions == ()


@pytest.mark.parametrize("component", AWAY)
def test_a_restart_that_lasts_takes_the_node_out_and_it_comes_back(ready: Cluster, component: str) -> None:
    ready.pod(component, ready=False)
    ready.step()
    ready.now += GRACE
    made = ready.step()
    assert ready.pooling()[0] == "False"
    assert ready.pooling()[1].endswith("NotReady")
    assert notes(made) == [names.EVENT_INVENTORY_CONDITION]
    assert ready.plan().writes == ()

    ready.pod(component)
    made = ready.step()
    assert ready.pooling() == ("True", "Ready")
    assert notes(made) == [names.EVENT_NODE_READY]


def test_each_restart_has_its_own_grace(ready: Cluster) -> None:
    for _ in range(3):
        ready.pod("toolkit", ready=False)
        ready.step()
        ready.now += GRACE - 1
        ready.pod("toolkit")
        ready.step()
    assert ready.pooling() == ("True", "Ready")


def test_one_restart_after_another_without_a_pause_is_one(ready: Cluster) -> None:
    ready.pod("discover", ready=False)
    ready.step()
    ready.now += GRACE - 1
    ready.pod("discover")
    ready.pod("toolkit", ready=False)
    ready.step()
    assert ready.pooling() == ("True", "Restarting")
    ready.now += 1
    ready.step()

    assert ready.pooling() == ("False", "ToolkitNotReady")


@pytest.mark.parametrize(
    ("happen", "reason"),
    [
        (lambda c: c.report(driver=""), "DriverNotFound"),
        (lambda c: c.node(ready=False), "NodeNotReady"),
        (lambda c: c.report(boot="another"), "ReportOutdated"),
        (lambda c: c.inventory(managed=False), "NotManaged"),
        (lambda c: c.verdict("driver", "failed", reason="CardLost", message="gone"), "CardLost"),
    ],
)
def test_another_trouble_ends_the_grace_at_once(ready: Cluster, happen: Any, reason: str) -> None:
    ready.pod("toolkit", ready=False)
    ready.step()
    ready.now += 1
    happen(ready)
    ready.step()

    assert ready.pooling() == ("False", reason)


def test_the_grace_runs_on_while_we_are_away(ready: Cluster) -> None:
    """Every plan here is a new process's: the status alone remembers when the restart began."""
    ready.pod("toolkit", ready=False)
    ready.step()
    ready.now += GRACE - 1
    assert ready.plan().writes == ()
    ready.now += 1
    ready.step()
    assert ready.pooling() == ("False", "ToolkitNotReady")


def test_what_went_away_while_we_were_has_its_grace_from_our_start(ready: Cluster) -> None:
    ready.pod("toolkit", ready=False)
    ready.now += 86_400
    ready.step()
    assert ready.pooling() == ("True", "Restarting")


def test_the_grace_is_a_setting(ready: Cluster) -> None:
    ready.settings = parse_settings({"bootstrap": {"restartGrace": "5m"}})
    ready.pod("toolkit", ready=False)
    ready.step()
    ready.now += 299
    assert ready.plan().writes == ()
    ready.now += 1
    ready.step()
    assert ready.pooling() == ("False", "ToolkitNotReady")


def test_a_grace_longer_than_the_deadline_is_kept(ready: Cluster) -> None:
    ready.settings = parse_settings({"bootstrap": {"restartGrace": "1h", "phaseDeadline": "10m"}})
    ready.pod("toolkit", ready=False)
    ready.step()
    ready.now += 600
    ready.step()
    assert ready.pooling() == ("True", "Restarting")
    assert ready.condition("ToolkitMissing") == ("True", "ToolkitOverdue")
    ready.now += 3000
    ready.step()
    assert ready.pooling() == ("False", "ToolkitOverdue")


def test_a_node_that_was_not_ready_has_no_grace(ready: Cluster) -> None:
    ready.pod("toolkit", ready=False)
    ready.step()
    ready.now += GRACE
    ready.step()
    ready.now += 1
    ready.pod("toolkit")
    ready.pod("validator", ready=False)
    ready.step()

    assert ready.pooling() == ("False", "ValidatorNotReady")


def test_a_component_that_is_new_on_a_ready_node_has_the_time_that_a_new_node_has(ready: Cluster) -> None:
    """Its image is still to be pulled, on every node of the fleet at once."""
    ready.settings = parse_settings({"bootstrap": {"toolkit": {"enabled": False}}})
    ready.report(toolkit="true")
    ready.step()
    ready.kubelet()
    ready.settings = parse_settings({})
    ready.step()
    assert ready.pooling() == ("True", "Preparing")
    ready.now += ready.settings.bootstrap.phase_deadline - 1
    ready.step()
    assert ready.pooling() == ("True", "Preparing")
    ready.now += 2
    ready.step()
    assert ready.pooling() == ("False", "ToolkitOverdue")


def test_pods_that_crash_in_turn_put_no_deadline_off(ready: Cluster) -> None:
    def fall(component: str) -> None:
        for one in ("toolkit", "validator"):
            ready.pod(one, ready=one != component)
        ready.step()

    fall("toolkit")
    ready.now += ready.settings.bootstrap.restart_grace + 1
    fall("toolkit")
    assert ready.pooling() == ("False", "ToolkitNotReady")
    began = ready.now
    while ready.now < began + ready.settings.bootstrap.phase_deadline:
        for component in ("validator", "toolkit"):
            ready.now += 60
            fall(component)
    assert ready.pooling() == ("False", "ToolkitOverdue")
