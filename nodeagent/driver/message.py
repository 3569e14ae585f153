"""The termination message of `nodeagent driver look` and `prepare`: one JSON line within kubelet's limit."""

from __future__ import annotations

import json
from dataclasses import replace

from controllers.api.driver_look import LINE_MAX, Look, Prepared
from controllers.api.record import to_json


def line(said: Look | Prepared) -> str:
    """The line. Of a node with too much to say the holders go first, the last ones before the others."""
    while len(text := json.dumps(to_json(said), separators=(",", ":"), ensure_ascii=False).encode()) > LINE_MAX:
        if isinstance(said, Prepared):
            said = replace(said, message=said.message[: len(said.message) // 2])
        else:
            said = _shortened(said)
    return text.decode()


def _shortened(look: Look) -> Look:
    if look.holders:
        return replace(look, holders=look.holders[:-1])
    return replace(look, modules=look.modules[:-1]) if look.modules else Look(kernel=look.kernel)
