"""What goes wrong with a node, on a real control plane: what is said of it, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names, resources
from controllers.bootstrap.preparation.phases import PHASES
from controllers.components.build import NAMES, object_name
from tests.kit.manifests import body
from tests.kit.objects import allocation
from tests.kit.waiting import at_rest

if TYPE_CHECKING:
    from tests.bootstrap.fleet import Fleet

pytestmark = pytest.mark.cluster


@pytest.fixture
async def node(fleet: Fleet) -> str:
    """A node that was ready, and is made well for the next test."""
    if await fleet.plane.get(resources.NODE, "patient") is None:
        await fleet.nodes("patient")
    await fleet.fault("patient")
    await fleet.pooling("patient", "True", "Ready")
    return "patient"


@pytest.mark.parametrize(
    ("fault", "kind", "reason", "pooling", "said"),
    [
        ("no-driver", "DriverMissing", "DriverNotFound", "DriverNotFound", "install the cards' driver"),
        ("driver-check-failed", "DriverMissing", "LibraryMismatch", "LibraryMismatch", "the check of the driver"),
        ("old-driver", "DriverOutdated", "DriverTooOld", "DriverTooOld", "390.157"),
        ("old-driver", "CudaOutdated", "CudaTooOld", "DriverTooOld", "CUDA 9.1"),
        ("container-check-failed", "InfraDegraded", "DevicesMissing", "DevicesMissing", "a container with cards"),
        ("exporter-down", "MonitoringMissing", "HeartbeatMissing", "HeartbeatMissing", "answered 503, expected 200"),
        ("exporter-garbage", "MonitoringMissing", "HeartbeatMissing", "HeartbeatMissing", "name no card"),
        ("exporter-empty", "MonitoringMissing", "HeartbeatMissing", "HeartbeatMissing", "name no card"),
        ("exporter-silent", "MonitoringMissing", "HeartbeatMissing", "HeartbeatMissing", "no fresh values"),
        ("no-agent", "InfraDegraded", "AgentNotReady", "AgentNotReady", "gpu-nodeagent-discover"),
        ("not-ready:toolkit", "ToolkitMissing", "ToolkitOverdue", "ToolkitOverdue", "component=toolkit"),
        ("not-ready:validator", "InfraDegraded", "ValidatorOverdue", "ValidatorOverdue", "component=validator"),
    ],
)
async def test_it_is_said_and_taken_back(
    fleet: Fleet, node: str, fault: str, kind: str, reason: str, pooling: str, said: str
) -> None:
    await fleet.fault(node, fault)
    found = await fleet.condition(node, kind, "True", reason)
    assert node in found["message"]
    assert said in found["message"]
    assert (await fleet.pooling(node, "False", pooling))["message"]
    assert (await fleet.metrics())[f'gpu_node_inventory_condition{{condition="{kind}",node="{node}"}}'] == 1
    await fleet.fault(node)
    await fleet.pooling(node, "True", "Ready")
    good = await fleet.plane.condition(resources.GPUNODEINVENTORY, node, kind)
    assert good is not None
    assert good["status"] == "False"


@pytest.mark.parametrize(
    ("shape", "reason"), [("h100-sxm-8", "FabricIncomplete"), ("a100-sxm-8", "CudaError802")], ids=["h100", "a100"]
)
async def test_a_machine_whose_fabric_manager_is_down_is_not_ready(fleet: Fleet, shape: str, reason: str) -> None:
    """NVML answers there, and every pod would end with CUDA's error 802."""
    name = f"switched-{shape[:4]}"
    await fleet.nodes(name, fault="no-fabric", shape=shape)
    assert "systemctl status nvidia-fabricmanager" in (await fleet.pooling(name, "False", reason))["message"]
    assert await fleet.condition(name, "InfraDegraded", "True", reason)
    await fleet.fault(name)
    await fleet.pooling(name, "True", "Ready")
    await fleet.gone(name)


async def test_without_a_toolkit_no_container_gets_cards(fleet: Fleet, node: str) -> None:
    await fleet.fault(node, "no-toolkit")
    found = await fleet.plane.until(
        lambda: fleet.plane.condition(resources.GPUNODEINVENTORY, node, "InfraDegraded"), "the condition"
    )
    assert found
    await fleet.pooling(node, "False", "DevicesMissing")
    await fleet.fault(node)
    await fleet.pooling(node, "True", "Ready")


async def test_what_only_labels_keeps_nobody_out(fleet: Fleet, node: str) -> None:
    await fleet.fault(node, "not-ready:gfd")
    await fleet.condition(node, "InfraDegraded", "True", "GfdNotReady")
    await fleet.pooling(node, "True", "Ready")
    await fleet.fault(node)
    await fleet.condition(node, "InfraDegraded", "False", "Healthy")


@pytest.mark.parametrize("component", ["toolkit", "dcgm", "validator"])
async def test_a_pod_that_restarts_takes_no_card_out(fleet: Fleet, node: str, component: str) -> None:
    """As in a roll-out: it is away and comes back within the grace."""
    await fleet.configure(bootstrap={"restartGrace": "30s", "phaseDeadline": "4s"})
    before = await fleet.pooling(node, "True", "Ready")
    await fleet.fault(node, f"not-ready:{component}")
    if component != "dcgm":  # the exporter's answers vouch for that one
        await fleet.pooling(node, "True", "Restarting")
    await fleet.fault(node)
    after = await fleet.pooling(node, "True", "Ready")
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    await fleet.configure()


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
async def test_an_image_that_cannot_be_pulled_is_named_and_waited_for(fleet: Fleet, phase: Any) -> None:
    name = f"new-{phase.name}"
    await fleet.nodes(name, fault=f"not-ready:{phase.name}")
    found = await fleet.pooling(name, "False", f"{phase.reason_prefix}Overdue")
    assert f"{names.NAMESPACE}/{object_name(phase.name)}" in found["message"]
    # The exporter's silence is noticed before its pod's deadline.
    reason = "HeartbeatMissing" if phase.name == "dcgm-exporter" else f"{phase.reason_prefix}Overdue"
    told = await fleet.condition(name, phase.condition, "True", reason)
    assert f"component={phase.name}" in told["message"]
    await fleet.fault(name)
    await fleet.pooling(name, "True", "Ready")
    await fleet.gone(name)


async def test_a_foreign_cordon_is_left_alone(fleet: Fleet, node: str) -> None:
    await fleet.plane.client.merge(resources.NODE, node, {"spec": {"unschedulable": True}}, manager="kubectl")
    await fleet.fault(node, "no-driver")
    await fleet.pooling(node, "False", "DriverNotFound")
    await fleet.fault(node)
    await fleet.pooling(node, "True", "Ready")
    found = await fleet.plane.get(resources.NODE, node)
    assert (found or {})["spec"]["unschedulable"] is True
    await fleet.plane.client.merge(resources.NODE, node, {"spec": {"unschedulable": None}}, manager="kubectl")


async def test_pods_on_a_node_that_leaves_are_told_of(fleet: Fleet, node: str) -> None:
    card = (await fleet.cards(node))[0]
    used = body(allocation())
    await fleet.plane.status(resources.GPUDEVICE, card, {"allocations": [used]})
    await fleet.fault(node, "container-check-failed")
    found = await fleet.condition(node, "DegradedWorkloads", "True", "NodeNotInService")
    assert card in found["message"]
    await fleet.fault(node)
    await fleet.condition(node, "DegradedWorkloads", "False", "None")
    await fleet.plane.status(resources.GPUDEVICE, card, {"allocations": None})


async def test_a_node_that_is_disabled_is_left_and_taken_again(fleet: Fleet, node: str) -> None:
    async def label(value: str | None) -> None:
        body = {"metadata": {"labels": {names.LABEL_ENABLED: value}}}
        await fleet.plane.client.merge(resources.NODE, node, body, manager="test")

    async def empty() -> bool:
        pods = await fleet.plane.list(resources.POD, namespace=names.NAMESPACE)
        there = [pod for pod in pods if pod["spec"].get("nodeName") == node]
        ours = {object_name(phase.name) for phase in PHASES}
        return not [pod for pod in there if pod["metadata"]["labels"].get(names.LABEL_APP) in ours]

    await label("false")
    await fleet.pooling(node, "False", "NotManaged")
    await fleet.until(empty, "the operands to leave")
    assert (await fleet.plane.condition(resources.GPUNODEINVENTORY, node, "ManagedDisabled") or {})["status"] == "True"
    await label(None)
    await fleet.pooling(node, "True", "Ready")


async def test_a_module_that_is_disabled_takes_its_operands_away(fleet: Fleet, node: str) -> None:
    async def operands() -> set[str]:
        found = await fleet.plane.list(resources.DAEMONSET, namespace=names.NAMESPACE)
        found += await fleet.plane.list(resources.CONFIGMAP, namespace=names.NAMESPACE)
        ours = set(NAMES)
        return {one["metadata"]["name"] for one in found} & ours

    async def none() -> bool:
        return not await operands()

    before = await operands()
    await fleet.configure(enabled=False)
    await fleet.pooling(node, "False", "ModuleDisabled")
    await fleet.until(none, "the operands to go")
    found = await fleet.plane.get(resources.NODE, node)
    assert not [key for key in (found or {})["metadata"]["labels"] if key.startswith(names.deploy_label(""))]
    assert await fleet.cards(node)
    await fleet.configure()
    await fleet.pooling(node, "True", "Ready")
    assert await operands() == before


async def test_a_quiet_node_costs_no_writes(fleet: Fleet, node: str) -> None:
    """Scrapes go on twice a second."""

    async def written() -> tuple[float, float]:
        metrics = await fleet.metrics()
        scraped = sum(value for key, value in metrics.items() if key.startswith("gpu_scrapes_total"))
        return sum(v for key, v in metrics.items() if key.startswith("gpu_writes_total")), scraped

    await fleet.pooling(node, "True", "Ready")

    async def writes_alone() -> float:
        return (await written())[0]

    await at_rest(writes_alone, "the count of writes")
    writes, scrapes = await written()

    async def scraped() -> bool:
        return (await written())[1] >= scrapes + 6

    await fleet.until(scraped, "some scrapes")
    assert (await written())[0] == writes
