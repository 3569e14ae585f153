"""Chooses free TCP ports on loopback.

Ports come from below the kernel's ephemeral range. A port inside it can be taken by any
outgoing connection while its server restarts, and a client that keeps dialling such a port
on loopback can even connect to itself and hold it. Between choice and use another process
may still take one: whoever starts servers tries again with others.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 10_000
_TRIES = 64


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that are free now."""
    below = max(_ephemeral_start(), _LOWEST + 1)
    found: list[int] = []
    held: list[socket.socket] = []  # so that no port is chosen twice
    try:
        while len(found) < count:
            sock = socket.socket()
            held.append(sock)
            found.append(_bind(sock, below))
    finally:
        for sock in held:
            sock.close()
    return found


def _bind(sock: socket.socket, below: int) -> int:
    for _ in range(_TRIES):
        try:
            sock.bind(("127.0.0.1", random.randrange(_LOWEST, below)))  # noqa: S311 - no secret
            break
        except OSError:
            continue
    else:
        sock.bind(("127.0.0.1", 0))  # a crowded machine: an ephemeral one is better than none
    return int(sock.getsockname()[1])


def _ephemeral_start() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
