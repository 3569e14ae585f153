"""Administrators of GPU Operator in a workload, and of its way out: `kubectl gpu takeover`, step by step."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Final

from controllers.api import foreign, names, resources
from controllers.domain.driver.variant import ADOPTED
from controllers.explain.faults import UsageError
from controllers.runtime.errors import RuntimeFault
from kubectl_gpu import parser, takeover
from kubectl_gpu.cluster import Cluster
from reliability.faults.driver_actors import DriverActors
from reliability.faults.environment import MANAGER, TEAM
from reliability.faults.takeover_invariants import LET_GO
from sim import gpu_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT: Final = "20"
"""Seconds that a step of the takeover waits for each thing."""


class TakeoverActors(DriverActors):
    """Acts and expectations about another program that serves nodes, beside all others."""

    async def operator(self) -> None:
        """Install GPU Operator: its kinds, its policy, its Deployment, its DaemonSets, and who plays its plugin."""
        environment = self._environment
        environment.has_operator = True
        (environment.folder / "takeover.yaml").unlink(missing_ok=True)
        environment.beside(gpu_operator.Plugin(self._client, self._view).run())
        await self._act(lambda: gpu_operator.install(self._client, manager=MANAGER))

    async def operator_serves(self, node: str, version: str) -> None:
        """The operator has a node: its labels, and a driver that one of its pods loaded."""
        labels = {"metadata": {"labels": gpu_operator.LABELS}}
        await self._act(lambda: self._client.merge(resources.NODE, node, labels, manager=MANAGER))
        await self.until(lambda: any(self._theirs(node, "driver")), lambda: sorted(self._theirs(node)))
        found, pod = self._view.nodes.get(node), next(self._theirs(node, "driver"))
        assert found is not None
        await self._act(lambda: gpu_operator.load(self._client, found, pod, version, manager=MANAGER))

    async def foreign_pod(self, name: str, node: str) -> None:
        """Create a pod with a card of a node by the operator's plugin."""
        body = gpu_operator.pod(name, node)
        await self._act(lambda: self._once(self._client.create(resources.POD, body, TEAM, manager=MANAGER)))

    async def let_go(self, pod: str) -> None:
        """End a pod that has a card by the operator's plugin, as its user does once it is done."""
        body = {"metadata": {"annotations": {LET_GO: "true"}}}
        await self._act(lambda: self._client.merge(resources.POD, pod, body, manager=MANAGER, namespace=TEAM))
        await self.delete_pods(pod)

    async def takes_over(self, *words: str) -> None:
        """Do a step of `kubectl gpu takeover` until it is done; its words are nobody's here."""
        args = parser.build().parse_args(["takeover", *words, "--timeout", LIMIT])

        async def step() -> None:
            heard = io.StringIO()
            with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
                try:
                    status = await takeover.takeover(Cluster(self._client, "default"), args)
                except UsageError as error:
                    raise RuntimeFault(f"takeover {' '.join(words)}: {error}") from error
            if status != takeover.OK:
                raise RuntimeFault(f"takeover {' '.join(words)}: {heard.getvalue()}")

        await self._act(step)

    @property
    def saved(self) -> str:
        """The file in which `begin` saves what goes."""
        return str(self._environment.folder / "takeover.yaml")

    async def elsewhere(self, node: str, part: str, *, there: bool) -> None:
        """Whether another program does a part on a node, as its record says."""

        def is_so() -> bool:
            found = self._view.inventories.get(node)
            by = found.status.managed_elsewhere if found is not None else None
            return (by is not None and getattr(by, part) is not None) is there

        await self.until(is_so, lambda: (node, part, self._view.inventories.get(node)))

    async def theirs(self, node: str, amount: int) -> None:
        """A node has so many cards by the operator's plugin."""

        def listed() -> int:
            found = self._view.nodes.get(node)
            return int(found.status.allocatable.get(gpu_operator.RESOURCE, 0)) if found is not None else 0

        await self.until(lambda: listed() == amount, lambda: (node, listed()))

    async def adopted(self, *nodes: str) -> None:
        """Nodes' drivers are the operator's, given over."""

        def labels() -> list[str | None]:
            found = (self._view.nodes.get(node) for node in nodes)
            return [one.metadata.labels.get(names.DRIVER_VARIANT) if one is not None else None for one in found]

        await self.until(lambda: labels() == [ADOPTED] * len(nodes), lambda: (nodes, labels(), self._view.unready()))

    async def publishes(self, node: str, count: int) -> None:
        """Pools offer so many cards of a node."""

        def offered() -> int:
            return sum(one.status.node_name == node and one.status.published is not None for one in self._view.devices)

        await self.until(lambda: offered() == count, lambda: (node, offered(), self._summary()))

    async def unlabelled(self, *nodes: str) -> None:
        """The operator's labels are off nodes."""

        def left() -> list[str]:
            found = [one for one in self._view.nodes if one.name in nodes]
            return [key for one in found for key in one.metadata.labels if key.startswith(foreign.DEPLOY)]

        await self.until(lambda: not left(), left)

    def _theirs(self, node: str, part: str | None = None) -> Iterator[str]:
        """Uids of the operator's pods on a node."""
        for pod in self._view.pods:
            is_theirs = pod.node == node and pod.metadata.namespace == gpu_operator.NAMESPACE
            if is_theirs and part in (None, foreign.part_of(pod.metadata.labels)):
                yield pod.metadata.uid
