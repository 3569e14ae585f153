"""The toolkit's programs on a host, as NVIDIA's installer leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent.toolkit.keeper import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path


def installed(root: Path) -> None:
    """Put them there; they are never run."""
    for path in PROGRAMS:
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch(mode=0o755)
