"""The controller of the condition of pods that wait: what enqueues a pod.

Apart from the queues' own controller, so that a thousand pods that begin to wait keep no card from the first of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.queue.gates import is_gated
from controllers.gpupool.queue.wait import plan_condition
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.api.tenant import TenantPod
    from controllers.gpupool.queue.wait import Wait
    from controllers.gpupool.world import World
    from controllers.runtime.process import Process


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a look at a queue found, in numbers."""

    spelled: Callable[[str], str]
    left: set[str]
    """Pods that are to be told of it yet."""


class QueueConditionController:
    """Writes why pods wait, by `controllers.gpupool.queue.wait`."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the controller."""
        self._execute, self._world = process.executor.execute, world
        self._reasons: dict[str, Mapping[str, Wait]] = {}
        self._numbers: dict[str, Numbers] = {}
        self.controller = Controller("queue-conditions", self._reconcile, workers=4)

    def tell(self, pool: str, reasons: Mapping[str, Wait], numbers: Callable[[str], str]) -> None:
        """Take over why pods of a pool wait now; those that did and do not any more are looked at, too.

        `numbers`: by key, what the pool is to a pod. All of a look at the queue hangs on it, so that it is kept only
        until each pod has been told of whom something has changed.
        """
        before, earlier = self._reasons.pop(pool, {}), self._numbers.pop(pool, None)
        if reasons:
            self._reasons[pool] = reasons
        changed = {key for key, wait in reasons.items() if before.get(key) != wait}
        if left := changed | (earlier.left & reasons.keys() if earlier is not None else set()):
            self._numbers[pool] = Numbers(numbers, left)
        self.controller.add_all(changed | (before.keys() - reasons.keys()))

    def watch(self) -> None:
        """Enqueue pods that are let go on, whoever did that."""
        self._world.pods.subscribe(self._pod_changed)

    def enqueue_all(self) -> None:
        """Look at every pod that is said to wait and has no gate of ours: somebody let it go on while we were away."""
        self.controller.add_all(pod.key for pod in self._world.pods if _is_outdated(pod))

    def _pod_changed(self, _old: TenantPod | None, new: TenantPod | None) -> None:
        if new is not None and _is_outdated(new):
            self.controller.add(new.key)

    async def _reconcile(self, key: str) -> float | None:
        pod = self._world.pods.get(key)
        if pod is None or pod.finished or pod.metadata.deletion_timestamp is not None:
            return None
        pool = pod.metadata.labels.get(names.LABEL_POOL, "")
        numbers, wait = self._numbers.get(pool), self._reasons.get(pool, {}).get(key)
        plan = plan_condition(pod, pool, wait, time.time(), lambda: numbers.spelled(key) if numbers is not None else "")
        await self._execute(plan.actions)
        if plan.requeue_after is None:
            self._done(key, pool, wait)
        return plan.requeue_after

    def _done(self, key: str, pool: str, told: Wait | None) -> None:
        """The pod is told: whoever was the last lets the numbers go."""
        numbers = self._numbers.get(pool)
        # Where there is another reason by now the pod is enqueued again.
        if numbers is not None and self._reasons.get(pool, {}).get(key) == told:
            numbers.left.discard(key)
            if not numbers.left:
                del self._numbers[pool]


def _is_outdated(pod: TenantPod) -> bool:
    """Whether the pod is said to wait though it was let go on."""
    return pod.status.queued is not None and pod.status.queued.status == "True" and not is_gated(pod.spec)
