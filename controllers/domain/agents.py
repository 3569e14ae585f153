"""Ports of the node agents that controllers deploy, and their address of the API server. Pure.

The chart says both of the discovery agent's pod itself (`nodeAgent.apiServer`).
"""

from __future__ import annotations

from typing import Any, Final

Variables = tuple[tuple[str, str], ...]
"""Names and values."""
USUAL_PORT = "443"
HEALTH: Final = 8080
METRICS: Final = 8443
LISTENS: Final = ("--health-host=0.0.0.0", f"--health-port={HEALTH}", f"--metrics-port={METRICS}")
"""Flags by which a program answers outside its container: to kubelet, and to who may read its metrics."""
PORTS: Final = (
    {"name": "health", "containerPort": HEALTH, "protocol": "TCP"},
    {"name": "https-metrics", "containerPort": METRICS, "protocol": "TCP"},
)
"""What the container says of that."""


def api_server(host: str | None, port: str | None) -> Variables:
    """What every client of Kubernetes reads, where the Service is not routed; nothing without a host."""
    if not host:
        return ()
    return (("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port or USUAL_PORT))


def reaching(pod: dict[str, Any], variables: Variables) -> dict[str, Any]:
    """The pod with the variables after those of each container."""
    if not variables:
        return pod
    more = [{"name": name, "value": value} for name, value in variables]
    containers = [one | {"env": [*one.get("env", ()), *more]} for one in pod["containers"]]
    return pod | {"containers": containers}
