"""A small process on the runtime, for faults that only a process of the system can have.

It copies each ConfigMap `in-*` of its namespace to `out-*`, in two writes; with `--beat` it
also writes ConfigMap `beat` without end. ConfigMaps named `boom` and `block` make its work raise, and
its event loop stand still for 300 ms.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from controllers.api.kube import ConfigMap
from controllers.api.resources import CONFIGMAP
from controllers.runtime.controller import Controller
from controllers.runtime.errors import ApiError, Unreachable
from controllers.runtime.plan import Apply, EmitEvent, Ref
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope

if TYPE_CHECKING:
    from controllers.runtime.store import Store

log = structlog.get_logger()


class Worker:
    """What the process does."""

    def __init__(self, process: Process, args: Any) -> None:
        self.process, self.args = process, args
        scope = Scope(namespace=args.namespace)
        self.store: Store[ConfigMap] = process.reflect(CONFIGMAP, ConfigMap, scope=scope)
        self.controller = Controller("copy", self.copy, workers=2)
        self.store.subscribe(self.changed)
        self.boom = asyncio.Event()

    def changed(self, _: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is not None and new.name.startswith("in-"):
            self.controller.add(new.key)
        if new is not None and new.name == "boom":
            self.boom.set()
        if new is not None and new.name == "block":
            time.sleep(0.3)

    async def copy(self, key: str) -> None:
        """Two writes, with a pause between."""
        source = self.store.get(key)
        if source is None:
            return
        log.info("copying")
        out = Ref(CONFIGMAP, "out-" + source.name.removeprefix("in-"), self.args.namespace)
        first, second = ({**source.data, "part": part} for part in ("1", "2"))
        await self.process.executor.execute([Apply(out, {"data": first})])
        await asyncio.sleep(self.args.pause)
        note = EmitEvent(out, "Normal", "Copied", "It was copied.")
        await self.process.executor.execute([Apply(out, {"data": second}), note])

    async def beat(self) -> None:
        """Write for ever."""
        n = 0
        while True:
            n += 1
            ref = Ref(CONFIGMAP, "beat", self.args.namespace)
            with suppress(Unreachable, ApiError):
                await self.process.executor.execute([Apply(ref, {"data": {"n": str(n), "by": self.args.name}})])
            await asyncio.sleep(0.005)

    async def fail(self) -> None:
        """Raise when told."""
        await self.boom.wait()
        msg = "boom"
        raise ZeroDivisionError(msg)

    async def work(self) -> None:
        """All of it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.controller.run())
            group.create_task(self.fail())
            if self.args.beat:
                group.create_task(self.beat())


def run(name: str, argv: list[str]) -> int:
    """Run the process."""
    parser = arguments(name, "A test's process.")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--lease")
    parser.add_argument("--beat", action="store_true")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.set_defaults(name=name)

    async def wire(process: Process) -> None:
        worker = Worker(process, process.args)
        await process.run(worker.work, lease=process.args.lease, namespace=process.args.namespace)

    return main(parser, "worker", wire, argv)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
