"""Small dumps for the tests of readers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def found(file: Path, read: Callable[[Path], dict[str, Any]], text: str) -> Any:
    """What a reader finds in a file of that text, as it is in JSON."""
    file.write_text(text)
    return json.loads(json.dumps(read(file)))


def nodes(*cards: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The facts of one node."""
    return {"nodes": [{"cards": list(cards), **more}]}
