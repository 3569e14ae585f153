"""What is exported of drivers: from what the objects say, and nothing of what is not there."""

from __future__ import annotations

from controllers.driver.metrics import DriverWork
from tests.driver.world import Cluster


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
