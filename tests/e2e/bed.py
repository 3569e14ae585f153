"""A real node under the real control plane, and what the tests do with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil

from controllers.api import names
from controllers.api.conversions import LATEST
from sim import controlplane
from sim.cluster import Options, bring_up
from sim.controlplane import ControlPlane
from sim.controlplane.ports import free_ports
from sim.module.identities import kubeconfig_for
from sim.module.install import Tools
from sim.realnode import agents
from sim.realnode import node as realnode
from sim.realnode.hostfolders import KEPT_BY_PROGRAMS, MADE_BY_CRIO
from sim.realnode.node import RealNode, Setup
from sim.realnode.places import PLUGINS
from sim.realnode.sweep import SOCKETS, groups
from tools.programs import Progress

NODE = "real-1"
COMPONENTS = ("driverValidator", "toolkit", "gfd", "dcgm", "dcgmExporter", "validator")
READY_SECONDS = 60.0


class Bed:
    """A control plane and its one node, without caches: lives for all tests of a file."""

    def __init__(self, plane: ControlPlane, helm: Path, setup: Setup, progress: Progress) -> None:
        self.plane = plane
        self.tools = Tools(plane.kubectl, helm, plane.kubeconfig)
        self.identities = plane.dir / "pki" / "identities"
        self.node: RealNode = realnode.up(plane, self.tools, NODE, {names.LABEL_PRESENT: "true"}, progress, setup=setup)

    @classmethod
    def with_module(cls, folder: Path, progress: Progress, setup: Setup) -> Self:
        """One on which the module's four processes run beside the node, as in `make up`."""
        made = cls(bring_up(folder, Options(nodes=0, agent=False), progress), Path(), setup, progress)
        made.prepared()
        made.discover()
        return made

    def prepared(self) -> None:
        """The node comes with driver, toolkit and monitoring: how nodes are prepared is tested on simulated ones."""
        settings = {"bootstrap": {name: {"enabled": False} for name in COMPONENTS}}
        config = {
            "apiVersion": "deckhouse.io/v1alpha1",
            "kind": "ModuleConfig",
            "metadata": {"name": names.MODULE},
            "spec": {"enabled": True, "version": LATEST, "settings": settings},
        }
        self.tools.run("apply", "--server-side", "--filename=-", stdin=json.dumps(config))

    def discover(self) -> None:
        """Start the agent's discovery beside its pod."""
        self.add(agents.discover(self.node, self.identity(agents.DISCOVER), free_ports(1)[0]))

    @staticmethod
    def end(folder: Path) -> None:
        """End everything, also where it came up only in part, or its supervisor was killed."""
        controlplane.down(folder)
        realnode.clear(folder)
        shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def left(folder: Path) -> list[str]:
        """What there is of such a node: its folder, mounts, processes, control groups, and what lies elsewhere."""
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
        processes = [f"process {process.pid}" for process in psutil.process_iter() if _names(process, folder)]
        places = [folder, PLUGINS, *MADE_BY_CRIO, *KEPT_BY_PROGRAMS, *groups(), *SOCKETS.glob("*")]
        return [*mounts, *processes, *(str(path) for path in places if path.exists())]

    def identity(self, account: str) -> Path:
        """The kubeconfig that the account's pod on the node would have."""
        return kubeconfig_for(self.plane, self.tools, account, self.identities, (NODE, self.node.uid))

    def add(self, spec: controlplane.ProcessSpec) -> None:
        """Start a process and wait until it is ready."""
        controlplane.add_process(self.plane.dir, spec)
        controlplane.wait_ready(self.plane.dir, spec.name, READY_SECONDS, max_restarts=3)


@contextmanager
def ended(folder: Path) -> Iterator[None]:
    """End what stands in a folder at last, and assert that the machine is as it was."""
    before = Bed.left(folder)
    try:
        yield
    finally:
        Bed.end(folder)
    assert Bed.left(folder) == before


def _names(process: psutil.Process, folder: Path) -> bool:
    with suppress(psutil.Error):
        return any(str(folder) in word for word in process.cmdline())
    return False
