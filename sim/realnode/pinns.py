"""`pinns`, with which CRI-O keeps a pod's namespaces: compiled from CRI-O's own module into the cache of programs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.realnode.command import output
from tools.programs.cache import Cache, default_root
from tools.programs.catalog import RUNTIME_UNITS
from tools.programs.golang import build_env, host_platform, require_go

if TYPE_CHECKING:
    from tools.programs import Progress

NAME: Final = "pinns"
COMPILE: Final = ("cc", "-std=c99", "-O2", "-static")
SECONDS: Final = 300.0
FAILED: Final = f"{NAME} of CRI-O cannot be built"


def build(progress: Progress) -> Path:
    """The program, made where the cache does not have it; raises UserError where it cannot be made."""
    unit = next(unit for unit in RUNTIME_UNITS if unit.name == "crio")
    cache, variant = Cache(default_root()), "-".join(host_platform())
    key = hashlib.sha256(repr((unit.version, COMPILE)).encode()).hexdigest()[:16]

    def fill(folder: Path) -> None:
        with progress.task(f"build {NAME} of CRI-O {unit.version}"):
            get = [str(require_go().command), "mod", "download", "-json", unit.versioned_by]
            module = json.loads(output(get, FAILED, seconds=SECONDS, folder=unit.folder, env=build_env()))["Dir"]
            sources = sorted((Path(module) / NAME / "src").glob("*.c"))
            output([*COMPILE, "-o", str(folder / NAME), *map(str, sources)], FAILED, seconds=SECONDS)

    with cache.lock(NAME, lambda: progress.note(f"another process builds {NAME}")):
        return (cache.find(NAME, key, variant) or cache.install(NAME, key, variant, fill)) / NAME
