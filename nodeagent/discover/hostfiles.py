"""Paths of the host, seen from a container that has the host's folders below some root.

Links on the host may be absolute (`/etc/alternatives/…`): followed by the kernel they would
lead into the container's own files.
"""

from __future__ import annotations

from pathlib import Path

LINKS_MAX = 40  # as the kernel's own limit


def inside(root: Path, path: str) -> Path | None:
    """Where a path of the host lies, with every link followed below the root; None where it leads nowhere."""
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
    try:
        return found if found.exists() else None
    except OSError:
        return None


def text(root: Path, path: str, most: int) -> str:
    """The text of a file; empty where it cannot be read or is larger than `most` bytes."""
    found = inside(root, path)
    try:
        if found is None or found.stat().st_size > most:
            return ""
        return found.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
