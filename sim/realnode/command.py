"""One command to its end, whose failure is told to a person."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def output(
    command: Sequence[str],
    what: str,
    *,
    seconds: float,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """What a command writes to its standard output within `seconds`; UserError, which begins with `what`, else."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=folder, env=env, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{what}: {error}") from error
    if done.returncode:
        raise UserError(f"{what}: {done.stderr.strip()}")
    return done.stdout
