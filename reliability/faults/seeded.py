"""Bugs on purpose, one of each class.

`python -m reliability.faults.seeded <bug> <module> …` starts a process of the module with one. Nothing of the product
knows of them.

    python -m reliability.faults --wrap=-m --wrap=reliability.faults.seeded --wrap=order --folder .run/seeded run join/…

    order            a card is recorded in two writes, and the second is taken for done where the first one is: torn
                     apart by a crash, they are never made whole
    precondition     a deletion names no uid and no version: it meets whatever bears the name by then
    edge             a start looks at no reservation that is there: only a change that is seen ends one
    flap             a pod's event that comes twice has its pool marked, and the mark taken off again: the end is right,
                     and no invariant is broken, so that only counts of writes tell
    echo             a pod's event that comes twice has the last status written again: where it is still so, only the
                     count of writes that change nothing tells
    hasty-driver     a node that is taken out of service loses its driver at once, whoever has its cards
"""

from __future__ import annotations

import runpy
import sys
from typing import Any


def precondition() -> None:
    """Deletions without preconditions."""
    from controllers.runtime.client import Client

    async def delete(self: Client, resource: Any, name: str, namespace: str | None = None, **_: Any) -> None:
        await self.request("DELETE", resource.path(namespace, name))

    Client.delete = delete  # type: ignore[method-assign]


def order() -> None:
    """What exists counts as recorded."""
    from controllers.runtime.executor import Executor
    from controllers.runtime.plan import Apply

    right = Executor.execute

    def torn(self: Executor, action: Any) -> bool:
        if not (isinstance(action, Apply) and action.ref.resource.kind == "GPUDevice" and action.subresource):
            return False
        known = self._stores["GPUDevice"][0].get(action.ref.name)
        return known is not None and known.status.inventory_id is None

    async def execute(self: Executor, actions: Any) -> None:
        await right(self, [action for action in actions if not torn(self, action)])

    Executor.execute = execute  # type: ignore[method-assign]


def edge() -> None:
    """Cards are not looked at by a start."""
    from controllers.runtime.controller import Controller

    def add_all(self: Controller, keys: Any) -> None:
        if self.name != "cards" or self._end is not None:  # it runs: something has changed
            self.add(*keys)

    Controller.add_all = add_all  # type: ignore[method-assign]


def _twice(store: Any, obj: Any) -> bool:
    """Whether an event tells of a pod as it is known already; of what it writes itself a process knows before."""
    known = store.get(obj.key) if store.kind == "Pod" else None
    return known is not None and known.metadata.resource_version == obj.metadata.resource_version


def flap() -> None:
    """What is told twice has its pool marked and unmarked."""
    import asyncio

    from controllers.api import names, resources
    from controllers.runtime.executor import Executor
    from controllers.runtime.store import Store

    made, right, tasks, executors = Executor.__init__, Store.on_watch_event, list[Any](), list[Executor]()

    def noted(self: Executor, *args: Any) -> None:
        made(self, *args)
        executors.append(self)

    async def mark_and_unmark(pool: str) -> None:
        (executor,) = executors
        for value in ("true", None):
            body = {"metadata": {"annotations": {"test/flap": value}}}
            await executor._client.merge(resources.GPUPOOL, pool, body, manager=executor._manager)

    def saw(self: Store[Any], obj: Any, *, deleted: bool = False) -> None:
        if not deleted and _twice(self, obj):
            tasks.append(asyncio.ensure_future(mark_and_unmark(obj.metadata.labels[names.LABEL_POOL])))
        right(self, obj, deleted=deleted)

    Executor.__init__ = noted  # type: ignore[method-assign, assignment]
    Store.on_watch_event = saw  # type: ignore[method-assign]


def echo() -> None:
    """What is told twice has the last status written again."""
    import asyncio

    from controllers.runtime.executor import Executor
    from controllers.runtime.plan import Apply
    from controllers.runtime.store import Store

    write, right, last = Executor._write, Store.on_watch_event, list[Any]()

    async def noted(self: Executor, action: Any, uids: Any) -> None:
        await write(self, action, uids)
        if isinstance(action, Apply) and action.subresource == "status":
            last[:] = [self, action]

    def saw(self: Store[Any], obj: Any, *, deleted: bool = False) -> None:
        again = not deleted and _twice(self, obj)
        right(self, obj, deleted=deleted)
        if again and last:
            executor, action = last
            tasks.append(asyncio.ensure_future(write(executor, action, {})))

    tasks = list[Any]()
    Executor._write = noted  # type: ignore[method-assign]
    Store.on_watch_event = saw  # type: ignore[method-assign]


def hasty_driver() -> None:
    """Nothing is waited for before a driver is taken away."""
    from controllers.driver.node import leaving

    leaving.STEPS["Withdrawing"] = leaving._remove


BUGS = {
    "order": order,
    "precondition": precondition,
    "edge": edge,
    "flap": flap,
    "echo": echo,
    "hasty-driver": hasty_driver,
}


def main() -> None:
    """Plant the bug, and become the process."""
    bug, module, *rest = sys.argv[1:]
    BUGS[bug]()
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
