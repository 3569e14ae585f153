"""What the supervisor tells the world, in ``state.json``.

Written by the supervisor alone, by rename, so a reader sees a whole state or none; it is
the truth about which processes are ours, also after the supervisor was killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sim.controlplane.procfs import Identity

Phase = Literal["starting", "ready", "backoff", "stopping", "exited"]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One supervised process as it is now.

    ``identity`` is None while nothing runs. ``digest`` is that of the description it was
    started from. ``started`` is wall-clock seconds; ``exit_code`` is of the last end, -N for
    signal N.
    """

    name: str
    digest: str
    phase: Phase
    identity: Identity | None = None
    started: float = 0.0
    restarts: int = 0
    exit_code: int | None = None
    grace: float = 5.0
    stage: int = 0
    ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """The pid, 0 while nothing runs."""
        return self.identity.pid if self.identity else 0


@dataclass(frozen=True, slots=True)
class State:
    """The supervisor and its processes, by name."""

    supervisor: Identity
    processes: Mapping[str, ProcessState]

    def to_json(self) -> str:
        """Return the text of ``state.json``."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> State:
        """Read the text of ``state.json``."""
        raw: dict[str, Any] = json.loads(text)
        processes = {
            name: ProcessState(**entry | {"identity": Identity(**entry["identity"]) if entry["identity"] else None})
            for name, entry in raw["processes"].items()
        }
        return cls(Identity(**raw["supervisor"]), processes)


def read_state(path: Path) -> State | None:
    """Return the state, None where there is none or it is not ours."""
    try:
        return State.from_json(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace ``path`` so that a reader sees the old text or the new, whole."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    new.replace(path)
