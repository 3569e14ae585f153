"""The way back from changes of the host's files: a backup until they are verified, and what was refused.

It holds what the files held before, passwords too: one file of root's alone, on the host, so that a process that was
killed at any moment is followed by one that undoes what was not proved. It is gone once it is not needed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from nodeagent.toolkit import disk
from nodeagent.toolkit.config.sources import FORMER
from nodeagent.toolkit.cri import RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nodeagent.toolkit.config.plan import Change, Plan
    from nodeagent.toolkit.host import Host

log = structlog.get_logger()
STATE: Final = "/var/lib/gpu-control-plane/toolkit"
"""The folder on the host of what this role remembers; a reboot must not empty it."""


class Overtaken(RuntimeUnavailable):
    """A file is no longer what the plan began from."""


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
            disk.remove(path)
        else:
            disk.write(path, change.after)

    @property
    def open(self) -> bool:
        """Whether something is not proved: by this process, or by one that was killed."""
        return self._path("way-back.json").exists()

    def proved(self) -> None:
        """Keep what was changed: the backup goes."""
        disk.remove(self._path("way-back.json"))

    def go(self) -> bool:
        """Undo what was not proved, but where somebody has written since; whether there was any. Raises OSError."""
        told = self._read("way-back.json")
        for one in told or ():
            path = self.host.at(one["path"])
            now = self.host.read(one["path"])
            if _hash(now) != one["after"] or now == (before := _decoded(one["before"])):
                continue
            if before is None:
                disk.remove(path)
            else:
                # The former drop-in lay open to everybody.
                disk.write(path, before, disk.SECRET_MODE if one["path"] == FORMER else one["mode"])
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
        """Forget what was refused: it may be tried again."""
        if self._path("refused.json").exists():
            disk.remove(self._path("refused.json"))

    def _backup_record(self, change: Change) -> dict[str, Any]:
        path = self.host.at(change.path)
        had = path.stat() if change.before is not None else None
        return {
            "path": change.path,
            "before": None if change.before is None else base64.b64encode(change.before).decode(),
            "after": _hash(change.after),
            "mode": stat.S_IMODE(had.st_mode) if had else disk.NEW_MODE,
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
        disk.write(path, json.dumps(content).encode(), disk.SECRET_MODE)


def digest(done: Plan, release: tuple[int, int]) -> str:
    """Which plan this is: the same for the same content and the same release of the runtime."""
    changes = sorted([change.path, _hash(change.before) or "", _hash(change.after) or ""] for change in done.changes)
    told = [release, changes, [[one.name, one.table()] for one in done.handlers], done.cdi]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _hash(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
