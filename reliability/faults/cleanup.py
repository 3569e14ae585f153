"""Cleans an environment between runs: a run begins with two ready nodes and nothing else."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from controllers.api import foreign, names, resources
from controllers.components.pods import dcgm_exporter
from controllers.runtime.errors import NotFound, RuntimeFault
from reliability.faults.processes import CONTROLLERS, FULL, MANAGER, PACE, START_SECONDS
from reliability.faults.snapshot import EXPORTER_OBJECT
from sim import gpu_operator
from sim.nodes.leaving import bury
from sim.nodes.names import FAULT
from sim.view import LateError
from webhook.certificate_controller import STRATEGIC

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from reliability.faults.environment import Environment

NODES: Final = ("base-1", "base-2")
TEAM: Final = "team"
WIPE_SECONDS: Final = 45.0 * PACE
REST: Final = 0.7
OPERANDS: Final = frozenset({names.LABEL_POOL, names.LABEL_DRIVER})
"""Labels of what is made for pools and drivers, and goes with them."""
MARKS: Final = frozenset({names.ASSIGNMENT, names.RETURN, names.LABEL_IGNORE})


class Dirty(Exception):
    """What the last run left does not go away."""


async def wipe(environment: Environment) -> None:
    """Take away what is left of the last run; raises Dirty."""
    await environment.forget_second()
    for proxy in environment.proxies.values():
        proxy.begin()
    try:
        async with asyncio.timeout(WIPE_SECONDS + START_SECONDS):
            environment.signal(CONTROLLERS, signal.SIGCONT)  # a story that ended early may have left them stopped
            await _renew(environment)
            await environment.up()
            await environment.configure()
            await _remove(environment)
            await environment.until(lambda: not left(environment), WIPE_SECONDS, lambda: "; ".join(left(environment)))
            await environment.rest(REST, WIPE_SECONDS)
    except (LateError, TimeoutError, RuntimeFault) as error:
        raise Dirty(f"what the last run left stays: {error}") from error


async def _renew(environment: Environment) -> None:
    suspects = environment.suspect & set(FULL)
    environment.suspect.clear()
    for short in suspects:
        environment.clock(short).write_text("0")
        await environment.stop(short)
        environment.start(short)


async def _remove(environment: Environment) -> None:
    if environment.has_operator:
        await _without_operator(environment)
    for (kind, name), obj in list(environment.recorder.now.items()):
        if kind == "Pod" and name.startswith(f"{TEAM}/"):
            await environment.delete(resources.POD, name.partition("/")[2], TEAM)
        elif kind == "GPUPool":
            await environment.delete(resources.GPUPOOL, name)
        elif kind == "GPUDriver":
            await environment.delete(resources.GPUDRIVER, name)
        elif kind == "Node" and name not in NODES:
            await environment.delete(resources.NODE, name)
        elif kind == "Node" and FAULT in obj["metadata"].get("annotations", {}):
            await _unmark(environment, resources.NODE, name, FAULT)
    view = environment.view
    await environment.until(
        lambda: not [*view.pools, *view.drivers], WIPE_SECONDS, lambda: "; ".join(left(environment))
    )
    await _unname(environment)
    await _unsaid(environment)
    await _new_nodes(environment)
    pods = environment.recorder.of("Pod")
    for node in {pods[name]["spec"]["nodeName"] for name in _stray(environment)}:
        await bury(environment.client, node)  # Kubernetes' own collector comes after up to a minute
    await _unsaid(environment)


async def _without_operator(environment: Environment) -> None:
    """Take away another operator's objects, but for its kinds, and its pods with their nodes."""
    kinds = (foreign.CLUSTERPOLICY, resources.DEPLOYMENT, resources.DAEMONSET)
    for kind in kinds:
        with suppress(NotFound):
            await environment.client.request("DELETE", kind.path(gpu_operator.NAMESPACE if kind.namespaced else None))
    for key in [name for kind, name in environment.recorder.now if kind == "Pod" and _is_theirs(name)]:
        namespace, _, name = key.partition("/")
        await environment.delete(resources.POD, name, namespace)
    await environment.until(
        lambda: not any(map(_is_theirs, environment.recorder.of("Pod"))), WIPE_SECONDS, lambda: "its pods stay"
    )
    environment.has_operator = False


def _is_theirs(pod: str) -> bool:
    return pod.startswith(f"{gpu_operator.NAMESPACE}/")


async def _unsaid(environment: Environment) -> None:
    """Take what people said off all cards: those that are remembered, since their Nodes are gone, go then."""
    for device in list(environment.view.devices):
        if marks := device.metadata.annotations.keys() & MARKS:
            await _unmark(environment, resources.GPUDEVICE, device.name, *marks)


async def _unname(environment: Environment) -> None:
    """The exporter is told of pools until it is told of another: take out what the last run's were, as a person can."""
    key = ("DaemonSet", f"{names.NAMESPACE}/{EXPORTER_OBJECT}")
    containers = (
        environment.recorder.now.get(key, {}).get("spec", {}).get("template", {}).get("spec", {}).get("containers")
    )
    for container in containers or ():
        if any(each["name"] == dcgm_exporter.RESOURCES for each in container.get("env", ())):
            gone = {"name": dcgm_exporter.RESOURCES, "$patch": "delete"}
            body = {"spec": {"template": {"spec": {"containers": [{"name": container["name"], "env": [gone]}]}}}}
            path = resources.DAEMONSET.path(names.NAMESPACE, EXPORTER_OBJECT)
            await environment.client.request("PATCH", path, body=body, content_type=STRATEGIC)


def _stray(environment: Environment) -> list[str]:
    """Our pods on nodes that are gone."""
    return [
        name
        for name, pod in environment.recorder.of("Pod").items()
        if name.startswith(f"{names.NAMESPACE}/") and pod["spec"].get("nodeName", NODES[0]) not in NODES
    ]


def _is_gone(environment: Environment, node: str) -> bool:
    return environment.view.inventories.get(node) is None and all(
        d.status.node_name != node for d in environment.view.devices
    )


async def _new_nodes(environment: Environment) -> None:
    """What a MIG manager said last stays on the card, and a turn on its node: a new node has neither."""
    divided = {d.status.node_name or "" for d in environment.view.devices if d.status.mig_apply}
    allowed = {i.name for i in environment.view.inventories if i.status.runtime and i.status.runtime.restart_allowed}
    for name in divided | allowed:
        await environment.delete(resources.NODE, name)
        await environment.until(
            partial(_is_gone, environment, name), WIPE_SECONDS, lambda: "; ".join(left(environment))
        )
    for name in NODES:
        if ("Node", name) not in environment.recorder.now:
            await environment.join(name)


async def _unmark(environment: Environment, resource: resources.Resource, name: str, *marks: str) -> None:
    body = {"metadata": {"annotations": dict.fromkeys(marks)}}
    with suppress(NotFound):
        await environment.client.merge(resource, name, body, manager=MANAGER)


def left(environment: Environment) -> list[str]:
    """What is there and should not be, and the other way about."""
    now, devices = environment.recorder.now, list(environment.view.devices)
    found = [f"nodes: {wrong}" for wrong in _wrong_nodes(environment)]
    found += [f"pool {pool.name}" for pool in environment.view.pools]
    found += [f"driver {driver.name}" for driver in environment.view.drivers]
    found += [f"stray pod {name}" for name in _stray(environment)]
    found += [f"pod {name}" for kind, name in now if kind == "Pod" and name.startswith(f"{TEAM}/")]
    found += [
        f"{kind} {name}"
        for (kind, name), obj in now.items()
        if kind in ("ConfigMap", "DaemonSet") and obj["metadata"].get("labels", {}).keys() & OPERANDS
    ]
    if len(devices) != 2 * len(NODES):
        found.append(f"{len(devices)} cards")
    return found + [f"card {device.name}: {device.status}" for device in devices if _in_use(device)]


def _wrong_nodes(environment: Environment) -> list[str]:
    view = environment.view
    there = {node.name for node in view.nodes}, {inventory.name for inventory in view.inventories}
    wrong = [str(sorted(found)) for found in there if found != set(NODES)]
    return wrong if environment.ready(*NODES) else [*wrong, view.unready()]


def _in_use(device: GPUDevice) -> bool:
    """Whether a card is anything but free."""
    status = device.status
    held = status.pool_ref or status.published or status.reservations or status.allocations or status.mig_apply
    return bool(held) or status.state != "Unassigned" or names.ASSIGNMENT in device.metadata.annotations
