"""JSON files that processes of a node share, each replaced whole or not at all."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Put the values in place of what the file has, where they differ; raises OSError."""
    text = json.dumps(values, indent=1)
    try:
        if path.read_text("utf-8") == text:
            return
    except (OSError, ValueError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
