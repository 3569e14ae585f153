"""What a supervised process is, as data that travels through JSON files; no I/O."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Ready:
    """When a process counts as ready: every URL answers 200 and every file is there.

    With neither it is ready as soon as it runs. ``ca`` verifies HTTPS; ``cert`` and ``key``
    are the client's, where a URL asks for one.
    """

    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    ca: str = ""
    cert: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process: what to run, and how to treat it.

    ``env`` is laid over the environment of the supervisor. ``restart`` "always" starts it
    again whatever its exit code (a controller that lost its lease exits on purpose).
    ``stage`` orders the end: higher stages are stopped first, one stage together.
    ``ports`` only informs.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    restart: Literal["always", "never"] = "always"
    ready: Ready = field(default_factory=Ready)
    grace: float = 5.0
    stage: int = 3
    ports: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what could not be a file's name or run."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a process name is a DNS label, got {self.name!r}")
        if not self.argv:
            raise ValueError(f"process {self.name} has nothing to run")

    def to_json(self) -> str:
        """Return the description's text, the same for equal descriptions."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ProcessSpec:
        """Read a description; ValueError, KeyError or TypeError where it is none."""
        raw: dict[str, Any] = json.loads(text)
        ready = dict(raw.pop("ready"))
        for name in ("urls", "files"):
            ready[name] = tuple(ready[name])
        return cls(**raw | {"argv": tuple(raw["argv"]), "ready": Ready(**ready)})

    @property
    def digest(self) -> str:
        """Tell one version of a description from another."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]
