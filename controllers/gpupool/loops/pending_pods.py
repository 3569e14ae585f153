"""The controller of pending Pods: what enqueues a pool's queue, and whose turn it was last."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.domain.request import pools_of
from controllers.gpupool.caches import BY_NODE
from controllers.gpupool.queue import pending_pods
from controllers.gpupool.queue.records import ObservedQueue, ReservationRound, Turn
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node, Pod
    from controllers.gpupool.world import World
    from controllers.runtime.process import Process

DELAY = 0.1
"""Seconds in which changes are collected, so that what ended is taken off the cards first."""
THREAD_SIZE = 500
"""A queue of more pods and cards is planned beside the event loop: its plan takes longer than the loop may stand."""
RESTS = 3.0
"""A queue rests for so many times as long as it was last looked at: a long one changes all the time."""


class PendingPodController:
    """Reserves anew for the pods of each pool, by `controllers.gpupool.queue.pending_pods`."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loop; `watch` connects it to the caches."""
        self._execute, self._world = process.executor.execute, world
        self._turns: dict[str, dict[str, Turn]] = {}
        self._unreached: dict[str, tuple[str, ...]] = {}
        self._rests: dict[str, float] = {}  # until when, in monotonic seconds
        self.controller = Controller("pending-pods", self._reconcile, workers=4)

    async def _reconcile(self, pool: str) -> float | None:
        began = time.monotonic()
        if (rest := self._rests.get(pool, 0.0) - began) > 0:
            return rest  # what changed while it was planned had enqueued it by the time before
        view = self._world.queue(pool, self._turns.get(pool, {}), self._unreached.get(pool, ()))
        if view is None:
            for kept in (self._turns, self._unreached, self._rests):
                kept.pop(pool, None)
            return None
        now = time.time()
        planned = await _plan(view, now)
        ended = time.monotonic()
        self._rests[pool], self._unreached[pool] = ended + RESTS * (ended - began), _unserved(view, planned)
        self._turns[pool] = turns = dict(planned.turns)  # also where a write below meets another's
        await self._execute(planned.plan.actions)
        self._unreached[pool] = planned.unreached
        for request in planned.reserved:
            turns[request] = replace(turns.get(request, Turn(now)), began=now)
        again = planned.plan.requeue_after
        return None if again is None else max(again, self._rests[pool] - time.monotonic())

    def _enqueue(self, pool: str) -> None:
        """Look at a queue in a while: once it has rested."""
        self.controller.add_after(pool, max(DELAY, self._rests.get(pool, 0.0) - time.monotonic()))

    def watch(self) -> None:
        """Enqueue queues by changes."""
        world = self._world
        world.pods.subscribe(self._pod_changed)
        world.unadmitted.subscribe(self._pod_changed)
        world.devices.subscribe(self._device_changed)
        world.nodes.subscribe(self._node_changed)
        world.pools.subscribe(self._pool_changed)

    def enqueue_all(self) -> None:
        """Look at every queue."""
        self.controller.add_all(pool.name for pool in self._world.pools)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None:
            for pool in pools_of(pod):
                self._enqueue(pool)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        for device in (old, new):
            if device is not None and device.status.pool_ref is not None:
                self._enqueue(device.status.pool_ref.name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        for device in self._world.devices.by(BY_NODE, node.name) if node else ():
            if device.status.pool_ref is not None:
                self._enqueue(device.status.pool_ref.name)

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is not None:
            self._enqueue(pool.name)


def _unserved(view: ObservedQueue, planned: ReservationRound) -> tuple[str, ...]:
    """Whom the next round begins with where this one is not carried out: else they would come after younger ones."""
    again = planned.reserved if planned.unreached else [one for one in planned.reserved if one in view.unreached]
    return (*again, *planned.unreached)


async def _plan(view: ObservedQueue, now: float) -> ReservationRound:
    if len(view.unbound) + len(view.members) > THREAD_SIZE:
        return await asyncio.to_thread(pending_pods.plan_pending_pods, view, now)  # a pure function of frozen values
    return pending_pods.plan_pending_pods(view, now)
