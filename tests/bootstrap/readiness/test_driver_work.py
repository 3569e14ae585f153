"""A node whose driver is changed is out of service by decision, up to the deadline that the work has."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.components import HOLDING_GPU_OPEN
from controllers.api.settings import parse_settings
from controllers.domain.clock import SKEW, stamp
from controllers.runtime.plan import EmitEvent
from tests.bootstrap.world import COMPONENTS, NODE, Cluster

LIMIT = 600.0
REST = [component for component in COMPONENTS if component not in HOLDING_GPU_OPEN]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.prepare()
    made.pooled("a")
    return made


def bare() -> Cluster:
    """A node that has cards, and no driver."""
    made = Cluster()
    made.node()
    made.report(driver="", cuda="")
    made.inventory()
    made.device()
    made.pod("discover")
    made.step()
    return made


def work(cluster: Cluster, phase: str | None, *, limit: float | None = LIMIT, on: str = NODE, **more: Any) -> None:
    """What gpu-driver-controller says, and what the node makes of it."""
    uid = cluster.objects["Node", on]["metadata"]["uid"]
    told = {
        "driver": "h100",
        "to": "0123456789-ubuntu24.04-any",
        "phase": phase,
        "since": stamp(cluster.now),
        "deadline": stamp(cluster.now + limit) if limit is not None else None,
        "nodeUID": uid,
    } | more
    with cluster.edit("GPUNodeInventory", on) as inventory:
        inventory["status"]["driverWork"] = {key: value for key, value in told.items() if value} if phase else None
    cluster.step(on=on)


def late(cluster: Cluster) -> None:
    """The deadline passes, and so do the seconds by which clocks differ."""
    cluster.now += LIMIT + SKEW + 1
    cluster.step()


def settle(cluster: Cluster) -> None:
    """What may start starts, one after the other."""
    for _ in (*COMPONENTS, ""):
        cluster.kubelet()
        cluster.step()


@pytest.mark.parametrize("phase", ["Withdrawing", "Draining", "Clearing", "Removing", "Installing"])
def test_a_node_in_work_is_out_of_service_and_counts_in_no_fuse(cluster: Cluster, phase: str) -> None:
    work(cluster, phase)
    assert cluster.pooling() == ("False", "DriverWork")
    assert "GPUDriver h100 changes the driver of node worker-01" in cluster.message("ReadyForPooling")
    told = cluster.status()["bootstrap"]
    assert (told["stage"], told.get("disrupted")) == ("DriverWork", None)
    assert cluster.view().fleet(cluster.now) == (0, [])
    assert cluster.plan().actions == ()


@pytest.mark.parametrize("phase", ["Clearing", "Removing", "Installing"])
def test_what_holds_the_driver_open_goes_and_comes_back_in_order(cluster: Cluster, phase: str) -> None:
    work(cluster, phase)
    assert cluster.gates() == REST
    assert cluster.status()["bootstrap"].get("suspended") is None
    cluster.kubelet()
    work(cluster, "Validating")
    assert cluster.gates() == COMPONENTS[:3]
    assert cluster.pooling()[0] == "False"
    settle(cluster)
    assert (cluster.pooling(), cluster.gates()) == (("True", "Ready"), COMPONENTS)


@pytest.mark.parametrize("phase", ["Withdrawing", "Draining", "Relayout"])
def test_while_nothing_is_unloaded_clients_stay(cluster: Cluster, phase: str) -> None:
    work(cluster, phase)
    assert cluster.gates() == COMPONENTS


@pytest.mark.parametrize("phase", ["Preflight", "Queued", "Blocked", "Deferred", "Failed", "Soaking", "Returning"])
def test_what_waits_takes_no_node_out_of_service(cluster: Cluster, phase: str) -> None:
    work(cluster, phase, reason="DiskFull", message="3 MiB are free")
    assert cluster.pooling() == ("True", "Ready")
    assert cluster.gates() == COMPONENTS


@pytest.mark.parametrize("phase", ["Validating", "Relayout", "Returning"])
def test_a_node_that_does_not_serve_with_its_new_driver_yet_counts_in_no_fuse(cluster: Cluster, phase: str) -> None:
    cluster.report(driver="")
    work(cluster, phase)
    assert cluster.pooling()[0] == "False"
    assert cluster.view().fleet(cluster.now) == (0, [])
    late(cluster)
    assert cluster.view().fleet(cluster.now) == (1, [NODE]), "by then it should be back"


def test_a_node_that_soaks_counts_like_any_other(cluster: Cluster) -> None:
    cluster.report(driver="")
    work(cluster, "Soaking")

    assert cluster.view().fleet(cluster.now) == (1, [NODE])


def test_work_that_is_overdue_keeps_no_node_out(cluster: Cluster) -> None:
    work(cluster, "Installing")
    cluster.kubelet()  # the exporter goes, and nobody waits for its answers
    wait = cluster.plan().requeue_after
    assert wait is not None
    assert abs(wait - LIMIT - SKEW) <= 1
    late(cluster)
    assert cluster.condition("InfraDegraded") == ("True", "DriverWorkOverdue")
    assert "gpu-driver-controller" in cluster.message("InfraDegraded")
    settle(cluster)
    assert (cluster.pooling(), cluster.gates()) == (("True", "Ready"), COMPONENTS)
    assert cluster.plan().actions == ()
    work(cluster, None)
    assert cluster.condition("InfraDegraded") == ("False", "Healthy")


def test_clocks_that_differ_end_nothing_early(cluster: Cluster) -> None:
    work(cluster, "Installing")
    cluster.now += LIMIT + SKEW - 5
    cluster.step()
    assert cluster.pooling() == ("False", "DriverWork")


def test_a_hand_over_lasts_as_long_as_a_person_wants_and_nothing_else_without_an_end_counts(cluster: Cluster) -> None:
    work(cluster, "HandedOver", limit=None)
    cluster.now += 30 * 24 * 3600
    cluster.step()
    assert cluster.pooling() == ("False", "DriverWork")
    work(cluster, "Installing", limit=None)
    settle(cluster)
    assert cluster.pooling() == ("True", "Ready")
    assert cluster.condition("InfraDegraded") == ("True", "DriverWorkOverdue")


@pytest.mark.parametrize("spoiled", [{"nodeUID": "of-another"}, {"deadline": "soon"}])
def test_work_on_another_machine_of_that_name_and_a_spoiled_deadline_mean_nothing(
    cluster: Cluster, spoiled: dict[str, str]
) -> None:
    work(cluster, "Installing", **spoiled)
    assert cluster.pooling() == ("True", "Ready")


def test_a_planned_node_leaves_the_room_of_failures_to_failures(cluster: Cluster) -> None:
    """With 20 % of five nodes one may fail; that another's driver is changed does not use this up."""
    nodes = [NODE, *(f"worker-{number:02}" for number in range(2, 6))]
    for node in nodes[1:]:
        cluster.prepare(node)
        cluster.pooled("a", on=node)
    cluster.settings = parse_settings({"health": {"maxUnavailablePercent": 20}})
    work(cluster, "Installing")
    cluster.answers[nodes[1]] = False
    cluster.step(on=nodes[1])
    assert cluster.pooling(nodes[1])[0] == "False"
    cluster.answers[nodes[2]] = False
    cluster.step(on=nodes[2])
    assert cluster.pooling(nodes[2]) == ("True", "Held")
    late(cluster)
    cluster.answers[nodes[1]] = True
    cluster.step(on=nodes[1])
    assert cluster.pooling(nodes[1])[0] == "True"


def test_a_fuse_that_has_no_room_holds_no_node_whose_driver_is_changed(cluster: Cluster) -> None:
    for node in ("worker-02", "worker-03"):
        cluster.prepare(node)
        cluster.pooled("a", on=node)
        cluster.answers[node] = False
        cluster.step(on=node)
    work(cluster, "Withdrawing")
    assert cluster.pooling() == ("False", "DriverWork")


@pytest.mark.parametrize("phase", ["Preflight", "Queued", "Validating"])
def test_a_bare_node_says_that_its_driver_is_brought(phase: str) -> None:
    cluster = bare()
    assert cluster.pooling() == ("False", "DriverNotFound")
    work(cluster, phase)
    assert cluster.condition("DriverMissing") == ("Unknown", "DriverAwaited")
    assert cluster.pooling() == ("False", "DriverAwaited")
    assert "GPUDriver h100 brings a driver onto node worker-01" in cluster.message("DriverMissing")


@pytest.mark.parametrize("phase", ["Blocked", "Failed", "Broken"])
def test_a_bare_node_says_why_its_driver_does_not_come(phase: str) -> None:
    cluster = bare()
    work(cluster, "Queued")
    why = "no image for alt11 is published; name one in spec.image.overrides"
    work(cluster, phase, limit=None, reason="NoImageForSystem", message=why)
    assert cluster.condition("DriverMissing") == ("True", "DriverNotInstalled")
    assert cluster.message("DriverMissing").endswith(f"({phase}, NoImageForSystem): {why}")


def test_a_bare_node_comes_into_service_by_the_checks_of_every_day() -> None:
    cluster = bare()
    work(cluster, "Installing")
    assert (cluster.pooling(), cluster.gates()) == (("False", "DriverWork"), ["driver-validator"])
    cluster.now += cluster.settings.bootstrap.phase_deadline + 1
    cluster.step()
    assert cluster.condition("DriverMissing") == ("Unknown", "DriverAwaited")
    cluster.report()
    work(cluster, "Validating")
    settle(cluster)
    assert cluster.pooling() == ("True", "Ready")
    work(cluster, None)
    assert cluster.plan().actions == ()


def test_who_lets_a_driver_be_brought_hears_no_warning_that_it_is_missing() -> None:
    cluster = Cluster()
    cluster.node()
    cluster.report(driver="", cuda="")
    cluster.inventory()
    cluster.device()
    cluster.pod("discover")
    with cluster.edit("GPUNodeInventory", NODE) as inventory:
        uid = cluster.objects["Node", NODE]["metadata"]["uid"]
        inventory["status"]["driverWork"] = {
            "driver": "h100", "phase": "Queued", "since": stamp(cluster.now), "nodeUID": uid,
        }  # fmt: skip
    told = [action.reason for action in cluster.step().actions if isinstance(action, EmitEvent)]
    assert names.EVENT_DRIVER_MISSING not in told


def test_of_a_driver_that_a_gpudriver_brought_nobody_is_sent_to_the_host(cluster: Cluster) -> None:
    cluster.report(driver="418.40")
    cluster.step()
    assert "on the host" in cluster.message("DriverOutdated")
    with cluster.edit("Node", NODE) as node:
        node["metadata"]["labels"][names.DRIVER_VARIANT] = "0123456789-ubuntu24.04-any"
    cluster.step()
    assert "name a newer version in the GPUDriver" in cluster.message("DriverOutdated")
    assert cluster.objects[resources.NODE.kind, NODE]["metadata"]["labels"][names.DRIVER_VARIANT]
