"""What a watch shows of nodes that go over from GPU Operator, and pods that come and go on them meanwhile.

For the benchmark `takeover`. Times are monotonic, in seconds.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import POD
from reliability.bench.environment import MANAGER
from reliability.kit import actors
from sim import gpu_operator
from sim.view import LateError
from sim.workload import gpu_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.kube import Node, Pod
    from sim.view import View

TEAM: Final = "bench"
POOL: Final = "taken"
OURS: Final = names.resource_name(POOL)
NO_CARD: Final = 30.0
"""Seconds for which a pod waits for a card before its user gives it up."""


class Nodes:
    """By whom the nodes' cards are offered, as kubelet says: from when by nobody, and for how long."""

    def __init__(self, view: View, pods: Pods) -> None:
        """Follow them from now on. `pods`: those of users."""
        self.gaps: dict[str, float] = {}
        """By node, seconds in which nobody offered its cards."""
        self.taken: list[str] = []
        """Nodes that lost the operator's resource while a pod had a card by it."""
        self.doubled = 0
        """Times that both plugins offered a node's cards."""
        self._since: dict[str, float] = {}
        self._view, self._pods = view, pods
        view.nodes.subscribe(self._node)

    def _node(self, old: Node | None, new: Node | None) -> None:
        if new is None or old is None:
            return
        (theirs, ours), (had, offered) = _amounts(new), _amounts(old)
        self.doubled += bool(theirs and ours) and not (had and offered)
        if had and not theirs:
            self._since[new.name] = time.monotonic()
            self.taken += [new.name] * any(pod.node == new.name and self._has(pod) for pod in self._view.pods)
        if ours and new.name in self._since:
            self.gaps[new.name] = time.monotonic() - self._since.pop(new.name)

    def _has(self, pod: Pod) -> bool:
        """Whether a pod has cards by the operator's plugin, and nobody is done with it."""
        keys = chain.from_iterable(one.resources.limits for one in pod.spec.containers)
        return gpu_operator.RESOURCE in keys and not pod.finished and pod.name not in self._pods.let_go


def _amounts(node: Node) -> tuple[int, int]:
    """Cards by the operator's plugin, and by the pool's."""
    listed = node.status.allocatable
    return int(listed.get(gpu_operator.RESOURCE, 0)), int(listed.get(OURS, 0))


class Pods:
    """Users' pods: some stay, others come one after another; whoever ends without their having ended it is counted."""

    def __init__(self, view: View, stay: tuple[float, float]) -> None:
        """`stay`: seconds that pods run, at least and at most."""
        self.theirs = self.ours = self.ended = 0
        """Pods that ran by each plugin; and those that ended, failed or started again by themselves."""
        self._view, self._client, self._stay = view, view.client, stay
        self.let_go: set[str] = set()
        """Pods that their users have ended, or are about to."""
        self._up: set[str] = set()
        """Pods that are ready, or were until they ended."""
        self._have_moved = False
        self._chains: list[asyncio.Task[None]] = []
        view.pods.subscribe(self._pod)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or pod.metadata.namespace != TEAM or pod.name in self.let_go:
            return
        if pod.ready:
            self._up.add(pod.name)
        is_wrong = new is None or new.finished or new.metadata.deletion_timestamp is not None
        is_again = old is not None and new is not None and old.ready and not new.ready
        if (is_wrong or is_again) and old is not None:
            self.let_go.add(pod.name)  # counted once
            self.ended += 1

    async def trains(self, nodes: list[str]) -> None:
        """A pod on each of these nodes has a card by the operator's plugin, and stays."""
        for node in nodes:
            await self._client.create(POD, gpu_operator.pod(f"train-{node}", node), TEAM, manager=MANAGER)
        wanted = {f"train-{node}" for node in nodes}
        await self._view.until(lambda: wanted <= self._up, 300.0, lambda: f"{len(self._up)} pods run")
        self.theirs += len(wanted)

    async def end(self, nodes: list[str]) -> None:
        """These pods are done, and from now on users ask the pool alone."""
        self._have_moved = True
        for node in nodes:
            await self._remove(f"train-{node}")

    def begin(self, chains: int) -> None:
        """So many chains of pods that ask the operator's plugin begin, and as many that ask the pool."""
        for number in range(chains):
            self._chains.append(asyncio.create_task(self._chain(f"theirs-{number}", gpu_operator.pod)))
            self._chains.append(asyncio.create_task(self._chain(f"ours-{number}", _of_pool)))

    async def stop(self) -> None:
        """No more pods come."""
        for task in self._chains:
            task.cancel()
        await asyncio.gather(*self._chains, return_exceptions=True)

    async def _chain(self, name: str, make: Callable[[str], dict[str, Any]]) -> None:
        turn, (low, high) = len(name), self._stay
        while not (self._have_moved and make is gpu_operator.pod):
            pod = f"{name}-{turn}"
            await actors.create_pod(self._client, make(pod), TEAM, manager=MANAGER)
            with suppress(LateError):
                await self._view.until(partial(self._up.__contains__, pod), NO_CARD, str)
            if pod in self._up:
                self.theirs += name.startswith("theirs")
                self.ours += name.startswith("ours")
                await asyncio.sleep(low + (turn * 7) % (high - low))  # it computes
            await self._remove(pod)
            turn += 1

    async def _remove(self, pod: str) -> None:
        self.let_go.add(pod)
        await actors.delete(self._client, POD, pod, TEAM)


def _of_pool(name: str) -> dict[str, Any]:
    return gpu_pod(name, POOL)
