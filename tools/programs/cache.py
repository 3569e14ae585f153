"""The cache of finished programs, outside any checkout and shared by all of them.

An entry is a folder whose name holds the hash of what it was made from. It is filled
under ``tmp/`` and appears under ``programs/`` by one rename, so an entry that exists is
whole: a process killed at any moment leaves at most a folder in ``tmp/``, which the next
holder of the same lock removes. The lock (``flock``) belongs to open file descriptors, so
it ends with its last holder and is never stale.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.errors import UserError


def default_root() -> Path:
    """Return the cache folder: ``$XDG_CACHE_HOME`` or ``~/.cache``, then our name."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification tells to ignore a relative path.
    home = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return home / "gpu-control-plane"


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache rooted at ``root``; safe to use from several processes at once."""

    root: Path

    def find(self, name: str, key: str, variant: str | None) -> Path | None:
        """Return the entry of ``name`` made from ``key``.

        ``variant`` tells how it was made (``go1.26``, ``release``); None accepts any, for a
        machine that has lost its Go since.
        """
        pattern = f"{name}-{key}-{variant or '*'}"
        return next(iter(sorted((self.root / "programs").glob(pattern))), None)

    def log(self, name: str) -> Path:
        """Return the path of a build's log."""
        path = self.root / "logs" / f"{name}.log"
        self._make(path.parent)
        return path

    def install(self, name: str, key: str, variant: str, fill: Callable[[Path], None]) -> Path:
        """Let ``fill`` write an entry and make it appear at once; call under the lock."""
        self._make(self.root / "tmp")
        self._make(self.root / "programs")
        for stale in (self.root / "tmp").glob(f"{name}-{variant}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-{variant}-", dir=self.root / "tmp"))
        try:
            fill(folder)
            folder.chmod(0o755)
            entry = self.root / "programs" / f"{name}-{key}-{variant}"
            if not entry.is_dir():
                folder.rename(entry)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return entry

    @contextmanager
    def lock(self, name: str, waiting: Callable[[], None]) -> Iterator[int]:
        """Hold the lock of ``name``; call ``waiting`` once when another process has it.

        Yields the lock's file descriptor: a child that inherits it keeps the lock, so a
        compiler that outlives a killed parent is waited for and not raced.
        """
        self._make(self.root / "locks")
        fd = os.open(self.root / "locks" / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot create {folder}: {error.strerror}",
                expected="a folder that this user can write, for programs built once",
                do="set XDG_CACHE_HOME to such a folder",
            ) from error
