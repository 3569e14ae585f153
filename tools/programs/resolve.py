"""Finds or makes each program: given folder, cache, download, build; in this order."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tools.errors import UserError
from tools.programs.build import Build
from tools.programs.cache import Cache, default_root
from tools.programs.catalog import NODE_PROGRAMS, PROGRAMS, RUNTIME_PROGRAMS, Unit, content_key, unit_of, units_of
from tools.programs.download import Downloader, UnavailableError
from tools.programs.golang import find_go, host_platform, require_go
from tools.programs.progress import Progress, Silent

_RELEASE = "release"


def ensure(
    names: Iterable[str],
    *,
    progress: Progress | None = None,
    cache: Cache | None = None,
) -> dict[str, Path]:
    """Return the absolute path of each program, building what no other way provides.

    Blocks, possibly for minutes; several processes may do this at once.
    """
    wanted, known = tuple(dict.fromkeys(names)), (*PROGRAMS, *NODE_PROGRAMS, *RUNTIME_PROGRAMS)
    for name in wanted:
        if name not in known:
            raise UserError(f"no program {name!r}", expected=f"one of {', '.join(known)}")
    progress, cache = progress or Silent(), cache or Cache(default_root())
    found = {name: path for name in wanted if (path := _ready(name, cache))}
    missing = [name for name in wanted if name not in found]
    if missing:
        downloads = Downloader()
        for at, name in enumerate(missing, 1):
            title = f"downloading {name} ({at} of {len(missing)})"
            if path := _download(name, cache, downloads, progress, title):
                found[name] = path
        found |= _build_all([name for name in missing if name not in found], cache, progress)
    return {name: found[name] for name in wanted}


def _ready(name: str, cache: Cache) -> Path | None:
    """Return the program where it needs no work: from KUBEBUILDER_ASSETS, else the cache."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        path = Path(assets).absolute() / name
        if os.access(path, os.X_OK) and path.is_file():
            return path
    return _cached(name, cache)


def _cached(name: str, cache: Cache) -> Path | None:
    unit, go = unit_of(name), find_go()
    key = content_key(unit, *host_platform())
    entry = cache.find(name, key, _RELEASE) or cache.find(unit.name, key, go.version if go else None)
    return entry / name if entry else None


def _download(name: str, cache: Cache, downloads: Downloader, progress: Progress, title: str) -> Path | None:
    def waiting() -> None:
        progress.note(f"another process is downloading {name}: waiting for it")

    with cache.lock(f"{name}-{_RELEASE}", waiting):
        if path := _cached(name, cache):
            return path
        try:
            entry = cache.install(
                f"{name}",
                content_key(unit_of(name), *host_platform()),
                _RELEASE,
                lambda folder: downloads.fetch(name, folder, progress, title),
            )
        except UnavailableError:
            return None  # the build is next
    return entry / name


def _build_all(names: list[str], cache: Cache, progress: Progress) -> dict[str, Path]:
    units = units_of(names)
    for at, unit in enumerate(units, 1):
        _build_one(unit, cache, progress, f"({at} of {len(units)})")
    built = {name: _cached(name, cache) for name in names}
    return {name: path for name, path in built.items() if path}


def _build_one(unit: Unit, cache: Cache, progress: Progress, count: str) -> None:
    go = require_go()

    def waiting() -> None:
        progress.note(f"another process is building {unit.name}: waiting for it")

    with cache.lock(unit.name, waiting) as lock_fd:
        if cache.find(unit.name, content_key(unit, *host_platform()), go.version):
            return  # built by whoever had the lock
        # Short: on a terminal the title shares its line with the bar.
        served = f", {len(unit.programs)} programs in one" if len(unit.programs) > 1 else ""
        Build(unit, go, cache, lock_fd, progress).run(f"building {unit.name}{served} {count}")
