"""The facts of a control plane that came up, and how they are found again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sim.controlplane import client
from sim.controlplane.layout import Layout
from sim.controlplane.state import ProcessState, write_atomically


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane that came up; plain facts, valid until ``down``."""

    dir: Path
    server: str
    kubeconfig: Path
    ca: Path
    ports: Mapping[str, int]
    processes: tuple[str, ...]

    @property
    def cert(self) -> Path:
        """The administrator's client certificate."""
        return Layout(self.dir).cert("admin")[0]

    @property
    def key(self) -> Path:
        """The key of the administrator's client certificate."""
        return Layout(self.dir).cert("admin")[1]

    @property
    def kubectl(self) -> Path:
        """A kubectl of the same version."""
        return Layout(self.dir).bin / "kubectl"

    def save(self) -> None:
        """Leave the facts for :func:`load`; from then on the control plane counts as up."""
        text = json.dumps(asdict(self), indent=1, default=str) + "\n"
        write_atomically(Layout(self.dir).facts, text)


@dataclass(frozen=True, slots=True)
class Status:
    """What is in a directory now. ``up``: its supervisor is alive and the API was ready."""

    dir: Path
    up: bool
    control_plane: ControlPlane | None = None
    processes: Mapping[str, ProcessState] = field(default_factory=dict)


def status(folder: Path | str) -> Status:
    """Tell what runs in ``folder``."""
    layout = Layout.of(folder)
    state = client.running(layout)
    if state is None:
        return Status(layout.root, up=False)
    plane = load(layout.root)
    return Status(layout.root, plane is not None, plane, state.processes)


def load(folder: Path | str) -> ControlPlane | None:
    """Return the facts of the control plane that came up in ``folder``."""
    layout = Layout.of(folder)
    try:
        raw = json.loads(layout.facts.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    paths = {name: Path(raw[name]) for name in ("dir", "kubeconfig", "ca")}
    return ControlPlane(**raw | paths | {"processes": tuple(raw["processes"])})
