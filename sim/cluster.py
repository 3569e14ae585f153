"""`make up` in one function: a control plane, the module on it, and simulated GPU nodes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controllers.api import names
from controllers.runtime.client import Client
from controllers.runtime.errors import RuntimeFault
from sim import controlplane
from sim.controlplane import ControlPlane, ProcessSpec
from sim.controlplane.client import log_tail
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.controlplane.state import write_atomically
from sim.module.balance import NAME as BALANCER
from sim.module.balance import webhook_processes
from sim.module.identities import kubeconfig_for
from sim.module.install import Tools, apply_settings, install_chart, install_crds
from sim.module.processes import MODULES, OPTIONAL, Timers, agent_process, exporter_url, module_process
from sim.nodes.manifests import create_nodes, node_manifests, parse_profile
from tools import programs
from tools.errors import UserError
from tools.programs import Progress, Silent
from tools.programs.progress import Task

READY_SECONDS = 180.0
MAX_RESTARTS = 3
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """What a cluster is to be like."""

    nodes: int = 4
    profile: str = ""
    """Shapes of the nodes, as `h100-sxm-8=2,no-gpu=5`; empty for the usual mix."""
    module: Sequence[str] = tuple(MODULES)
    """The processes of the module that are started."""
    driver: bool = False
    """Whether the module brings drivers onto nodes: one process more, and the chart's `driver.enabled`."""
    agent: bool = True
    timers: Timers = field(default_factory=Timers)
    webhooks: int = 2
    """Replicas of the webhook, behind a balancer: the API server has one URL for them."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values for the chart, beside those that a cluster without Services needs."""
    audit_policy: Path | None = None
    """What the API server writes into logs/audit.log about requests; without one it keeps no such log."""
    apiserver_flags: Sequence[str] = ()
    """Flags of kube-apiserver beside ours; one of the same name replaces ours."""
    controller_manager_flags: Sequence[str] = ()
    """Of kube-controller-manager, likewise."""

    @property
    def processes(self) -> tuple[str, ...]:
        """Names of all processes of the module that are started."""
        return (*self.module, *(tuple(OPTIONAL) if self.driver else ()))


def bring_up(folder: Path, options: Options, progress: Progress | None = None) -> ControlPlane:
    """Start everything and return when every process is ready; raises UserError.

    What was started is left where something fails: until `controlplane.down` a person can
    look at what went wrong, and `is_whole` says that not everything is there.
    """
    progress = progress or Silent()
    paths = programs.ensure(programs.PROGRAMS, progress=progress)
    plane = controlplane.up(
        folder,
        extra_apiserver_flags=options.apiserver_flags,
        extra_controller_manager_flags=options.controller_manager_flags,
        audit_policy=options.audit_policy,
        progress=progress,
    )
    tools = Tools(plane.kubectl, paths["helm"], plane.kubeconfig)
    put_module(plane, tools, options, progress)
    manifests = node_manifests(parse_profile(options.profile, options.nodes))
    if manifests:
        with progress.task(f"adding {len(manifests)} simulated GPU nodes"):
            asyncio.run(_add_nodes(plane.kubeconfig, manifests))
    facts = {"processes": list(options.processes), "nodes": len(manifests), "warnings": tools.warnings}
    write_atomically(Layout(plane.dir).module, json.dumps(facts, indent=1) + "\n")
    return plane


def put_module(plane: ControlPlane, tools: Tools, options: Options, progress: Progress) -> None:
    """Put this checkout's module onto a control plane, in place of another version where one is there; UserError.

    Its definitions and chart come before its processes, as an upgrade has it.
    """
    agent_port, port, exporter_port = free_ports(3)
    if (balancer := controlplane.status(plane.dir).processes.get(BALANCER)) is not None:
        port = balancer.ports["https"]  # it stands for the webhook's Service, which keeps its address
    with progress.task("installing CRDs, RBAC, webhook and policies") as task:
        install_crds(tools)
        task.update(1, 2, "the chart")
        values = {"gpuControlPlane.webhook.url": f"https://127.0.0.1:{port}"}
        drivers = {"gpuControlPlane.driver.enabled": "true"} if options.driver else {}
        install_chart(tools, {**values, **drivers, **options.values})
        if options.driver:
            apply_settings(tools, {"driver": {"enabled": True}})
    with progress.task("starting the module's processes") as task:
        flags = {names.BOOTSTRAP: (f"--exporter-url={exporter_url(exporter_port)}",)}
        _start(plane, _module(plane, tools, options, flags, port), task)
    if options.agent:
        with progress.task("starting the simulated node agents") as task:
            _start(plane, [agent_process(plane.kubeconfig, agent_port, exporter_port)], task)


def is_whole(folder: Path) -> bool:
    """Whether the cluster that is up in a folder came up to its end, with the module and the nodes."""
    return controlplane.status(folder).up and Layout.of(folder).module.exists()


async def _add_nodes(kubeconfig: Path, manifests: list[Any]) -> None:
    try:
        client = await Client.connect(kubeconfig, user_agent="sim")
        try:
            await create_nodes(client, manifests)
        finally:
            await client.close()
    except RuntimeFault as error:
        raise UserError(f"the simulated nodes cannot be added: {error}") from error


def _module(
    plane: ControlPlane, tools: Tools, options: Options, flags: Mapping[str, Sequence[str]], port: int
) -> list[ProcessSpec]:
    """The module's processes, each with the kubeconfig of its own ServiceAccount and its own flags.

    `port`: where the API server looks for the webhook.
    """
    folder = plane.dir / "pki" / "identities"
    count = len(options.processes)
    ports = free_ports(count + 1 + 2 * options.webhooks)
    health = dict(zip(options.processes, ports, strict=False))

    def process(name: str) -> list[ProcessSpec]:
        config = kubeconfig_for(plane, tools, name, folder)
        if name == names.WEBHOOK:
            return webhook_processes(config, port, ports[count:], options.timers)
        return [module_process(name, config, health[name], options.timers, *flags.get(name, ()))]

    with ThreadPoolExecutor(count or 1) as pool:
        return [spec for specs in pool.map(process, options.processes) for spec in specs]


def _start(plane: ControlPlane, specs: Sequence[ProcessSpec], task: Task) -> None:
    """Start processes together and wait for all, in this thread: an interrupt ends it at once."""
    for spec in specs:
        controlplane.add_process(plane.dir, spec)
    deadline = time.monotonic() + READY_SECONDS
    while True:
        found = controlplane.status(plane.dir)
        # One that a spec is to replace is none of them, as long as it is there.
        wanted = {(spec.name, spec.digest) for spec in specs}
        there = {name: one for name, one in found.processes.items() if (name, one.digest) in wanted}
        processes = {spec.name: there.get(spec.name) for spec in specs}
        waiting = [name for name, process in processes.items() if process is None or process.phase != "ready"]
        if not waiting:
            return
        task.update(len(specs) - len(waiting), len(specs), f"waiting for {', '.join(waiting)}")
        if not found.up:
            raise _failed(plane, "supervisor", "ended")
        for name, process in processes.items():
            if process is not None and (process.phase == "exited" or process.restarts > MAX_RESTARTS):
                raise _failed(
                    plane, name, f"was restarted {process.restarts} times, and ended with {process.exit_code}"
                )
        if time.monotonic() > deadline:
            raise _failed(plane, waiting[0], f"is not ready after {READY_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _failed(plane: ControlPlane, process: str, what: str) -> UserError:
    layout = Layout.of(plane.dir)
    return UserError(f"{process} {what}; the end of {layout.log(process)}:\n{log_tail(layout, process)}")
