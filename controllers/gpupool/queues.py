"""The loop over the pods that wait: what wakes a pool's queue, and whose turn it was last."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.domain.request import pools_of
from controllers.gpupool import waiting
from controllers.gpupool.observe import BY_NODE
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node, Pod
    from controllers.gpupool.observe import World
    from controllers.runtime.process import Process

DELAY = 0.1
"""Seconds in which changes are collected, so that what ended is taken off the cards first."""
THREAD_SIZE = 500
"""A queue of more pods and cards is planned beside the event loop: its plan takes longer than the loop may stand."""
RESTS = 3.0
"""A queue rests for so many times as long as it was last looked at: a long one changes all the time."""


class Queues:
    """Reserves anew for the pods of each pool, by `controllers.gpupool.waiting`."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loop; `watch` connects it to the caches."""
        self._execute, self._world = process.executor.execute, world
        self._turns: dict[str, dict[str, waiting.Turn]] = {}
        self._unreached: dict[str, tuple[str, ...]] = {}
        self._rests: dict[str, float] = {}  # until when, in monotonic seconds
        self.controller = Controller("queues", self._reconcile, workers=4)

    async def _reconcile(self, pool: str) -> float | None:
        began = time.monotonic()
        if (rest := self._rests.get(pool, 0.0) - began) > 0:
            return rest  # what changed while it was planned had woken it by the time before
        seen = waiting.observe(self._world, pool, self._turns.get(pool, {}), self._unreached.get(pool, ()))
        if seen is None:
            for kept in (self._turns, self._unreached, self._rests):
                kept.pop(pool, None)
            return None
        now = time.time()
        made = await _planned(seen, now)
        ended = time.monotonic()
        self._rests[pool], self._unreached[pool] = ended + RESTS * (ended - began), _unserved(seen, made)
        self._turns[pool] = turns = dict(made.seen)  # also where a write below meets another's
        await self._execute(made.plan.actions)
        self._unreached[pool] = made.unreached
        turns |= {request: replace(turns.get(request, waiting.Turn(now)), began=now) for request in made.served}
        again = made.plan.requeue_after
        return None if again is None else max(again, self._rests[pool] - time.monotonic())

    def _wake(self, pool: str) -> None:
        """Look at a queue in a while: once it has rested."""
        self.controller.add_after(pool, max(DELAY, self._rests.get(pool, 0.0) - time.monotonic()))

    def watch(self) -> None:
        """Wake queues by changes."""
        world = self._world
        world.pods.subscribe(self._pod_changed)
        world.unadmitted.subscribe(self._pod_changed)
        world.devices.subscribe(self._device_changed)
        world.nodes.subscribe(self._node_changed)
        world.pools.subscribe(self._pool_changed)

    def everything(self) -> None:
        """Look at every queue."""
        self.controller.add_all(pool.name for pool in self._world.pools)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None:
            for pool in pools_of(pod):
                self._wake(pool)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        for device in (old, new):
            if device is not None and device.status.pool_ref is not None:
                self._wake(device.status.pool_ref.name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        for device in self._world.devices.by(BY_NODE, node.name) if node else ():
            if device.status.pool_ref is not None:
                self._wake(device.status.pool_ref.name)

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is not None:
            self._wake(pool.name)


def _unserved(seen: waiting.ObservedQueue, made: waiting.Turns) -> tuple[str, ...]:
    """Whom the next plan begins with where this one is not carried out: else its pods would come after younger ones."""
    again = made.served if made.unreached else [request for request in made.served if request in seen.unreached]
    return (*again, *made.unreached)


async def _planned(seen: waiting.ObservedQueue, now: float) -> waiting.Turns:
    if len(seen.unbound) + len(seen.members) > THREAD_SIZE:
        return await asyncio.to_thread(waiting.plan, seen, now)  # a pure function of frozen values
    return waiting.plan(seen, now)
