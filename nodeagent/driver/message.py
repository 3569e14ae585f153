"""What is said of a node, as one line of JSON that kubelet does not cut."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final, TypeVar

from controllers.api.driver_look import Look, Prepared
from controllers.api.record import to_json

BYTES_MAX: Final = 4096
"""Of a container's termination message; what is longer is cut by kubelet, and no JSON any more."""
Said = TypeVar("Said", Look, Prepared)


def line(said: Look | Prepared) -> str:
    """The line. Of a node with too much to say the holders go first, the last ones before the others."""
    while len(text := json.dumps(to_json(said), separators=(",", ":"), ensure_ascii=False).encode()) > BYTES_MAX:
        said = _shorter(said)
    return text.decode()


def _shorter(said: Look | Prepared) -> Look | Prepared:
    if isinstance(said, Prepared):
        return replace(said, look=_shortened(said.look) if said.look is not None else None)
    return _shortened(said) or Look(kernel=said.kernel)


def _shortened(look: Look) -> Look | None:
    if look.holders:
        return replace(look, holders=look.holders[:-1])
    return replace(look, modules=look.modules[:-1]) if look.modules else None
