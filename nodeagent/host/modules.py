"""Reads kernel modules in sysfs: `/sys/module/<name>` of those that can be unloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LIVE, GOING = "live", "going"
"""States of a module: it works; the kernel is taking it out."""
FILE_MAX = 4096


@dataclass(frozen=True, slots=True)
class KernelModule:
    """A module that is loaded."""

    name: str
    """With underscores."""
    version: str = ""
    state: str = LIVE
    uses: int = 0
    """How many hold it: other modules, and who has its devices open."""
    needed_by: tuple[str, ...] = ()
    """Modules that need it, each of which is one of its uses."""


def read(sys: Path, name: str) -> KernelModule | None:
    """A module; None where it is not loaded, or built into the kernel."""
    folder = sys / "module" / name
    uses = _text(folder / "refcnt")
    if uses is None:
        return None
    try:
        needed_by = tuple(sorted(path.name for path in (folder / "holders").iterdir()))
    except OSError:
        needed_by = ()
    state = _text(folder / "initstate") or LIVE
    count = int(uses) if uses.lstrip("-").isdigit() else 0
    return KernelModule(name, _text(folder / "version") or "", state, count, needed_by)


def is_there(sys: Path, name: str) -> bool:
    """Whether the kernel has a module of that name, loaded or built in."""
    return (sys / "module" / name).is_dir()


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(FILE_MAX).decode("utf-8", "replace").strip()
    except OSError:
        return None
