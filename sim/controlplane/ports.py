"""Chooses free TCP ports on loopback.

Ports come from below the kernel's ephemeral range. A port inside it can be taken by any
outgoing connection while its server restarts, and a client that keeps dialling such a port
on loopback can even connect to itself and hold it. Between choice and use another process
may still take one: whoever starts servers tries again with others. `SIM_PORTS=12000-14000` says
from where they are taken, so that who works side by side never meets; a process is not given
the same twice until it has had half of them. Where the ephemeral range leaves nothing below it,
they come from that.
"""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

VARIABLE = "SIM_PORTS"
_LOWEST = 10_000
_TRIES = 64
_given: set[int] = set()


def usable() -> range:
    """The ports that may be chosen; raises ValueError where SIM_PORTS is no range."""
    if said := os.environ.get(VARIABLE):
        lowest, _, end = said.partition("-")
        return range(int(lowest), int(end))
    return range(_LOWEST, max(_ephemeral_start(), _LOWEST))


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that are free now."""
    among = usable()
    found: list[int] = []
    held: list[socket.socket] = []  # so that no port is chosen twice
    try:
        while len(found) < count:
            sock = socket.socket()
            held.append(sock)
            found.append(_bind(sock, among))
    finally:
        for sock in held:
            sock.close()
    return found


def _bind(sock: socket.socket, among: range) -> int:
    if len(_given) > len(among) // 2:
        _given.clear()
    for _ in range(_TRIES if among else 0):
        port = random.choice(among)  # noqa: S311 - no secret
        if port in _given:
            continue
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            continue
        _given.add(port)
        return port
    sock.bind(("127.0.0.1", 0))  # a crowded machine: an ephemeral one is better than none
    return int(sock.getsockname()[1])


def _ephemeral_start() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
