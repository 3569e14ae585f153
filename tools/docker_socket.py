"""Whether a Docker daemon listens at its socket, asked without Docker's client library."""

from __future__ import annotations

import os
import socket
from typing import Final

_UNIX: Final = "unix://"
_USUAL: Final = f"{_UNIX}/var/run/docker.sock"
_SECONDS: Final = 60.0


def is_listening(address: str | None = None) -> bool:
    """Whether somebody is at a socket of Docker's, where it is one: its client leaves its own open where nobody is."""
    address = address or os.environ.get("DOCKER_HOST") or _USUAL
    if not address.startswith(_UNIX):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_SECONDS)
        return probe.connect_ex(address.removeprefix(_UNIX)) == 0
