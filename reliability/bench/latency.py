"""From a person's annotation to a running pod, on a whole cluster, one card after another.

Moments are taken when a watch of the benchmark shows them, so each includes the API server's
way to a watcher. The annotations keep a distance: a pool's list is rewritten at most once a
second, and what is measured is the way of one card, not the wait for the next rewrite.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import ConfigMap, Pod
from controllers.api.resources import CONFIGMAP, GPUDEVICE, GPUPOOL, POD
from controllers.runtime.errors import ApiError
from controllers.runtime.reflector import Reflector, Scope
from controllers.runtime.store import Store
from reliability.bench import stats
from reliability.bench.environment import MANAGER
from reliability.bench.fleet import CARDS
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.whole_cluster import ready_for_pooling, whole_cluster
from reliability.kit.actors import create_namespace
from reliability.kit.progress import show_progress
from sim.view import LateError, View
from sim.workload import gpu_pod
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.programs import Progress

POOL, TEAM = "bench", "bench-team"
STEP_SECONDS = 30.0
RETRY = 0.05


@dataclass(frozen=True, slots=True)
class Way:
    """One card's way; seconds from its annotation, and of the pod from its creation."""

    assigned: float
    allowed: float
    """Its line is in a ConfigMap of the pool."""
    published: float
    allocatable: float
    pod_admitted: float
    pod_bound: float
    pod_running: float
    refusals: int
    """Creations that the webhook refused: its cache was behind the benchmark's."""
    first_on_node: bool
    """The node's first card of the pool: the pool's DaemonSet starts a pod there before."""

    @property
    def offered(self) -> float:
        """Published and in the node's allocatable: a pod can be created."""
        return max(self.published, self.allocatable)

    @property
    def total(self) -> float:
        """From the annotation to the running pod."""
        return self.offered + self.pod_running


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a cluster in `folder`; raises UserError."""
    nodes = -(-sizes.repeats // CARDS)
    with whole_cluster(folder, nodes, progress) as plane:
        ways = asyncio.run(_measure(plane.kubeconfig, nodes, sizes, progress))
    return Result(
        _rows(ways), {"nodes": nodes, "cards": nodes * CARDS, "gap": sizes.gap, "ways": list(map(asdict, ways))}
    )


def _rows(ways: list[Way]) -> tuple[Row, ...]:
    def of(take: Callable[[Way], float], share: float = 0.5) -> float:
        return 1000 * stats.percentile([take(way) for way in ways], share)

    note = f"{len(ways)} cards"
    return (
        Row("annotation → allowed list p99", of(lambda w: w.allowed, 0.99), "ms", 0, at_most=250.0, note=note),
        Row("annotation → allowed list p50", of(lambda w: w.allowed), "ms", 0),
        Row("annotation → published and allocatable p50", of(lambda w: w.offered), "ms", 0),
        Row("pod created → admitted p50", of(lambda w: w.pod_admitted), "ms", 0),
        Row("pod created → running p50", of(lambda w: w.pod_running), "ms", 0),
        Row("annotation → running pod p50", of(lambda w: w.total), "ms", 0, note=note),
        Row("annotation → running pod p99", of(lambda w: w.total, 0.99), "ms", 0, note=note),
    )


async def _measure(kubeconfig: Path, nodes: int, sizes: Sizes, progress: Progress) -> list[Way]:
    async with View(kubeconfig) as view:
        track = Track(view)
        await ready_for_pooling(view, nodes, progress)
        await create_namespace(view.client, TEAM, manager=MANAGER)
        pool = {"metadata": {"name": POOL}, "spec": {"allocation": {"mode": "Exclusive"}}}
        kind = {"apiVersion": GPUPOOL.api_version, "kind": GPUPOOL.kind}
        await view.client.create(GPUPOOL, kind | pool, manager=MANAGER)
        configs: Store[ConfigMap] = Store(CONFIGMAP.kind)
        reflector = Reflector(view.client, CONFIGMAP, ConfigMap, configs, scope=Scope(namespace=names.NAMESPACE))
        following = asyncio.create_task(reflector.run())
        try:
            await reflector.synced.wait()
            return await _ways(track, configs, sizes, progress)
        finally:
            following.cancel()


async def _ways(track: Track, configs: Store[ConfigMap], sizes: Sizes, progress: Progress) -> list[Way]:
    ways: list[Way] = []
    stopwatch = Stopwatch()
    for store in (track.view.devices, track.view.nodes, track.view.pods, configs):
        store.subscribe(lambda _old, _new: stopwatch.look())
    async with show_progress(progress, "from annotation to a running pod", lambda: len(ways), sizes.repeats):
        for card in await track.cards(sizes.repeats):
            ways.append(await track.way(card, len(ways), configs, stopwatch))
            await asyncio.sleep(sizes.gap)
    return ways


class Stopwatch:
    """Notes when each of several things came true; asked at every change that a watch shows."""

    def __init__(self) -> None:
        """Wait for nothing yet."""
        self._waiting: dict[str, Callable[[], bool]] = {}
        self._moments: dict[str, float] = {}
        self._all = asyncio.Event()

    async def until(self, started: float, wanted: dict[str, Callable[[], bool]]) -> dict[str, float]:
        """Seconds from `started` (of the event loop's clock) until each came true; raises LateError."""
        self._waiting, self._moments = dict(wanted), {}
        self._all.clear()
        self.look()
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await self._all.wait()
        except TimeoutError:
            raise LateError(f"not true after {STEP_SECONDS:.0f} s: {', '.join(self._waiting)}") from None
        return {name: moment - started for name, moment in self._moments.items()}

    def look(self) -> None:
        """Ask for what has not come true yet."""
        if not self._waiting:
            return
        now = time.monotonic()
        for name in [name for name, true in self._waiting.items() if true()]:
            del self._waiting[name]
            self._moments[name] = now
        if not self._waiting:
            self._all.set()


class Track:
    """What is done to the cluster, card by card."""

    def __init__(self, view: View) -> None:
        """Work on what the view shows."""
        self.view = view

    async def cards(self, count: int) -> list[GPUDevice]:
        """So many cards that wait for an annotation, the nodes taking turns."""

        def waiting() -> set[str]:
            return {
                entry.inventory_id
                for inventory in self.view.inventories
                for entry in (inventory.status.pools.pending if inventory.status.pools else ())
                if entry.pool == POOL and entry.annotation_hint
            }

        await self.view.until(lambda: len(waiting()) >= count, STEP_SECONDS, lambda: f"{len(waiting())} cards wait")
        cards = [device for device in self.view.devices if device.status.inventory_id in waiting()]
        return sorted(cards, key=lambda card: card.name)[:count]

    async def way(self, card: GPUDevice, number: int, configs: Store[ConfigMap], stopwatch: Stopwatch) -> Way:
        """Annotate one card, wait until it is offered, and create a pod that gets it."""
        view, status = self.view, card.status
        first = not any(d.status.pool_ref and d.status.node_name == status.node_name for d in view.devices)

        def now() -> GPUDevice:
            return view.devices.get(card.name) or card

        started = time.monotonic()
        patch = {"metadata": {"annotations": {names.ASSIGNMENT: POOL}}}
        await view.client.merge(GPUDEVICE, card.name, patch, manager=MANAGER)
        moments = await stopwatch.until(
            started,
            {
                "assigned": lambda: now().status.pool_ref is not None,
                "allowed": lambda: _listed(configs, status.inventory_id or ""),
                "published": lambda: now().status.published is not None,
                "allocatable": lambda: self._slots() == number + 1,
            },
        )
        pod = await self._pod(f"pod-{number}", stopwatch)
        return Way(
            assigned=moments["assigned"],
            allowed=moments["allowed"],
            published=moments["published"],
            allocatable=moments["allocatable"],
            pod_admitted=pod["admitted"],
            pod_bound=pod["bound"],
            pod_running=pod["running"],
            refusals=int(pod["refusals"]),
            first_on_node=first,
        )

    async def _pod(self, name: str, stopwatch: Stopwatch) -> dict[str, float]:
        """Create a pod and wait until it runs; seconds from the first attempt."""
        body = gpu_pod(name, POOL)
        started, refusals = time.monotonic(), 0
        while True:
            try:
                await self.view.client.create(POD, body, TEAM, manager=MANAGER)
                break
            except ApiError as error:
                refusals += 1
                if time.monotonic() - started > STEP_SECONDS or names.INSUFFICIENT_CAPACITY not in error.message:
                    raise UserError(f"a pod for a card that is offered was refused: {error}") from error
                await asyncio.sleep(RETRY)
        admitted = time.monotonic() - started

        def pod() -> Pod:
            return self.view.pods.get(f"{TEAM}/{name}") or Pod()

        moments = await stopwatch.until(
            started, {"bound": lambda: bool(pod().node), "running": lambda: pod().status.phase == "Running"}
        )
        return {**moments, "admitted": admitted, "refusals": refusals}

    def _slots(self) -> int:
        key = names.resource_name(POOL)
        return sum(int(node.status.allocatable.get(key, 0)) for node in self.view.nodes)


def _listed(configs: Store[ConfigMap], inventory_id: str) -> bool:
    """Whether a card is in the pool's list of allowed devices, or in a shard of it."""
    prefix = names.plugin_object(POOL)
    return any(
        inventory_id in config.data.get(names.ALLOWED_DEVICES, "").splitlines()
        for config in configs
        if config.name.startswith(prefix)
    )
