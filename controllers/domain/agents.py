"""How node agents that controllers start find the API server, where the cluster's own Service is not routed. Pure.

The chart says it of the discovery agent's pod itself (`nodeAgent.apiServer`).
"""

from __future__ import annotations

from typing import Any

Variables = tuple[tuple[str, str], ...]
"""Names and values."""
USUAL_PORT = "443"


def api_server(host: str | None, port: str | None) -> Variables:
    """What every client of Kubernetes reads; nothing without a host: kubelet gives the Service's address then."""
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
