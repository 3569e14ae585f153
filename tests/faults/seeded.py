"""Bugs on purpose, one of each class: `python -m tests.faults.seeded <bug> <module> …` starts a process of the module
with one. Nothing of the product knows of them.

    python -m tests.faults --wrap=-m --wrap=tests.faults.seeded --wrap=order --folder .run/seeded run join/…

    order            a card is recorded in two writes, and the second is taken for done where the first one is: torn
                     apart by a crash, they are never made whole
    precondition     a deletion names no uid and no version: it meets whatever bears the name by then
    edge             a start looks at no reservation that is there: only a change that is seen ends one
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


BUGS = {"order": order, "precondition": precondition, "edge": edge}


def main() -> None:
    """Plant the bug, and become the process."""
    bug, module, *rest = sys.argv[1:]
    BUGS[bug]()
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
