"""A watch of a kind, as any other program would have it: when it showed what was waited for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic import Field

from controllers.api.meta import KubeObject
from controllers.api.record import record
from controllers.runtime.reflector import Reflector, WatchSettings
from controllers.runtime.store import Store
from reliability.kit.caches import kept

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controllers.api.meta import ObjectMeta
    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from controllers.runtime.list_buffer import ListBuffer

UNBROKEN = WatchSettings(watch_seconds=3600.0)
"""A watch that is opened anew meanwhile would be in the figures."""


@record
class Shown(KubeObject):
    """An object of any kind, with what is waited for as JSON values."""

    status: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)


class ObjectWatch(Store[Shown]):
    """What a watch has shown so far; filled by `following`. Of objects it keeps the metadata alone."""

    def __init__(self, kind: str) -> None:
        """Nothing is expected yet."""
        super().__init__(kind)
        self.meta: dict[str, ObjectMeta] = {}
        """The last `metadata` of each object, by name."""
        self.events: Counter[str] = Counter()
        """Changes of each object since the last `clear`, by name."""
        self._expected: dict[str, list[tuple[Callable[[Shown], object], asyncio.Future[float]]]] = {}

    def expect(self, name: str, shows: Callable[[Shown], object]) -> asyncio.Future[float]:
        """When (`time.monotonic`) the watch brings an object of that name for which `shows` is true."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._expected.setdefault(name, []).append((shows, future))
        return future

    def take(self, buffer: ListBuffer[Shown], observed: int) -> None:
        """Take a list: the first, or one after a break that was too long, which shows what changed meanwhile."""
        first = not self.synced
        super().take(self.new_buffer(), observed)  # an empty one
        for item in buffer.items.values():
            known = self.meta.get(item.name)
            if first:
                self.meta[item.name] = item.metadata
            elif known is None or known.resource_version != item.metadata.resource_version:
                self._show(item)

    def on_watch_event(self, obj: Shown, *, deleted: bool = False) -> None:
        """Take an event of the watch; an object that is gone shows nothing, and has changed."""
        self.advance(int(obj.metadata.resource_version))
        if deleted:
            self.meta.pop(obj.name, None)
            self.events[obj.name] += 1
        else:
            self._show(obj)

    def _show(self, obj: Shown) -> None:
        now = time.monotonic()
        self.meta[obj.name] = obj.metadata
        self.events[obj.name] += 1
        waiting = self._expected.pop(obj.name, [])
        left = [
            (shows, future) for shows, future in waiting if not future.done() and not _told(shows, future, obj, now)
        ]
        if left:
            self._expected[obj.name] = left


def _told(shows: Callable[[Shown], object], future: asyncio.Future[float], obj: Shown, now: float) -> bool:
    """Tell who waits, where an object shows it; a question that fails is told, too, since it would end the watch."""
    try:
        if not shows(obj):
            return False
        future.set_result(now)
    except Exception as error:  # noqa: BLE001 - whatever it was, it belongs to whoever asked
        future.set_exception(error)
    return True


@asynccontextmanager
async def following(client: Client, resource: Resource) -> AsyncIterator[ObjectWatch]:
    """A watch of all objects of a kind from here to the end of the block; raises UserError."""
    sight = ObjectWatch(resource.kind)
    async with kept(Reflector(client, resource, Shown, sight, settings=UNBROKEN)):
        yield sight
