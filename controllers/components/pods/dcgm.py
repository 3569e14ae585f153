"""DCGM's host engine, which the exporter asks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components import podspec
from controllers.components.builder import Builder

if TYPE_CHECKING:
    from controllers.components.builder import Inputs
    from controllers.components.podspec import Json

DCGM_PORT: Final = 4255
"""On the host's network, so from the range that Deckhouse leaves to modules."""


def pod(given: Inputs) -> Json:
    """The host engine, for the exporter of the same node alone: it asks nobody who they are, and listens on loopback.

    Loopback is the host's, which the exporter shares; so does the kubelet, whose probe goes there.
    """
    check = {"tcpSocket": {"host": "127.0.0.1", "port": DCGM_PORT}}
    container = {
        "name": "dcgm",
        "image": given.image,
        "command": ["nv-hostengine"],
        # In the foreground; the address is the default, and said here since it matters.
        "args": ["-n", "-b", "127.0.0.1", "-p", str(DCGM_PORT)],
        "env": podspec.env({names.VISIBLE_DEVICES: "all"}),
        # Profiling counters need SYS_ADMIN. It writes a log and its pid under /var.
        "securityContext": podspec.root(add=["SYS_ADMIN"], read_only=False),
        "resources": podspec.resources("50m", "128Mi", "512Mi"),
        "ports": [{"name": "dcgm", "containerPort": DCGM_PORT, "protocol": "TCP"}],
        "readinessProbe": podspec.probe(check, 5),
        "livenessProbe": podspec.probe(check, 30),
    }
    return podspec.on_host_network(container)


BUILDER: Final = Builder(pod)
