"""containerd of K3s or RKE2, which writes its configuration itself, and finds the toolkit at each start.

Both look for `nvidia-container-runtime` in `/usr/local/nvidia/toolkit` among other folders, and write a handler of that
name. So nothing is written here. A restart takes kubelet along, and is a person's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from nodeagent.toolkit import cri
from nodeagent.toolkit.config.effective import Handler
from nodeagent.toolkit.config.plan import FOLDER, PROGRAM, Plan
from nodeagent.toolkit.kinds.base import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.toolkit.host import Server
    from nodeagent.toolkit.way_back import WayBack


@dataclass(frozen=True, slots=True)
class RancherNode:
    """What is known of a node of K3s or RKE2."""

    release: tuple[int, int] = (0, 0)
    """containerd's version: major, minor."""
    handlers: Mapping[str, str] = field(default_factory=dict)
    """The program of each handler that it runs with, by name."""


@dataclass(frozen=True, slots=True)
class Rancher(Kind):
    """A node of K3s or RKE2."""

    name: ClassVar[str] = "K3s or RKE2"

    def server(self) -> Server:
        """Who listens at the socket."""
        return self.listener(self.socket)

    def serves(self) -> bool:
        """Whether it says over CRI that it is containerd."""
        return self.runtime.release() is not None

    def observe(self) -> tuple[Server, RancherNode]:
        """The handlers that it runs with."""
        return self.server(), RancherNode(self.runtime.release() or (0, 0), self.programs())

    def files(self) -> RancherNode:
        """None of its files is looked at."""
        return RancherNode()

    def install(self, node: RancherNode) -> Plan:
        """Its own handler where it has one; else ours, which it writes by itself."""
        if node.handlers.get("nvidia"):
            return Plan(foreign=node.handlers["nvidia"])
        return Plan(handlers=(Handler("nvidia", f"{FOLDER}/{PROGRAM}"),))

    def removal(self, node: RancherNode) -> Plan:  # noqa: ARG002
        """Nothing: it takes its handler away at the first start without the toolkit."""
        return Plan()

    def prove(self, server: Server, node: RancherNode, done: Plan, back: WayBack) -> None:
        """Raise nothing: no file is changed."""

    def runs_with(self, done: Plan) -> bool:
        """By the settings that CRI's Status tells."""
        known = self.programs()
        return all(known.get(one.name) for one in done.handlers)

    def fingerprint(self) -> tuple[object, ...]:
        """The process alone."""
        return (self.server().pid,)

    def why_not_restarted(self, server: Server) -> str:  # noqa: ARG002
        """Always: its restart takes kubelet along."""
        return (
            "K3s and RKE2 find the toolkit when they start, and write the handler themselves: restart the node's "
            "service (k3s, k3s-agent, rke2-server or rke2-agent) when it suits you; pods go on"
        )

    def programs(self) -> dict[str, str]:
        """By the same settings."""
        return cri.programs(self.runtime.settings())
