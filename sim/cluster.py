"""`make up` in one function: a control plane, the module on it, and simulated GPU nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controllers.api import names
from controllers.runtime.client import Client
from sim import controlplane, programs
from sim.controlplane import ControlPlane
from sim.controlplane.ports import free_ports
from sim.module.identities import kubeconfig_for
from sim.module.install import Tools, install_chart, install_crds
from sim.module.processes import MODULES, Timers, agent_process, module_process
from sim.nodes.manifests import create_nodes, node_manifests, parse_profile
from sim.programs import Progress, Silent

READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a cluster is to be like."""

    nodes: int = 4
    profile: str = ""
    """Shapes of the nodes, as `h100-sxm-8=2,no-gpu=5`; empty for the usual mix."""
    module: Sequence[str] = tuple(MODULES)
    """The processes of the module that are started."""
    agent: bool = True
    timers: Timers = field(default_factory=Timers)
    values: Mapping[str, str] = field(default_factory=dict)
    """Values for the chart, beside those that a cluster without Services needs."""


def bring_up(folder: Path, options: Options, progress: Progress | None = None) -> ControlPlane:
    """Start everything and return when every process is ready; raises UserError."""
    progress = progress or Silent()
    paths = programs.ensure(programs.PROGRAMS, progress=progress)
    plane = controlplane.up(folder, progress=progress)
    try:
        tools = Tools(plane.kubectl, paths["helm"], plane.kubeconfig)
        health, agent_port, port = free_ports(len(MODULES)), *free_ports(2)
        with progress.task("installing the module's CRDs, RBAC, webhook and policies"):
            install_crds(tools)
            install_chart(tools, {"gpuControlPlane.webhook.url": f"https://127.0.0.1:{port}", **options.values})
        with progress.task("starting the module's processes under their own identities"):
            _start_module(plane, tools, options, dict(zip(MODULES, health, strict=True)), port)
            if options.agent:
                controlplane.add_process(plane.dir, agent_process(plane.kubeconfig, agent_port))
                controlplane.wait_ready(plane.dir, "simulated-agent", READY_SECONDS, max_restarts=3)
        manifests = node_manifests(parse_profile(options.profile, options.nodes))
        if manifests:
            with progress.task(f"adding {len(manifests)} simulated GPU nodes"):
                asyncio.run(_add_nodes(plane.kubeconfig, manifests))
    except BaseException:
        # The logs stay, and so does the cluster: `make down` ends it, and until then a
        # person can look at what went wrong.
        progress.note(f"not everything came up; logs are in {plane.dir / 'logs'}, and `make down` ends the rest")
        raise
    return plane


async def _add_nodes(kubeconfig: Path, manifests: list[Any]) -> None:
    client = await Client.connect(kubeconfig, user_agent="sim")
    try:
        await create_nodes(client, manifests)
    finally:
        await client.close()


def _start_module(plane: ControlPlane, tools: Tools, options: Options, health: Mapping[str, int], port: int) -> None:
    folder = plane.dir / "pki" / "identities"

    def start(name: str) -> None:
        extra = ("--host=127.0.0.1", f"--port={port}") if name == names.WEBHOOK else ()
        config = kubeconfig_for(plane, tools, name, folder)
        spec = module_process(name, config, health[name], options.timers, *extra)
        controlplane.add_process(plane.dir, spec)

    with ThreadPoolExecutor(len(options.module) or 1) as pool:
        list(pool.map(start, options.module))
        wait = controlplane.wait_ready
        list(pool.map(lambda name: wait(plane.dir, name, READY_SECONDS, max_restarts=3), options.module))
