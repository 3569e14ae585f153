"""The containers of the module's own node agent: image, environment, ports and probes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.components import podspec
from controllers.components.images import AGENT_IMAGE
from controllers.domain.agents import PORTS, reaching

if TYPE_CHECKING:
    from controllers.components.podspec import Json
    from controllers.domain.agents import Variables


@dataclass(frozen=True, slots=True)
class Agent:
    """What a container of the node agent needs to know."""

    image: str = AGENT_IMAGE
    env: Variables = ()
    """How it finds the API server, where the cluster's own Service is not routed."""
    driver_root: str = podspec.DRIVER_ROOT
    """The host's folder in which a driver's container mounts its root."""

    def reaching(self, container: Json) -> Json:
        """The container with these variables after its own."""
        (made,) = reaching({"containers": [container]}, self.env)["containers"]
        return dict(made)


def node_name() -> Json:
    """The variable by which every role of the agent knows its node."""
    return podspec.from_field("NODE_NAME", "spec.nodeName")


def serving() -> Json:
    """Ports and probes of a container with `domain.agents.LISTENS` as arguments: kubelet asks at the pod's address."""
    return {
        "ports": [*PORTS],
        "readinessProbe": podspec.probe(_get("/readyz"), 5),
        "livenessProbe": podspec.probe(_get("/healthz"), 10),
    }


def serving_after_start() -> Json:
    """The same where a silence counts only once it has answered: on a busy node Python takes its time to start."""
    return {
        "ports": [*PORTS],
        "startupProbe": _get("/healthz") | {"periodSeconds": 2, "failureThreshold": 90},
        "livenessProbe": _get("/healthz") | {"periodSeconds": 10},
        "readinessProbe": _get("/readyz") | {"periodSeconds": 5},
    }


def _get(path: str) -> Json:
    return {"httpGet": {"path": path, "port": "health"}}
