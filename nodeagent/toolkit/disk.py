"""Writes the host's files atomically, with mode and owner, and keeps a backup until the change is verified.

The way back holds what the files held before, passwords too: one file of root's alone, on the host, so that a process
that was killed at any moment is followed by one that undoes what was not proved. It is gone once it is not needed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from nodeagent.toolkit.config.sources import FORMER
from nodeagent.toolkit.cri import RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nodeagent.toolkit.config.plan import Change, Plan
    from nodeagent.toolkit.config.sources import Node
    from nodeagent.toolkit.host import Host

log = structlog.get_logger()
STATE: Final = "/var/lib/gpu-control-plane/toolkit"
"""The folder on the host of what this role remembers; a reboot must not empty it."""
NEW_MODE: Final = 0o644
SECRET_MODE: Final = 0o600


class Overtaken(RuntimeUnavailable):
    """A file is no longer what the plan began from."""


def write(path: Path, content: bytes, mode: int | None = None) -> None:
    """Put the content in the file's place; mode, owner and attributes stay, or are `mode` and ours where it is new."""
    try:
        had: os.stat_result | None = path.stat()
    except FileNotFoundError:
        had = None
        path.parent.mkdir(parents=True, exist_ok=True)
    # Not *.toml: an import's pattern must not find it.
    fresh = path.with_name(f".{path.name}.gpu-control-plane")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SECRET_MODE)
    try:
        with os.fdopen(fd, "wb") as file:
            if had is not None:
                os.fchown(fd, had.st_uid, had.st_gid)
                _copy_attributes(path, fd)
            file.write(content)
            file.flush()
            os.fchmod(fd, mode if mode is not None else stat.S_IMODE(had.st_mode) if had is not None else NEW_MODE)
            os.fsync(fd)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def remove(path: Path) -> None:
    """Take a file away."""
    path.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        _sync(path.parent)


def _copy_attributes(path: Path, fd: int) -> None:
    """SELinux labels and access lists: containerd might not be let at a file without them."""
    for name in os.listxattr(path):
        with suppress(OSError):
            os.setxattr(fd, name, os.getxattr(path, name))


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class WayBack:
    """The way back from changes that are not proved, and the memory of those that were taken back."""

    host: Host
    folder: str = STATE

    def carry_out(self, changes: Iterable[Change]) -> None:
        """Change the files, each whole; nothing that is not written down before. Raises OSError, Overtaken."""
        changes = list(changes)
        if not changes:
            return
        for change in changes:
            if self.host.read(change.path) != change.before:
                raise Overtaken(f"somebody has just written {change.path}; it is looked at anew")
        self._write("way-back.json", [self._backup_record(change) for change in changes])
        for change in changes:
            self.put(change)

    def put(self, change: Change) -> None:
        """Change one file."""
        path = self.host.at(change.path)
        if change.after is None:
            remove(path)
        else:
            write(path, change.after)

    @property
    def open(self) -> bool:
        """Whether something is not proved: by this process, or by one that was killed."""
        return self._path("way-back.json").exists()

    def proved(self) -> None:
        """What was changed stays."""
        remove(self._path("way-back.json"))

    def go(self) -> bool:
        """Undo what was not proved, but where somebody has written since; whether there was any. Raises OSError."""
        told = self._read("way-back.json")
        for one in told or ():
            path = self.host.at(one["path"])
            now = self.host.read(one["path"])
            if _hash(now) != one["after"] or now == (before := _decoded(one["before"])):
                continue
            if before is None:
                remove(path)
            else:
                # The former drop-in lay open to everybody.
                write(path, before, SECRET_MODE if one["path"] == FORMER else one["mode"])
                os.chown(path, one["uid"], one["gid"])
            log.warning("put a file back as it was", path=one["path"])
        self.proved()
        return told is not None

    @property
    def refused(self) -> dict[str, str]:
        """The changes that were taken back: why, by what they were."""
        told = self._read("refused.json")
        return told if isinstance(told, dict) else {}

    def refuse(self, what: str, why: str) -> None:
        """Remember not to try the same again; another try needs other content."""
        self._write("refused.json", {what: why})

    def forget(self) -> None:
        """What was refused is no longer so."""
        if self._path("refused.json").exists():
            remove(self._path("refused.json"))

    def _backup_record(self, change: Change) -> dict[str, Any]:
        path = self.host.at(change.path)
        had = path.stat() if change.before is not None else None
        return {
            "path": change.path,
            "before": None if change.before is None else base64.b64encode(change.before).decode(),
            "after": _hash(change.after),
            "mode": stat.S_IMODE(had.st_mode) if had else NEW_MODE,
            "uid": had.st_uid if had else 0,
            "gid": had.st_gid if had else 0,
        }

    def _path(self, name: str) -> Path:
        return self.host.at(self.folder) / name

    def _read(self, name: str) -> Any:
        try:
            return json.loads(self._path(name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            log.error("what this role remembers cannot be read; it is forgotten", path=str(self._path(name)))  # noqa: TRY400
            return None

    def _write(self, name: str, content: Any) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
        write(path, json.dumps(content).encode(), SECRET_MODE)


def digest(done: Plan, node: Node) -> str:
    """Says which plan this is; the same for the same content and the same release of containerd."""
    changes = sorted([change.path, _hash(change.before) or "", _hash(change.after) or ""] for change in done.changes)
    told = [node.release, changes, [[one.name, one.table()] for one in done.handlers], done.cdi]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _hash(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
