"""The controller of pending Pods: it serves each pool's queue, and reserves anew for pods without our gate.

Here are what enqueues a pool, whose turn it was last, and the writes. `controllers.gpupool.queue` decides.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from controllers.api import names
from controllers.domain.request import pools_of
from controllers.gpupool import metrics
from controllers.gpupool.caches import BY_NODE, UNBOUND
from controllers.gpupool.loops.denials import Denials
from controllers.gpupool.loops.planning import plan_at
from controllers.gpupool.queue import pending_pods
from controllers.gpupool.queue.looks import QueueLook, look_of
from controllers.gpupool.queue.records import ObservedQueue, Promise, ReservationRound, Turn
from controllers.runtime.controller import Controller
from controllers.runtime.errors import Conflict, Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node, Pod
    from controllers.gpupool.queue.wait import Wait
    from controllers.gpupool.world import World
    from controllers.runtime.process import Process

    Tell = Callable[[str, Mapping[str, Wait], Callable[[str], str]], None]

log = structlog.get_logger()
DELAY = 0.02
"""Seconds in which changes are collected: a pod that ends changes its card, too."""
THREAD_SIZE = 500
"""A queue of more pods and cards is planned beside the event loop: its plan takes longer than the loop may stand."""
PROMISES_AT_ONCE = 16
RESTS = 3.0
"""A queue rests for so many times as long as it was last looked at: a long one changes all the time."""


class PendingPodController:
    """Carries out what `controllers.gpupool.queue.pending_pods` plans for each pool.

    Lives as long as the process, and is used from its event loop only. A process that starts knows of no turn, and of
    nobody whom the API server refused: each pod has one turn more.
    """

    def __init__(
        self,
        process: Process,
        world: World,
        tell: Tell = lambda _pool, _reasons, _numbers: None,
    ) -> None:
        """Make the loop; `watch` connects it to the caches.

        `tell` is told why pods of a pool wait, and what gives the numbers to it by a pod's key.
        """
        self._execute, self._world, self._tell = process.executor.execute, world, tell
        self._denials: dict[str, Denials] = defaultdict(Denials)
        self._since: dict[str, float] = {}  # when something changed that no round has looked at, in monotonic seconds
        self._turns: dict[str, dict[str, Turn]] = {}
        self._unreached: dict[str, tuple[str, ...]] = {}
        self._rests: dict[str, float] = {}  # until when, in monotonic seconds
        self.controller = Controller("pending-pods", self._reconcile, workers=4)

    async def _reconcile(self, pool: str) -> float | None:
        began = time.monotonic()
        if (rest := self._rests.get(pool, 0.0) - began) > 0:
            return rest  # what changed while it was planned had enqueued it by the time before
        since = self._since.pop(pool, began)
        denials = self._denials[pool]
        view = self._world.queue(pool, self._turns.get(pool, {}), self._unreached.get(pool, ()), denials.current())
        if view is None:
            for kept in (self._turns, self._unreached, self._rests, self._denials):
                kept.pop(pool, None)
            self._tell(pool, self._world.reasons_without_pool(pool), lambda _: "")
            self._world.queue_statuses.pop(pool, None)
            self._world.queue_looks.pop(pool, None)
            return None
        now = time.time()
        is_large = len(view.unbound) + len(view.members) > THREAD_SIZE
        planned = await plan_at(now, view, pending_pods.plan_pending_pods, is_large=is_large)
        ended = time.monotonic()
        self._rests[pool], self._unreached[pool] = ended + RESTS * (ended - began), _unserved(view, planned)
        before = self._world.queue_looks.get(pool, QueueLook())
        self._world.queue_looks[pool] = look_of(planned, before, view.unbound, now)
        self._turns[pool] = turns = dict(planned.turns)  # also where a write below meets another's
        await self._execute(planned.plan.actions)
        self._unreached[pool] = planned.unreached
        for request in planned.reserved:
            turns[request] = replace(turns.get(request, Turn(now)), began=now)
        self._world.queue_statuses[pool] = planned.status
        self._tell(pool, planned.reasons, planned.numbers)
        denials.keep(pod.metadata.annotations.get(names.REQUEST_ID, "") for pod in view.unbound)
        await self._carry_out(pool, planned, since)
        found = [after for after in (planned.plan.requeue_after, denials.next_try()) if after is not None]
        return max(min(found), self._rests[pool] - time.monotonic()) if found else None

    async def _carry_out(self, pool: str, planned: ReservationRound, since: float) -> None:
        """Reserve cards for pods of the queue and let them go on; one that is refused holds no other up."""
        limit = asyncio.Semaphore(PROMISES_AT_ONCE)

        async def one(promise: Promise) -> None:
            async with limit:
                try:
                    await self._execute(promise.plan.actions)
                except (Conflict, NotFound):
                    self._enqueue(pool)  # a card or the pod is another one by now
                except (Forbidden, Invalid) as error:
                    log.warning("a pod that waits was not let go on", pods=promise.pods, why=str(error))
                    if len(promise.requests) == 1:
                        self._denials[pool].add(promise.requests[0], str(error))
                    self._enqueue(pool)
                else:
                    # One that still has a reason is let go on without cards (`scale_up`).
                    served = [pod for pod in promise.pods if pod not in planned.reasons]
                    metrics.count_released(pool, len(served), time.monotonic() - since)

        ended = await asyncio.gather(*map(one, planned.promises), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    def _enqueue(self, pool: str) -> None:
        """Look at a queue in a while: once it has rested."""
        self._since.setdefault(pool, time.monotonic())
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
        self.controller.add_all({*(pool.name for pool in self._world.pools), *self._world.pods.index_values(UNBOUND)})

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
