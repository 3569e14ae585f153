"""Files by which a pool's device plugin and its MPS role tell each other of the cards on their node.

They lie in a folder of the host that a reboot empties, as it ends the daemons. `wanted.json` is the plugin's,
`state.json` the role's, and each is replaced whole. `lock` is a `flock` that the role has for its life: the kernel lets
go of it however the role ends, so what a dead one wrote last is never taken for what is.

Each wish has a number, which the state names once the role goes by it. So a Ready that was written by an older wish is
not believed, and a card that the state does not name has no daemon, and gets none, once the last wish is read.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from controllers.api.names import MPS_ROOT
from nodeagent.host import jsonfile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")

ROOT: Final = MPS_ROOT
"""The host's folder of all pools; each has one below it."""
LOCK, WANTED, STATE = "lock", "wanted.json", "state.json"
PIPE, LOG, SHM = "pipe", "log", "shm"
FILE_MAX = 1 << 20  # bytes
Phase = Literal["Ready", "Down", "Stopping"]
PHASES: Final = get_args(Phase)
UNREAD: Final = "the MPS role has yet to read what is wanted of the card"


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
    runs: bool = False
    """Whether a process of the daemon is there, which holds the driver open."""


@dataclass(frozen=True, slots=True)
class DesiredDaemons:
    """What is wanted, as it was written."""

    number: int = 0
    """One more with each change."""
    cards: Mapping[str, WantedDaemon] = field(default_factory=lambda: MappingProxyType({}))
    """By uuid."""
    since: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The number of the wish that first had a card's settings; `keep` is none of them."""


@dataclass(frozen=True, slots=True)
class RoleState:
    """What the state file has."""

    number: int = 0
    """Of the last wish that the role goes by."""
    cards: Mapping[str, DaemonState] = field(default_factory=lambda: MappingProxyType({}))
    """By uuid."""


@dataclass(frozen=True, slots=True)
class Daemons:
    """What the role of a pool says of its cards."""

    alive: bool = False
    """Whether the role lives."""
    cards: Mapping[str, DaemonState] = field(default_factory=lambda: MappingProxyType({}))
    """By uuid: cards that have a daemon, or whose compute mode has yet to be put back."""
    asked_for: frozenset[str] = frozenset()
    """The cards of the wish as it is written: the role may be about to start their daemons."""
    read: bool = True
    """Whether the role goes by that wish."""
    known: bool = True
    """Whether the state file was read; where it was not, nothing is known of any card."""

    def is_gone(self, uuid: str) -> bool:
        """Whether the card has no daemon, and gets none by a wish that was written earlier."""
        return self.known and not (uuid in self.cards or uuid in self.asked_for) and (self.read or not self.alive)


def folder(root: Path, pool: str) -> Path:
    """The folder of a pool's cards."""
    return root / pool


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


def read_desired(path: Path) -> DesiredDaemons | None:
    """What is wanted; None where that cannot be read: then all stays as it is."""
    return _read(path / WANTED, _desired, DesiredDaemons())


def write_wanted(path: Path, cards: Mapping[str, WantedDaemon]) -> None:
    """Say what is wanted, where that differs from what was said; raises OSError."""
    before = read_desired(path)
    if before is not None and before.cards == cards:
        return
    stored = read_role_state(path)
    number = 1 + max(before.number if before else 0, stored.number if stored else 0)
    made: dict[str, Any] = {}
    for uuid, one in sorted(cards.items()):
        former = before.cards.get(uuid) if before is not None else None
        same = before is not None and former is not None and replace(former, keep=one.keep) == one
        made[uuid] = asdict(one) | {"since": before.since[uuid] if same and before is not None else number}
    jsonfile.write(path / WANTED, {"number": number, "cards": made})


def read_role_state(path: Path) -> RoleState | None:
    """What the state file has; None where it cannot be read."""
    return _read(path / STATE, _role_state, RoleState())


def read_state(path: Path) -> Daemons:
    """What the role says of the cards, as far as it goes by the wish as it is written."""
    stored, desired, alive = read_role_state(path), read_desired(path), is_alive(path)
    if stored is None:
        return Daemons(alive, asked_for=frozenset(desired.cards if desired else ()), read=False, known=False)
    if desired is None:  # by the wish that the role has read all stays as it is
        return Daemons(alive, stored.cards, frozenset(stored.cards), read=False)
    asked_for = frozenset(desired.cards)
    cards = {uuid: _believed(one, desired.since.get(uuid), stored.number) for uuid, one in stored.cards.items()}
    return Daemons(alive, MappingProxyType(cards), asked_for, stored.number >= desired.number)


def _believed(one: DaemonState, since: int | None, number: int) -> DaemonState:
    """A Ready of an older wish may be over by now."""
    if one.phase != "Ready" or (since is not None and since <= number):
        return one
    return replace(one, phase="Stopping" if since is None else "Down", reason=UNREAD)


def write_state(path: Path, cards: Mapping[str, DaemonState], number: int = 0) -> None:
    """Say what has come of the wish of that number, where that differs from what was said; raises OSError."""
    made = {uuid: asdict(one) for uuid, one in sorted(cards.items())}
    jsonfile.write(path / STATE, {"number": number, "cards": made})


def card_folders(path: Path) -> frozenset[str]:
    """The cards (uuids) that have had a daemon which nobody has cleared away."""
    try:
        return frozenset(found.parent.name for found in path.glob(f"*/{PIPE}"))
    except OSError:
        return frozenset()


def _desired(found: dict[str, Any]) -> DesiredDaemons:
    cards = {str(uuid): _wanted(values) for uuid, values in found["cards"].items()}
    since = {str(uuid): int(values["since"]) for uuid, values in found["cards"].items()}
    return DesiredDaemons(int(found["number"]), MappingProxyType(cards), MappingProxyType(since))


def _role_state(found: dict[str, Any]) -> RoleState:
    cards = {str(uuid): _state(values) for uuid, values in found["cards"].items()}
    return RoleState(int(found["number"]), MappingProxyType(cards))


def _wanted(values: dict[str, Any]) -> WantedDaemon:
    memory, threads = str(values["memory"]), str(values["threads"])
    return WantedDaemon(str(values["version"]), int(values["clients"]), memory, threads, bool(values["keep"]))


def _state(values: dict[str, Any]) -> DaemonState:
    phase, reason, wanted = values["phase"], values.get("reason"), values.get("wanted")
    if phase not in PHASES:
        raise ValueError(phase)
    why = str(reason) if reason else None
    settings, runs = _wanted(wanted) if wanted else None, bool(values["runs"])
    return DaemonState(cast("Phase", phase), str(values["version"]), why, settings, runs)


def _read(path: Path, made: Callable[[dict[str, Any]], T], nothing: T) -> T | None:
    try:
        with path.open("rb") as file:
            return made(json.loads(file.read(FILE_MAX)))
    except FileNotFoundError:
        return nothing
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
