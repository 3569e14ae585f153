"""A hash of everything that decides what a plan does: results are about that, and about nothing else."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from reliability.faults.worker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CODE: Final = (
    *("controllers", "webhook", "nodeagent", "sim", "tools/programs", "templates", "charts", "crds", "openapi"),
    *("Chart.yaml", "reliability/faults", "reliability/kit", "requirements.lock"),
)


def code_hash() -> str:
    """Of everything that decides what a plan does."""
    digest = hashlib.sha256()
    for path in _files():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _files() -> Iterator[Path]:
    for name in CODE:
        found = [ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*"))
        yield from (path for path in found if path.is_file() and "__pycache__" not in path.parts)
