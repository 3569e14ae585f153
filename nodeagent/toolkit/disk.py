"""Writes of the host's files: atomic, with mode, owner and attributes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NEW_MODE: Final = 0o644
SECRET_MODE: Final = 0o600


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
