"""The cluster as the console's own identity may read it: stores that follow it, and how old they are.

Lives as long as its program, in its event loop. A question every `PROBE` seconds says whether the API server answers:
a watch that hangs says nothing for a minute and more.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from console.kinds import PODS, PODS_LABEL, WHOLE
from console.namespaces import Namespaces
from controllers.api import names
from controllers.api.meta import KubeObject
from controllers.api.resources import GPUDEVICE, GPUDRIVER, GPUPOOL
from controllers.explain.faults import describe_fault
from controllers.runtime.errors import ApiError, Forbidden, RuntimeFault
from controllers.runtime.listing import Scope, WatchSettings, page_size
from controllers.runtime.reflector import Reflector
from controllers.runtime.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from console.pods import ShownPod
    from controllers.api.resources import Resource
    from controllers.runtime.client import Client

PROBE: Final = 1.5
"""Seconds between two questions, and for which one may take."""
PATIENCE: Final = 2.5
"""Seconds without an answer, or without a watch, after which what is shown is called old."""
RETRY_MAX: Final = 2.0
"""Seconds between two tries: somebody is looking."""
SERVER_ERROR: Final = 500
UNAUTHORIZED: Final = 401


@dataclass(frozen=True, slots=True)
class Stale:
    """Since when nothing new is heard (Unix seconds), and why."""

    since: float
    reason: str


class Feed:
    """Stores by kind, and the news of them."""

    def __init__(self, client: Client, *, namespace: str | None = None, wall: Callable[[], float] = time.time) -> None:
        """Prepare; `namespace`: of which alone pods are read, where not of all."""
        self._client, self._wall = client, wall
        self.namespace = namespace
        self.stores: dict[str, Store[Any]] = {}
        self._reflectors: list[Reflector[Any]] = []
        for read in WHOLE:
            self._reflect(read.resource, read.record, Scope())
        self.pods: Store[ShownPod] = Store(PODS[0].kind)
        # Those of the module's own namespace carry the label, too, and ask for no card.
        self._reflect(*PODS, Scope(namespace, labels=PODS_LABEL, fields=names.TENANT_PODS), self.pods)
        self._namespaces = Namespaces()
        self.pods.subscribe(self._namespaces.pod)
        self.stores[GPUDEVICE.kind].subscribe(self._namespaces.card)
        self.stale: Stale | None = None
        self._fresh = wall()
        self._handlers: list[Callable[[], None]] = []

    def _reflect(
        self, resource: Resource, record: type[KubeObject], scope: Scope, store: Store[Any] | None = None
    ) -> None:
        store = Store(resource.kind) if store is None else store
        settings = WatchSettings(page_size=page_size(resource), retry_max=RETRY_MAX)
        store.subscribe(lambda _, __: self._changed())
        self.stores[resource.kind] = store
        # A cluster of an older version of the module may not have this kind.
        optional = resource is GPUDRIVER
        self._reflectors.append(
            Reflector(self._client, resource, record, store, scope=scope, settings=settings, optional=optional)
        )

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call `handler()` when an object changes, or the age of all."""
        self._handlers.append(handler)

    @property
    def namespaces(self) -> frozenset[str]:
        """Those that have pods with cards or that wait for some, or had one that a card still names."""
        return self._namespaces.known

    @property
    def named(self) -> Container[str]:
        """Those that texts may name; others look like one and are none."""
        return self._namespaces.named

    @property
    def refused(self) -> dict[str, str]:
        """By kind: why the console itself may not read it, in words."""
        return {
            reflector.resource.kind: describe_fault(reflector.fault)
            for reflector in self._reflectors
            if isinstance(reflector.fault, Forbidden) and reflector.fault.status != UNAUTHORIZED
        }

    @property
    def filled(self) -> bool:
        """Whether every kind has been listed that may be."""
        return all(each.synced.is_set() or isinstance(each.fault, Forbidden) for each in self._reflectors)

    async def run(self) -> None:
        """Follow the cluster, for ever."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            group.create_task(self._probe())

    async def _probe(self) -> None:
        while True:
            asked = self._wall()
            why = await self._unanswered() or self._unfollowed()
            if not why:
                self._fresh = asked
            old = bool(why) and self._wall() - self._fresh > PATIENCE
            stale = Stale(self._fresh, why) if old else None
            if stale != self.stale:
                self.stale = stale
                self._changed()
            if self._namespaces.look():
                self._changed()
            await asyncio.sleep(PROBE)

    async def _unanswered(self) -> str:
        """Why the API server cannot be asked anything; empty where it can."""
        try:
            # A quorum read that the console may make; who may not is answered, too.
            await self._client.request("GET", GPUPOOL.path(), query={"limit": "1"}, timeout=PROBE)
        except ApiError as error:
            return describe_fault(error) if error.status == UNAUTHORIZED or error.status >= SERVER_ERROR else ""
        except RuntimeFault as error:
            return describe_fault(error)
        return ""

    def _unfollowed(self) -> str:
        """Why a kind is not followed that may be read; empty where all are."""
        # What was listed once and may not be any more stands as it was.
        faults = (one.fault for one in self._reflectors if one.synced.is_set() or not isinstance(one.fault, Forbidden))
        found = next((each for each in faults if each is not None), None)
        return "" if found is None else describe_fault(found)

    def _changed(self) -> None:
        for handler in self._handlers:
            handler()
