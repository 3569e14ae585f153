"""One pool's device plugin on one node: the reconciliation loop of its device list and its statuses.

Everything is decided in one pass, `_pass`, from the caches and the last look; whatever changes only asks for
another pass. A pass first shows kubelet the list, then writes, then shows it again with what was
written: see `offers` for why that order keeps two plugins apart. Nothing is written before the
pool's socket is ours.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import structlog

from controllers.domain import near
from controllers.runtime.controller import Controller
from nodeagent.deviceplugin import metrics
from nodeagent.deviceplugin.devices import allocate, allocations, decide, offers, preferred_allocation
from nodeagent.deviceplugin.devices.allocate import AllocationContext
from nodeagent.deviceplugin.devices.offers import DesiredOffer
from nodeagent.deviceplugin.devices.records import Holdings, NodeScan
from nodeagent.deviceplugin.kubelet import KubeletUnavailable, holdings
from nodeagent.deviceplugin.resources import Resources
from nodeagent.deviceplugin.service import Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import ConfigMap, Pod
    from controllers.domain.plugin_settings import PluginSettings
    from controllers.runtime.executor import Executor
    from controllers.runtime.store import Store
    from nodeagent.deviceplugin.devices.allocate import ContainerDevices
    from nodeagent.deviceplugin.devices.records import ForeignUsage, Listed
    from nodeagent.deviceplugin.kubelet import Sockets
    from nodeagent.deviceplugin.scanner import NodeScanner

log = structlog.get_logger()
AFTER_ALLOCATE = 0.2
"""Seconds after which kubelet has noted what it has just been given."""
ASK_AGAIN = 2.0
"""Seconds after which kubelet is asked again where it did not answer, or named a pod that nobody knows."""


@dataclass(frozen=True, slots=True)
class Caches:
    """The node's objects."""

    configmaps: Store[ConfigMap]
    cards: Store[GPUDevice]
    pods: Store[Pod]


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often to look again though nothing has changed, in seconds."""

    check: float
    """At the cards on the bus, and at the sockets."""
    report: float
    """At what kubelet's containers hold."""


@dataclass
class Plugin:
    """The work of the process."""

    sockets: Sockets
    caches: Caches
    scanner: NodeScanner
    executor: Executor
    pod_resources: Path
    strategy: str
    intervals: Intervals
    before_registration: Callable[[], Awaitable[None]]
    """Awaited before kubelet is told of a resource."""
    last_scan: NodeScan = field(default_factory=NodeScan, init=False)
    reported: bool = field(default=False, init=False)
    """Whether kubelet's answer about its containers is known and recent."""
    _settings: PluginSettings | None = field(default=None, init=False)
    _held: Holdings = field(default_factory=Holdings, init=False)
    _stale: bool = field(default=True, init=False)
    _unreadable: bool = field(default=False, init=False)
    _again: asyncio.TimerHandle | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Connect the parts; nothing is done before `run`."""
        self.decided = asyncio.Event()
        """Set once there is a list."""
        self.pool = self.sockets.pool
        self.resources = Resources(
            self.sockets, self._service, self.intervals.check, before=self.before_registration, decided=self.decided
        )
        self._controller = Controller("device-plugin", self._pass, workers=1)
        self.caches.configmaps.subscribe(lambda _old, _new: self.enqueue())
        self.caches.cards.subscribe(lambda _old, _new: self.enqueue())
        self.caches.pods.subscribe(lambda _old, _new: self._ask_kubelet())

    def _service(self, suffix: str) -> Service:
        """The service of one resource of the pool."""
        return Service(partial(self._preferred, suffix), partial(self._allocate, suffix), self._after_allocate)

    def enqueue(self) -> None:
        """Ask for a pass."""
        self._controller.add(self.pool)

    def _ask_kubelet(self) -> None:
        """Ask for a pass with kubelet's word on what its containers hold."""
        self._stale = True
        self.enqueue()

    async def run(self) -> None:
        """Look, offer and report until cancelled; the caches must be filled, and the socket ours."""
        self.last_scan = await self._scan_node()
        self.enqueue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="passes")
            group.create_task(self._scan_forever(), name="looks")
            group.create_task(self._report_forever(), name="reports")

    async def _scan_node(self) -> NodeScan:
        asked = offers.desired_offer(self.pool, self.caches.configmaps, self._settings)
        cards = {offers.address(card): offers.uuid(card) for card in self.caches.cards}
        return await self.scanner.scan(cards, ask=offers.asks_driver(asked))

    async def _scan_forever(self) -> None:
        while True:
            await asyncio.sleep(self.intervals.check)
            if self._awaits_instances():
                self.scanner.rescan()
            seen = await self._scan_node()
            if seen != self.last_scan:
                _tell(self.last_scan, seen)
                self.last_scan = seen
                self.enqueue()

    def _awaits_instances(self) -> bool:
        """Whether cards are to be offered whose MIG instances have not been seen yet."""
        asked = offers.desired_offer(self.pool, self.caches.configmaps, self._settings)
        if asked.offer is None or asked.offer.mode != offers.MIG:
            return False
        return any(offers.is_coming(card, asked) for card in self.caches.cards)

    async def _report_forever(self) -> None:
        while True:
            await asyncio.sleep(self.intervals.report)
            self._ask_kubelet()

    async def _pass(self, _: str) -> None:
        """Make list and objects what they are to be, by one desired offer and one scan in all its steps."""
        # What is believed of daemons goes by the wish that was written last, and the scan may be older than that.
        asked, seen = self._desired_offer(), await self.scanner.with_daemons(self.last_scan)
        cards = list(self.caches.cards)
        await self._show(offers.listing(self.pool, cards, asked, seen, offers.reported(cards)), asked)
        self.decided.set()
        # Before a card is offered anew kubelet is asked anew: what it said last may be half a minute old.
        self._stale |= any(offers.is_coming(card, asked) for card in cards)
        held = await self._holdings()
        cards = list(self.caches.cards)
        basis = decide.Basis(self.pool, asked, seen, held, {pod.key: pod for pod in self.caches.pods})
        foreign = decide.foreign(cards, basis)
        _count(cards, basis, foreign)
        await self._show(offers.listing(self.pool, cards, asked, seen, foreign), asked)
        await self.executor.execute(decide.writes(cards, basis, foreign))
        await self._show(offers.listing(self.pool, self.caches.cards, asked, seen, foreign), asked)
        # Last of all: a card that is to lose its daemon is offered to nobody by now, and the cluster knows.
        if self.scanner.mps is not None and seen.daemons.known:
            await self.scanner.want_daemons(decide.daemons(list(self.caches.cards), basis, time.time()))

    async def _show(self, listing: Sequence[Listed], asked: DesiredOffer) -> None:
        await self.resources.show(listing, offers.suffixes(self.pool, asked, listing))

    def _desired_offer(self) -> DesiredOffer:
        asked = offers.desired_offer(self.pool, self.caches.configmaps, self._settings)
        unreadable = offers.unreadable(self.pool, self.caches.configmaps)
        if unreadable and not self._unreadable:
            log.error("the pool's settings cannot be read; what is offered stays as it is", pool=self.pool)
        self._settings, self._unreadable = asked.last, unreadable
        return asked

    async def _holdings(self) -> Holdings | None:
        """What containers hold; None where kubelet does not say."""
        if self.reported and not self._stale:
            return self._held
        self._stale = False
        try:
            self._held = await holdings(self.pod_resources)
        except KubeletUnavailable as silence:
            metrics.REPORTS.labels("failed").inc()
            if self.reported:
                log.warning("kubelet does not tell what containers hold; what was told stays", why=str(silence))
            self.reported = False
            self._ask_later(ASK_AGAIN)
            return None
        metrics.REPORTS.labels("ok").inc()
        self.reported = True
        known = {pod.key for pod in self.caches.pods}
        if any(f"{entry.namespace}/{entry.pod}" not in known for entry in (*self._held.ours, *self._held.foreign)):
            # Kubelet names a pod for a moment after the API server has forgotten it: its card would be held meanwhile.
            self._ask_later(ASK_AGAIN)
        return self._held

    def _ask_later(self, after: float) -> None:
        """Ask kubelet again in so many seconds, or at the time that is set already if that is earlier."""
        loop = asyncio.get_running_loop()
        when = loop.time() + after
        if self._again is not None and self._again.when() > loop.time():
            when = min(when, self._again.when())
            self._again.cancel()
        self._again = loop.call_at(when, self._ask_kubelet)

    def _preferred(self, suffix: str, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        cards, listed = list(self.caches.cards), {device.id: device for device in self.resources.listing(suffix)}
        waiting = preferred_allocation.claims(suffix, cards, self.caches.pods, self._held.ours)
        return preferred_allocation.preferred(
            available, must, size, listed, claims=waiting, places=near.locations(cards)
        )

    def _allocate(self, suffix: str, ids: Sequence[str]) -> ContainerDevices:
        ground = AllocationContext(suffix, {device.id: device for device in self.resources.listing(suffix)})
        return allocate.container_devices(ids, ground, self.last_scan, self.strategy)

    def _after_allocate(self) -> None:
        """Kubelet notes what it was given once it has our answer."""
        self._ask_later(AFTER_ALLOCATE)


def _count(cards: Sequence[GPUDevice], basis: decide.Basis, foreign: ForeignUsage) -> None:
    """Tell metrics what kubelet has just said."""
    if basis.held is not None:
        metrics.UNKNOWN.set(len(allocations.unknown(basis.held.ours, offers.owners(cards, basis.scan))))
        metrics.FOREIGN.set(sum(bool(entries) for entries in foreign.users.values()))


def _tell(before: NodeScan, now: NodeScan) -> None:
    """Log what came and went."""
    for address in sorted(now.lost - before.lost):
        log.warning("a card is not on the bus any more", address=address)
    for address in sorted(before.lost - now.lost):
        log.info("a card is back on the bus", address=address)
    for address in sorted(now.unresponsive - before.unresponsive):
        log.warning("the driver does not answer for a card", address=address)
