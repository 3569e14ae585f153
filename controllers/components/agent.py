"""The module's own program in a pod whose other containers are somebody else's. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.components import podspec
from controllers.components.images import AGENT_IMAGE
from controllers.domain.agents import reaching

if TYPE_CHECKING:
    from controllers.components.podspec import Json
    from controllers.domain.agents import Variables


@dataclass(frozen=True, slots=True)
class Agent:
    """What a container of the node agent needs to be told."""

    image: str = AGENT_IMAGE
    env: Variables = ()
    """How it finds the API server, where the cluster's own Service is not routed."""
    driver_root: str = podspec.DRIVER_ROOT
    """The host's folder in which a driver's container mounts its root."""

    def reaching(self, container: Json) -> Json:
        """The container with these variables after its own."""
        (made,) = reaching({"containers": [container]}, self.env)["containers"]
        return dict(made)
