"""`pinns`, with which CRI-O keeps a pod's namespaces: compiled from CRI-O's own module into the cache of programs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.errors import UserError
from tools.programs.cache import Cache, default_root
from tools.programs.catalog import RUNTIME_UNITS
from tools.programs.golang import build_env, host_platform, require_go

if TYPE_CHECKING:
    from tools.programs import Progress

NAME: Final = "pinns"
FLAGS: Final = ("-std=c99", "-O2", "-static")
SECONDS: Final = 300.0


def build(progress: Progress) -> Path:
    """The program, made where the cache does not have it; raises UserError where it cannot be made."""
    unit = next(unit for unit in RUNTIME_UNITS if unit.name == "crio")
    cache, variant = Cache(default_root()), "-".join(host_platform())

    def fill(folder: Path) -> None:
        with progress.task(f"build {NAME} of CRI-O {unit.version}"):
            module = [str(require_go().command), "list", "-m", "-f", "{{.Dir}}", unit.versioned_by]
            sources = Path(_run(module, unit.folder).strip()) / NAME / "src"
            _run(["cc", *FLAGS, "-o", str(folder / NAME), *map(str, sorted(sources.glob("*.c")))], sources)

    with cache.lock(NAME, lambda: progress.note(f"another process builds {NAME}")):
        key = unit.version.removeprefix("v")
        return (cache.find(NAME, key, variant) or cache.install(NAME, key, variant, fill)) / NAME


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, env=build_env(), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{NAME} cannot be built: {error}") from error
    if done.returncode:
        raise UserError(f"{NAME} cannot be built: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
