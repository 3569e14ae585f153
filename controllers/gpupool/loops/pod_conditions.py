"""The controller of the module's conditions of pods: why they wait, and whether their cards are near to each other.

Apart from the queues' own controller, so that a thousand pods that begin to wait keep no card from the first of them.
One controller for both conditions: they are written together, and a pod is written by one worker at a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.named_devices import named_devices
from controllers.domain.queue.gates import is_gated
from controllers.domain.request import lasting_of
from controllers.gpupool import metrics
from controllers.gpupool.nearness import compare, plan_near
from controllers.gpupool.queue.promises import new_allocations
from controllers.gpupool.queue.wait import plan_condition
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.api.gpudevice import GPUDevice
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


class PodConditionController:
    """Writes why pods wait (`controllers.gpupool.queue.wait`) and what they got (`controllers.gpupool.nearness`)."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the controller."""
        self._execute, self._world = process.executor.execute, world
        self._reasons: dict[str, Mapping[str, Wait]] = {}
        self._numbers: dict[str, Numbers] = {}
        self._served: dict[str, str] = {}
        """Uids, by key, of pods of several cards to which kubelet gave some since we look, and not compared yet."""
        self.controller = Controller("pod-conditions", self._reconcile, workers=4)

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
        """Enqueue pods that are let go on, whoever did that, and pods that get cards."""
        self._world.pods.subscribe(self._pod_changed)
        self._world.devices.subscribe(self._device_changed)

    def enqueue_all(self) -> None:
        """Look at every pod of which something may have been missed while we were away."""
        self.controller.add_all(pod.key for pod in self._world.pods if _is_outdated(pod) or _is_to_be_compared(pod))

    def _pod_changed(self, old: TenantPod | None, new: TenantPod | None) -> None:
        if new is None:
            self._served.pop((old.key if old is not None else ""), None)
        elif _is_outdated(new) or (_is_to_be_compared(new) and (old is None or old.node is None)):
            self.controller.add(new.key)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        if old is None or new is None:
            return
        for taken in new_allocations(old, new):
            key = f"{taken.namespace}/{taken.pod}"
            pod = self._world.pods.get(key)
            if pod is not None and _has_several(pod):
                self._served[key] = taken.pod_uid
                self.controller.add(key)

    async def _reconcile(self, key: str) -> float | None:
        pod = self._world.pods.get(key)
        if pod is None or pod.finished or pod.metadata.deletion_timestamp is not None:
            self._served.pop(key, None)
            return None
        pool = pod.metadata.labels.get(names.LABEL_POOL, "")
        numbers, wait = self._numbers.get(pool), self._reasons.get(pool, {}).get(key)
        plan = plan_condition(pod, pool, wait, time.time(), lambda: numbers.spelled(key) if numbers is not None else "")
        await self._execute(plan.actions)
        if plan.requeue_after is None:
            self._done(key, pool, wait)
        await self._compare(key)
        return plan.requeue_after

    def _done(self, key: str, pool: str, told: Wait | None) -> None:
        """The pod is told: whoever was the last lets the numbers go."""
        numbers = self._numbers.get(pool)
        # Where there is another reason by now the pod is enqueued again.
        if numbers is not None and self._reasons.get(pool, {}).get(key) == told:
            numbers.left.discard(key)
            if not numbers.left:
                del self._numbers[pool]

    async def _compare(self, key: str) -> None:
        """Say it of a pod whose cards could have been nearer to each other, and count it."""
        pod, now = self._world.pods.get(key), time.time()
        seen = self._world.pod_cards(key, is_new=pod is not None and self._served.get(key) == pod.metadata.uid)
        if pod is None or seen is None or (found := compare(seen, now)) is None:
            return
        self._served.pop(key, None)
        plan = plan_near(pod, found, now)
        await self._execute(plan.actions)
        if plan.writes and found.is_split:
            metrics.count_split(seen.pool, len(found.cards), found.missed)


def _is_outdated(pod: TenantPod) -> bool:
    """Whether the pod is said to wait though it was let go on."""
    return pod.status.queued is not None and pod.status.queued.status == "True" and not is_gated(pod.spec)


def _is_to_be_compared(pod: TenantPod) -> bool:
    """Whether it is bound, and what it got can still be compared with what was reserved for it."""
    return pod.node is not None and not pod.finished and len(named_devices(pod)) > 1


def _has_several(pod: TenantPod) -> bool:
    return lasting_of(pod, pod.metadata.labels.get(names.LABEL_POOL, "")) > 1
