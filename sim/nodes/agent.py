"""The simulated agent: `python -m sim.nodes.agent --kubeconfig ADMIN [--health-port N] [--exporter-port N]`.

One process plays NFD, our node agents, DCGM's exporters, kubelet's allocation and probes, and drivers' pods for every
node annotated `kwok.x-k8s.io/node: fake`, those that others created too. Its state is the API's alone: it may
be stopped at any moment, and a new one goes on from there. One watch for each kind, no
polling, no timers but for cards that are divided and drivers that are installed: a quiet cluster costs nothing, and
500 nodes cost one process.

It runs until SIGTERM; `/readyz` at the health port says that its caches are filled. The exporters' texts are at
`http://127.0.0.1:<exporter port>/nodes/<node>/metrics`; the log says which port that is.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from controllers.api.resources import NAMESPACE
from controllers.runtime.controller import Controller
from controllers.runtime.errors import AlreadyExists, ConfigurationError
from controllers.runtime.process import Process, arguments, main
from sim.hardware import load
from sim.nodes import names
from sim.nodes.cluster import Cluster, Wakes
from sim.nodes.driver.player import DriverPods
from sim.nodes.evaluator import Evaluator
from sim.nodes.exporter import Exporters
from sim.nodes.identity import Identities
from sim.nodes.manager import MigManager
from sim.nodes.operands import Operands
from sim.nodes.roles import Roles
from sim.nodes.writes import Writes
from tools import programs
from tools.errors import UserError

NAME = "sim-node-agent"
WORKERS = 8
DIVIDING = 256
"""Nodes whose cards can be divided at a time: whoever does it waits for the cards."""


async def wire(process: Process) -> None:
    """Wire the roles to the caches, and live."""
    evaluator = Evaluator(await asyncio.to_thread(_evaluator_program))  # which may fail: nothing is open yet
    cluster = Cluster(process, load())
    identities = Identities(process.client)
    writes = Writes(cluster, identities, process.recorder)
    roles = Roles(cluster, process.client, writes, evaluator)
    played = {
        "nfd": roles.nfd,
        "discover": roles.discover,
        "plugin": roles.plugin,
        "mig": MigManager(cluster, process.client, writes).node,
        "operands": Operands(cluster, process.client, writes).node,
        "driver": DriverPods(cluster, process.client).node,
    }
    loops = {
        name: Controller(name, role, workers=DIVIDING if name == "mig" else WORKERS) for name, role in played.items()
    }
    cluster.subscribe(Wakes(**{name: loop.add for name, loop in loops.items()}))
    exporters = Exporters(cluster, process.args.exporter_port)
    cluster.nodes.subscribe(lambda old, new: exporters.forget(old.name) if old is not None and new is None else None)

    async def work() -> None:
        await _namespace(process)
        async with asyncio.TaskGroup() as group:
            for controller in loops.values():
                group.create_task(controller.run(), name=controller.name)

    try:
        await exporters.start()
        await process.run(work, lease=None, namespace="")
    finally:
        await exporters.stop()
        await evaluator.close()
        await identities.close()


def _evaluator_program() -> Path:
    """The program that evaluates NodeFeatureRules, built where it is missing; raises ConfigurationError."""
    try:
        return programs.ensure(["nfd-rule"])["nfd-rule"]
    except UserError as error:
        raise ConfigurationError(str(error)) from error


async def _namespace(process: Process) -> None:
    """NFD's namespace; its installation brings it in a real cluster."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.NFD_NAMESPACE}}
    try:
        await process.client.create(NAMESPACE, body, manager=names.NFD_MASTER)
    except AlreadyExists:
        return


if __name__ == "__main__":
    PARSER = arguments(NAME, (__doc__ or "").splitlines()[0])
    PARSER.add_argument("--exporter-port", type=int, default=0, help="of DCGM's texts; 0 lets the system choose")
    sys.exit(main(PARSER, NAME, wire))
