"""A real node beside a control plane: `up` joins it, and `clear` leaves nothing of it after the control plane's end.

Its processes run under the control plane's supervisor, and end with it. One node at a time on a machine: device plugins
meet kubelet in a folder that cannot be moved.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim import controlplane, nvml
from sim.controlplane import kubeconfig, pki
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.controlplane.state import write_atomically
from sim.realnode import cards, hostfolders, image, kubelet, needs
from sim.realnode.places import SOCKET_MAX, Places
from sim.realnode.runtimes import Containerd, Runtime
from sim.realnode.sweep import remove
from tools import programs
from tools.errors import UserError
from tools.programs import Silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.controlplane import ControlPlane, ProcessSpec
    from sim.hardware.sysfs import Tree
    from sim.module.install import Tools
    from tools.programs import Progress

READY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Setup:
    """What a node is like, where it is not as usual."""

    runtime: Runtime = field(default_factory=Containerd)
    archives: tuple[Path, ...] = ()
    """Images that it gets beside the test's own, as its runtime takes them."""


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node that has joined."""

    name: str
    uid: str
    """Of its Node."""
    places: Places
    tree: Tree
    """The machine that its programs see."""


def up(
    plane: ControlPlane,
    tools: Tools,
    name: str,
    labels: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    *,
    setup: Setup = Setup(),
) -> RealNode:
    """Start a container runtime and kubelet, and return when the Node is Ready; raises UserError.

    Kubelet gives the node `labels` when it registers.
    """
    if lacks := needs.lacking() or setup.runtime.lacking():
        raise UserError(lacks)
    progress = progress or Silent()
    paths = programs.ensure(("kubelet", "payload"), progress=progress)
    theirs = setup.runtime.programs(progress)
    library = nvml.build(progress)
    places = Places(plane.dir / "node")
    if len(str(places.socket)) > SOCKET_MAX:
        raise UserError(f"{places.socket} is too long for a socket", do="use a folder with a shorter path")
    with progress.task(f"starting a container runtime and kubelet as node {name}"):
        _remove(places)
        places.root.mkdir()
        hostfolders.prepare(places)
        hostfolders.share()
        tree = cards.write(places, name, library)
        image.write(places.image, paths["payload"])
        archives = (places.image, *setup.archives)
        for spec in setup.runtime.processes(places, theirs, archives):
            _start(plane, spec)
        setup.runtime.load(places, theirs, archives)
        _start_kubelet(plane, places, paths["kubelet"], name, labels or {})
        for sign in ("create", "condition=Ready"):
            tools.run("wait", f"--for={sign}", f"node/{name}", f"--timeout={READY_SECONDS:.0f}s")
    uid = json.loads(tools.run("get", "node", name, "--output=json"))["metadata"]["uid"]
    return RealNode(name, uid, places, tree)


def clear(folder: Path) -> None:
    """End what is left of the node in a control plane's folder, which has ended, and remove its data."""
    _remove(Places(folder.resolve() / "node"))


def _start(plane: ControlPlane, spec: ProcessSpec) -> None:
    controlplane.add_process(plane.dir, spec)
    controlplane.wait_ready(plane.dir, spec.name, READY_SECONDS, max_restarts=2)


def _start_kubelet(plane: ControlPlane, places: Places, program: Path, name: str, labels: Mapping[str, str]) -> None:
    ports = dict(zip(("https", "healthz"), free_ports(2), strict=True))
    places.kubelet.mkdir()
    places.kubelet_config.write_text(kubelet.config(places, plane.ca, ports))
    write_atomically(places.kubeconfig, _identity(plane, name), mode=0o600)
    _start(plane, kubelet.process(places, program, name, labels, ports))


def _identity(plane: ControlPlane, name: str) -> str:
    """Kubelet's own: the API server lets it see and write what concerns its node."""
    layout = Layout.of(plane.dir)
    pki.Authority.load(layout.pki).client("kubelet", f"system:node:{name}", "system:nodes")
    cert, key = layout.cert("kubelet")
    return kubeconfig.render(
        server=plane.server,
        ca=plane.ca.read_bytes(),
        user=f"system:node:{name}",
        cert=cert.read_bytes(),
        key=key.read_bytes(),
    )


def _remove(places: Places) -> None:
    hostfolders.forget(places)
    remove(places)
    hostfolders.forget_plugins()
