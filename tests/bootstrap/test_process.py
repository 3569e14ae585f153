"""gpu-bootstrap-controller beside inventory, as processes, on a real control plane with KWOK's nodes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names, resources
from controllers.bootstrap.preparation.phases import PHASES
from sim.nodes import names as sim_names
from tests.inventory.plane import Plane
from tests.kit.reports import reported
from tests.kit.waiting import at_rest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cluster
COMPONENTS = [phase.name for phase in PHASES]
DAEMONSET = "gpu-dcgm-exporter"
INVENTORY, BOOTSTRAP = "controllers.inventory", "controllers.bootstrap"
Flags = dict[str, list[str]]


async def add_node(plane: Plane, name: str, fault: str = "") -> None:
    """A node with two cards that somebody described by hand, before it came; the simulation plays the rest."""
    await plane.report(name, [reported(0), reported(1)], boot="")
    annotations = {sim_names.FAKE: "fake", sim_names.FAULT: fault}
    meta = {"name": name, "annotations": annotations, "labels": {names.LABEL_PRESENT: "true"}}
    await plane.put(resources.NODE, {"metadata": meta})


async def pooling(plane: Plane, node: str, status: str, reason: str | None = None) -> dict[str, Any]:
    """Wait for the node's ReadyForPooling."""

    async def found() -> dict[str, Any] | None:
        made = await plane.condition(resources.GPUNODEINVENTORY, node, "ReadyForPooling")
        return made if made and made["status"] == status and reason in (None, made["reason"]) else None

    return dict(await plane.until(found, f"ReadyForPooling {status} {reason or ''} of {node}"))


async def gates(plane: Plane, node: str) -> set[str]:
    found = await plane.get(resources.NODE, node)
    prefix = names.deploy_label("")
    return {key.removeprefix(prefix) for key in (found or {})["metadata"]["labels"] if key.startswith(prefix)}


async def says(plane: Plane, node: str, wanted: dict[str, str]) -> None:
    """Wait for the conditions of a Node that say whether it is ready: kubelet's, and ours."""

    async def told() -> bool:
        found = (await plane.get(resources.NODE, node) or {})["status"]["conditions"]
        return {one["type"]: one["status"] for one in found if one["type"] in ("Ready", names.NODE_READY)} == wanted

    await plane.until(told, f"the Node to say {wanted}")


async def test_a_node_is_prepared_and_given_back(plane: Plane, tmp_path: Path, flags: Flags) -> None:
    await add_node(plane, "story")
    async with (
        plane.run(INVENTORY, tmp_path, *flags[INVENTORY]),
        plane.run(BOOTSTRAP, tmp_path, *flags[BOOTSTRAP]) as process,
    ):
        await pooling(plane, "story", "True")
        assert await gates(plane, "story") == set(COMPONENTS)
        status = (await plane.get(resources.GPUNODEINVENTORY, "story") or {})["status"]
        assert status["driver"]["version"] == "580.65.06"
        assert status["monitoring"].keys() == {"dcgmReady", "lastHeartbeat"}
        assert {c["type"] for c in status["conditions"]} >= {"ManagedDisabled", "ReadyForPooling"}
        assert (await process.metrics())['gpu_bootstrap_ready{node="story"}'] == 1
        await says(plane, "story", {"Ready": "True", names.NODE_READY: "True"})

        async def event() -> list[dict[str, Any]]:
            events = await plane.list(resources.EVENT, namespace="default", prefix="story.")
            return [one for one in events if one["reason"] == names.EVENT_NODE_READY]

        await plane.until(event, "the event")
        await at_rest(process.writes, "the count of writes")

        labels = {"metadata": {"labels": {names.LABEL_ENABLED: "false"}}}
        await plane.client.merge(resources.NODE, "story", labels, manager="test")
        await pooling(plane, "story", "False", "NotManaged")

        async def emptied() -> bool:
            pods = await plane.list(resources.POD, namespace=names.NAMESPACE)
            ours = [p for p in pods if p["metadata"]["labels"].get(names.LABEL_COMPONENT) in COMPONENTS]
            return not await gates(plane, "story") and not [p for p in ours if p["spec"].get("nodeName") == "story"]

        await plane.until(emptied, "the components to leave")
        await says(plane, "story", {"Ready": "True"})
        labels["metadata"]["labels"][names.LABEL_ENABLED] = "true"
        await plane.client.merge(resources.NODE, "story", labels, manager="test")
        await pooling(plane, "story", "True")
        assert process.end() == 0


async def test_edited_and_deleted_components_are_restored(plane: Plane, tmp_path: Path, flags: Flags) -> None:
    async def built() -> dict[str, Any] | None:
        return await plane.get(resources.DAEMONSET, DAEMONSET, names.NAMESPACE)

    def pod(found: dict[str, Any]) -> dict[str, Any]:
        return dict(found["spec"]["template"]["spec"])

    async with plane.run(BOOTSTRAP, tmp_path, *flags[BOOTSTRAP]):
        before = await plane.until(built, "the component")
    edit = {"spec": {"template": {"spec": {"hostNetwork": False, "tolerations": [], "priorityClassName": None}}}}
    path = resources.DAEMONSET.path(names.NAMESPACE, DAEMONSET)
    body = resources_json(edit)
    await plane.client.request(
        "PATCH", path, query={"fieldManager": "kubectl-edit"}, body=body, content_type="application/merge-patch+json"
    )
    # Edited while nobody of us ran: what is there decides, not what was seen to happen.
    async with plane.run(BOOTSTRAP, tmp_path, *flags[BOOTSTRAP]) as process:

        async def restored() -> bool:
            found = await built()
            return found is not None and pod(found) == pod(before)

        await plane.until(restored, "the edit to be undone")
        await plane.delete(resources.DAEMONSET, DAEMONSET, names.NAMESPACE)
        await plane.until(restored, "the component to come back")
        await at_rest(process.writes, "the count of writes")


async def test_a_component_that_does_not_start_is_overdue_also_after_a_restart(
    plane: Plane, tmp_path: Path, flags: Flags
) -> None:
    spec = {"enabled": True, "version": 1, "settings": {"bootstrap": {"phaseDeadline": "8s"}}}
    await plane.put(resources.MODULECONFIG, {"metadata": {"name": names.MODULE}, "spec": spec})
    await add_node(plane, "stuck", fault="not-ready:driver-validator")
    async with plane.run(INVENTORY, tmp_path, *flags[INVENTORY]):
        async with plane.run(BOOTSTRAP, tmp_path, *flags[BOOTSTRAP]) as process:
            await pooling(plane, "stuck", "False", "DriverValidatorNotReady")
            since = (await plane.get(resources.GPUNODEINVENTORY, "stuck") or {})["status"]["bootstrap"]["lastRun"]
            process.process.send_signal(signal.SIGTERM)
            process.process.wait()
        async with plane.run(BOOTSTRAP, tmp_path, *flags[BOOTSTRAP]):
            found = await pooling(plane, "stuck", "False", "DriverValidatorOverdue")
            assert "node stuck" in found["message"]
            assert "gpu.deckhouse.io/component=driver-validator" in found["message"]
            status = (await plane.get(resources.GPUNODEINVENTORY, "stuck") or {})["status"]
            assert status["bootstrap"]["lastRun"] == since
            missing = await plane.condition(resources.GPUNODEINVENTORY, "stuck", "DriverMissing")
            assert missing is not None
            assert (missing["status"], missing["reason"]) == ("True", "DriverValidatorOverdue")
            assert await gates(plane, "stuck") == {"driver-validator"}
    await plane.delete(resources.MODULECONFIG, names.MODULE)


async def test_a_lost_card_is_faulted(plane: Plane, tmp_path: Path, flags: Flags) -> None:
    await add_node(plane, "loser")
    name = "loser-0000-17-00-0"
    async with plane.run(INVENTORY, tmp_path, *flags[INVENTORY]), plane.run(BOOTSTRAP, tmp_path, *flags[BOOTSTRAP]):
        await pooling(plane, "loser", "True")
        await plane.status(resources.GPUDEVICE, name, {"poolRef": {"name": "a", "resource": "gpu.deckhouse.io/a"}})
        await plane.report("loser", [reported(1)], boot="")

        async def faulted() -> bool:
            found = await plane.condition(resources.GPUDEVICE, name, "Faulted")
            return found is not None and (found["status"], found["reason"]) == ("True", "CardLost")

        await plane.until(faulted, "the card to be faulted")
        await plane.report("loser", [reported(0), reported(1)], boot="")

        async def returned() -> bool:
            found = await plane.condition(resources.GPUDEVICE, name, "Faulted")
            return found is not None and found["status"] == "False"

        await plane.until(returned, "the card to return")


def resources_json(obj: dict[str, Any]) -> bytes:
    import orjson

    return orjson.dumps(obj)
