"""Paths of the host, seen from a container that has the host's folders below some root.

Links on the host may be absolute (`/etc/alternatives/…`): followed by the kernel they would
lead into the container's own files.
"""

from __future__ import annotations

import errno
from pathlib import Path

LINKS_MAX = 40  # as the kernel's own limit


def find(root: Path, path: str) -> Path | None:
    """Where a path of the host lies, with every link followed below the root; None where there is no such file.

    Raises OSError where that cannot be told: a folder on the way is closed to us.
    """
    done: list[str] = []
    rest = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    links = 0
    while rest:
        part = rest.pop()
        if part == "..":
            del done[-1:]
            continue
        here = root.joinpath(*done, part)
        try:
            target = str(here.readlink())
        except OSError:
            done.append(part)
            continue
        links += 1
        if links > LINKS_MAX:
            return None
        if target.startswith("/"):
            done.clear()
        rest += [piece for piece in reversed(target.split("/")) if piece not in ("", ".")]
    found = root.joinpath(*done)
    return found if found.exists() else None


def inside(root: Path, path: str) -> Path | None:
    """As `find`; None also where it cannot be told."""
    try:
        return find(root, path)
    except OSError:
        return None


def content(root: Path, path: str, most: int) -> str:
    """The text of a file; empty where there is none. Raises OSError where it cannot be read or is over `most` bytes."""
    found = find(root, path)
    if found is None:
        return ""
    if found.stat().st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(found))
    return found.read_text(encoding="utf-8", errors="replace")


def text(root: Path, path: str, most: int) -> str:
    """As `content`; empty also where it cannot be read."""
    try:
        return content(root, path, most)
    except OSError:
        return ""


class Reader:
    """Looks into the host's files and remembers whether some were closed to it: "cannot be read" is not "has none"."""

    def __init__(self, root: Path) -> None:
        """Prepare."""
        self._root, self.closed = root, False

    def has(self, path: str) -> bool:
        """Whether there is such a file."""
        try:
            return find(self._root, path) is not None
        except OSError:
            self.closed = True
            return False

    def text(self, path: str, most: int) -> str:
        """The text of a file; empty where there is none, or it cannot be read."""
        try:
            return content(self._root, path, most)
        except OSError:
            self.closed = True
            return ""

    def names(self, folder: str) -> list[str]:
        """What a folder holds, sorted."""
        try:
            found = find(self._root, folder)
            return sorted(path.name for path in found.iterdir()) if found is not None else []
        except NotADirectoryError:
            return []
        except OSError:
            self.closed = True
            return []
