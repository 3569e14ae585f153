"""The controller of Nodes: labels, approvals and MIG layouts, and the candidates of pools that a node changes.

Labels and approvals are written at once, since cards wait for them. Statuses (the node's
`pools`, conditions of a card in no pool) settle first: eight cards that come into a pool one
after the other are one write of their node, and a state that passes is not written at all.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from controllers.gpupool import metrics
from controllers.gpupool.node.plan import plan_node
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.gpupool.views import ObservedNode
    from controllers.gpupool.world import World
    from controllers.runtime.process import Process

SETTLE = 0.5
"""Seconds from a node's first change to the write of its statuses."""
POOLS_DELAY = 0.25
"""Seconds in which changes of pools are collected before every node looks at them."""
CANDIDATES_DELAY = 0.25
"""Seconds in which changes of a pool's candidates are collected."""
CANDIDATES_PERIOD = 5.0
"""Seconds between two wake-ups of a pool for its candidates alone: that list is for people."""


class NodeController:
    """Reconciles nodes, and keeps the candidates of all pools.

    Lives as long as the process, and is used from its event loop only. What it remembers is when to write and to wake.
    """

    def __init__(self, process: Process, world: World, enqueue_pool: Callable[[str], None]) -> None:
        """Make the loop. `enqueue_pool(pool)` has a pool looked at."""
        self._execute, self._world, self._enqueue_pool = process.executor.execute, world, enqueue_pool
        self._since: dict[str, float] = {}  # when a node whose status is to be written first had that
        self._due: dict[str, float] = {}  # when a pool was, or will be, woken for its candidates
        self._unseen: set[str] = set()
        self._all_due = float("-inf")  # when all nodes were, or will be, looked at after changes of pools
        self.controller = Controller("nodes", self._reconcile, workers=8)

    def start(self) -> None:
        """Begin with full caches: candidates are complete once each of these nodes has been looked at."""
        self._unseen = {inventory.name for inventory in self._world.inventories}
        self._complete()

    def enqueue_all(self, after: float = 0.0) -> None:
        """Look at every node, after a while."""
        if after <= 0:
            self.controller.add_all(inventory.name for inventory in self._world.inventories)
        elif (now := time.monotonic()) >= self._all_due:  # else all are about to be looked at anyway
            self._all_due = now + after
            # A timer of its own: of a key's times a queue keeps the earliest, and what changes after that one was lost.
            asyncio.get_running_loop().call_later(after, self.enqueue_all)

    def forget(self, pool: str) -> None:
        """The pool is gone."""
        self._due.pop(pool, None)
        self._world.candidates.forget(pool)

    async def _reconcile(self, name: str) -> float | None:
        view = self._world.node(name)
        self._update_candidates(view)
        metrics.record_node(name, view.facts.inventory)
        first = self._since.setdefault(name, time.monotonic())
        wait = first + SETTLE - time.monotonic()
        plan = plan_node(view, time.time(), status_in=wait)
        await self._execute(plan.actions)
        if wait <= 0 or plan.requeue_after is None or plan.requeue_after > wait:
            del self._since[name]  # it is written, or nothing is to be written
        return plan.requeue_after

    def _update_candidates(self, view: ObservedNode) -> None:
        changed = self._world.update_candidates(view)
        if self._unseen:
            self._unseen.discard(view.name)
            self._complete()
        elif changed:
            self._changed(changed)

    def _complete(self) -> None:
        if not self._unseen:
            self._world.candidates.complete = True
            self._changed({pool.name for pool in self._world.pools})

    def _changed(self, pools: set[str]) -> None:
        now = time.monotonic()
        for pool in pools:
            due = self._due.get(pool, float("-inf"))
            if due <= now and self._world.pools.get(pool) is not None:
                self._due[pool] = due = max(now + CANDIDATES_DELAY, due + CANDIDATES_PERIOD)
                asyncio.get_running_loop().call_later(
                    due - now, self._enqueue_pool, pool
                )  # a timer of its own, as above
