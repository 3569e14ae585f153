"""What the last run left is taken away: a run begins with two ready nodes and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from controllers.bootstrap.operands import monitoring
from controllers.runtime.errors import NotFound, RuntimeFault
from reliability.faults.picture import EXPORTER
from reliability.faults.processes import FULL, MANAGER, PACE, START_SECONDS
from sim.nodes.names import FAULT
from sim.view import LateError
from webhook.certificates import STRATEGIC

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from reliability.faults.ground import Ground

NODES: Final = ("base-1", "base-2")
TEAM: Final = "team"
WIPE_SECONDS: Final = 45.0 * PACE
REST: Final = 0.7
MARKS: Final = frozenset({names.ASSIGNMENT, names.RETURN, names.LABEL_IGNORE})


class Dirty(Exception):
    """What the last run left does not go away."""


async def wipe(ground: Ground) -> None:
    """Take away what is left of the last run; raises Dirty."""
    await ground.forget_second()
    for tap in ground.taps.values():
        tap.begin()
    try:
        async with asyncio.timeout(WIPE_SECONDS + START_SECONDS):
            await _renew(ground)
            await ground.up()
            await ground.configure()
            await _remove(ground)
            await ground.until(lambda: not left(ground), WIPE_SECONDS, lambda: "; ".join(left(ground)))
            await ground.rest(REST, WIPE_SECONDS)
    except (LateError, TimeoutError, RuntimeFault) as error:
        raise Dirty(f"what the last run left stays: {error}") from error


async def _renew(ground: Ground) -> None:
    suspects = ground.suspect & set(FULL)
    ground.suspect.clear()
    for short in suspects:
        ground.clock(short).write_text("0")
        await ground.stop(short)
        ground.start(short)


async def _remove(ground: Ground) -> None:
    for (kind, name), obj in list(ground.recorder.now.items()):
        if kind == "Pod" and name.startswith(f"{TEAM}/"):
            await ground.delete(resources.POD, name.partition("/")[2], TEAM)
        elif kind == "GPUPool":
            await ground.delete(resources.GPUPOOL, name)
        elif kind == "Node" and name not in NODES:
            await ground.delete(resources.NODE, name)
        elif kind == "Node" and FAULT in obj["metadata"].get("annotations", {}):
            await _unmark(ground, resources.NODE, name, FAULT)
    await ground.until(lambda: not list(ground.view.pools), WIPE_SECONDS, lambda: "; ".join(left(ground)))
    await _unname(ground)
    await _unsaid(ground)
    await _new_nodes(ground)
    for name in _stray(ground):  # Kubernetes' own collector comes after up to a minute
        await ground.delete(resources.POD, name.partition("/")[2], names.NAMESPACE)
    await _unsaid(ground)


async def _unsaid(ground: Ground) -> None:
    """Take what people said off all cards: those that are remembered, since their Nodes are gone, go then."""
    for device in list(ground.view.devices):
        if marks := device.metadata.annotations.keys() & MARKS:
            await _unmark(ground, resources.GPUDEVICE, device.name, *marks)


async def _unname(ground: Ground) -> None:
    """The exporter is told of pools until it is told of another: take out what the last run's were, as a person can."""
    key = ("DaemonSet", f"{names.NAMESPACE}/{EXPORTER}")
    containers = ground.recorder.now.get(key, {}).get("spec", {}).get("template", {}).get("spec", {}).get("containers")
    for container in containers or ():
        if any(each["name"] == monitoring.RESOURCES for each in container.get("env", ())):
            gone = {"name": monitoring.RESOURCES, "$patch": "delete"}
            body = {"spec": {"template": {"spec": {"containers": [{"name": container["name"], "env": [gone]}]}}}}
            path = resources.DAEMONSET.path(names.NAMESPACE, EXPORTER)
            await ground.client.request("PATCH", path, body=body, content_type=STRATEGIC)


def _stray(ground: Ground) -> list[str]:
    """Our pods on nodes that are gone."""
    return [
        name
        for name, pod in ground.recorder.of("Pod").items()
        if name.startswith(f"{names.NAMESPACE}/") and pod["spec"].get("nodeName", NODES[0]) not in NODES
    ]


def _is_gone(ground: Ground, node: str) -> bool:
    return ground.view.inventories.get(node) is None and all(d.status.node_name != node for d in ground.view.devices)


async def _new_nodes(ground: Ground) -> None:
    """What a MIG manager said last stays on the card: a new node has cards that were never divided."""
    for name in {d.status.node_name or "" for d in ground.view.devices if d.status.mig_apply}:
        await ground.delete(resources.NODE, name)
        await ground.until(partial(_is_gone, ground, name), WIPE_SECONDS, lambda: "; ".join(left(ground)))
    for name in NODES:
        if ("Node", name) not in ground.recorder.now:
            await ground.join(name)


async def _unmark(ground: Ground, resource: resources.Resource, name: str, *marks: str) -> None:
    body = {"metadata": {"annotations": dict.fromkeys(marks)}}
    with suppress(NotFound):
        await ground.client.merge(resource, name, body, manager=MANAGER)


def left(ground: Ground) -> list[str]:
    """What is there and should not be, and the other way about."""
    now, devices = ground.recorder.now, list(ground.view.devices)
    found = [f"nodes: {wrong}" for wrong in _wrong_nodes(ground)]
    found += [f"pool {pool.name}" for pool in ground.view.pools]
    found += [f"stray pod {name}" for name in _stray(ground)]
    found += [f"pod {name}" for kind, name in now if kind == "Pod" and name.startswith(f"{TEAM}/")]
    found += [
        f"{kind} {name}"
        for (kind, name), obj in now.items()
        if kind in ("ConfigMap", "DaemonSet") and names.LABEL_POOL in obj["metadata"].get("labels", {})
    ]
    if len(devices) != 2 * len(NODES):
        found.append(f"{len(devices)} cards")
    return found + [f"card {device.name}: {device.status}" for device in devices if _in_use(device)]


def _wrong_nodes(ground: Ground) -> list[str]:
    view = ground.view
    there = {node.name for node in view.nodes}, {inventory.name for inventory in view.inventories}
    wrong = [str(sorted(found)) for found in there if found != set(NODES)]
    return wrong if ground.ready(*NODES) else [*wrong, view.unready()]


def _in_use(device: GPUDevice) -> bool:
    """Whether a card is anything but free."""
    status = device.status
    held = status.pool_ref or status.published or status.reservations or status.allocations or status.mig_apply
    return bool(held) or status.state != "Unassigned" or names.ASSIGNMENT in device.metadata.annotations
