"""Files by which a pool's device plugin and its MPS role tell each other of the cards on their node.

They lie in a folder of the host that a reboot empties, as it ends the daemons. `wanted.json` is the plugin's,
`state.json` the role's, and each is replaced whole. `lock` is a `flock` that the role has for its life: the kernel lets
go of it however the role ends, so what a dead one wrote last is never taken for what is.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")

ROOT: Final = "/run/nvidia/mps"
"""The host's folder of all pools; each has one below it."""
LOCK, WANTED, STATE = "lock", "wanted.json", "state.json"
PIPE, LOG, SHM = "pipe", "log", "shm"
FILE_MAX = 1 << 20  # bytes
Phase = Literal["Ready", "Down", "Stopping"]
PHASES: Final = ("Ready", "Down", "Stopping")


@dataclass(frozen=True, slots=True)
class WantedDaemon:
    """What the daemon of one card is to be like."""

    version: str
    """Of the settings, as `published.configVersion` has it."""
    clients: int
    memory: str
    """Most memory of one client: `Equal`, or a quantity such as 4Gi."""
    threads: str
    """Most threads of one client at a time: `Equal`, or a percentage such as 25%."""
    keep: bool = False
    """Whether a daemon that runs stays as it is, whatever its settings: somebody may use the card."""


@dataclass(frozen=True, slots=True)
class DaemonState:
    """What has come of it."""

    phase: Phase
    version: str = ""
    """Of the settings that the daemon has."""
    reason: str | None = None
    """Why it is not Ready."""
    wanted: WantedDaemon | None = None
    """The settings that it was started with, for the next life of the role."""


@dataclass(frozen=True, slots=True)
class Daemons:
    """What the role of a pool says of its cards."""

    alive: bool = False
    """Whether the role lives."""
    cards: Mapping[str, DaemonState] = field(default_factory=lambda: MappingProxyType({}))
    """By uuid: cards that have a daemon, or whose compute mode has yet to be put back."""


def folder(root: Path, pool: str) -> Path:
    """The folder of a pool's cards."""
    return root / pool


def card_folder(root: Path, pool: str, uuid: str) -> Path:
    """The folder of a card: its pipes, and its daemon's log."""
    return folder(root, pool) / uuid


def is_alive(path: Path) -> bool:
    """Whether some process has the lock in a pool's folder."""
    try:
        fd = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def claim(path: Path) -> int | None:
    """Take the lock in a pool's folder; the descriptor that has it, or None where another process does."""
    path.mkdir(parents=True, exist_ok=True)
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def read_wanted(path: Path) -> dict[str, WantedDaemon] | None:
    """What is wanted, by uuid; None where that cannot be read: then all stays as it is."""
    return _read(path / WANTED, _wanted)


def write_wanted(path: Path, cards: Mapping[str, WantedDaemon]) -> None:
    """Say what is wanted, where that differs from what was said; raises OSError."""
    _write(path / WANTED, {uuid: asdict(one) for uuid, one in sorted(cards.items())})


def read_state(path: Path) -> Daemons:
    """What the role says; nothing where its file is not there, or cannot be read."""
    return Daemons(is_alive(path), MappingProxyType(_read(path / STATE, _state) or {}))


def write_state(path: Path, cards: Mapping[str, DaemonState]) -> None:
    """Say what has come of it, where that differs from what was said; raises OSError."""
    _write(path / STATE, {uuid: asdict(one) for uuid, one in sorted(cards.items())})


def _wanted(values: dict[str, Any]) -> WantedDaemon:
    memory, threads = str(values["memory"]), str(values["threads"])
    return WantedDaemon(str(values["version"]), int(values["clients"]), memory, threads, bool(values["keep"]))


def _state(values: dict[str, Any]) -> DaemonState:
    phase, reason, wanted = values["phase"], values.get("reason"), values.get("wanted")
    if phase not in PHASES:
        raise ValueError(phase)
    why = str(reason) if reason else None
    return DaemonState(cast("Phase", phase), str(values["version"]), why, _wanted(wanted) if wanted else None)


def _read(path: Path, made: Callable[[dict[str, Any]], T]) -> dict[str, T] | None:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(FILE_MAX))
        return {str(uuid): made(values) for uuid, values in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(path: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, indent=1)
    try:
        if path.read_text("utf-8") == text:
            return
    except (OSError, ValueError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
