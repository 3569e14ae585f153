"""What is exported of drivers: from what the objects say, and nothing of what is not there."""

from __future__ import annotations

import pytest

from controllers.api import names
from controllers.domain.clock import stamp
from controllers.driver.metrics import DriverWork
from tests.driver.rollout.cluster import RolledOut
from tests.driver.world import NEXT, Cluster


def samples(made: Cluster) -> dict[tuple[str, ...], float]:
    families = DriverWork(made.view()).collect()
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def test_a_node_at_work_and_a_driver_that_serves() -> None:
    made = Cluster()
    assert samples(made) == {}
    made.node("n1")
    made.node("n2")
    made.breaks["n2"] = "hangs"
    made.driver()
    made.settle()
    made.now += 100
    found = samples(made)

    assert found["gpu_driver_nodes", "main", "current"] == 1
    assert found["gpu_driver_nodes", "main", "busy"] == 1
    assert found["gpu_driver_condition", "main", "Halted"] == 0
    assert found["gpu_driver_condition", "main", "Progressing"] == 1
    assert found["gpu_driver_work", "main", "Installing"] == 1
    assert found["gpu_driver_work_oldest_seconds", "main", "Installing"] == 100
    assert found["gpu_driver_work_attempts", "main", "Installing"] == 1


def test_a_roll_out_is_told_by_kinds_of_nodes_with_its_cost() -> None:
    made = RolledOut()
    made.fleet(4, waves=[50, 100])
    made.users.update(made.nodes())
    made.outside()
    made.retarget(NEXT)
    made.settle()
    made.now += 120
    found = samples(made)
    (stratum,) = {key[2] for key in found if key[0] == "gpu_driver_stratum_nodes"}

    assert found["gpu_driver_stratum_nodes", "main", stratum, "all"] == 4
    assert found["gpu_driver_stratum_nodes", "main", stratum, "started"] == 1
    assert found["gpu_driver_stratum_nodes", "main", stratum, "finished"] == 0
    assert found["gpu_driver_stratum_wave", "main", stratum] == 0
    assert found["gpu_driver_work", "main", "Withdrawing"] == 1
    assert found["gpu_driver_work_oldest_seconds", "main", "Withdrawing"] == 120
    assert found["gpu_driver_gpu_hours", "main"] == 0

    made.users.clear()
    made.outside()
    made.settle()
    made.now += 90
    made.settle()
    assert samples(made)["gpu_driver_gpu_hours", "main"] > 0


@pytest.mark.parametrize("said", ["spec", "annotation"])
def test_a_pause_is_told_for_as_long_as_it_holds(said: str) -> None:
    made = RolledOut()
    made.fleet(1)
    assert samples(made)["gpu_driver_paused", "main"] == 0
    if said == "spec":
        made.merge("GPUDriver", "main", {"spec": {"rollout": {"paused": True}}})
    else:
        made.merge("GPUDriver", "main", {"metadata": {"annotations": {names.PAUSE: stamp(made.now + 900)}}})
    assert samples(made)["gpu_driver_paused", "main"] == 1
    made.settle()
    assert made.status()["state"] == "Paused"
    made.now += 901
    made.settle()
    assert samples(made)["gpu_driver_paused", "main"] == (said == "spec")
    assert (made.status()["state"] == "Paused") is (said == "spec")
