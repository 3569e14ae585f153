"""From an annotation on a card to its pool's allowed list, and what many at once cost.

1,000 nodes with 8 cards are ready and in no pool; 100 pools mean 10 nodes each. The pool
controller runs alone, as in a cluster whose nodes have no plugins yet. By an open loop, cards
of one node after the other are annotated; a latency counts from the sending of that request to
the moment at which a watch of the benchmark brings the pool's ConfigMap with the card in it.
The floor is one apply of such a ConfigMap by a raw client, seen by the same watch: on the way
from the annotation to the list there are two writes after the annotation, and a read.

Then 1,000 cards are annotated as fast as the API server takes it, and the writes are counted;
a pool that takes half of the cards by itself is made, and what one more look at it costs.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CONFIGMAP, GPUDEVICE, GPUNODEINVENTORY, GPUPOOL
from controllers.runtime.client import Client
from reliability.bench import stats
from reliability.bench.environment import MANAGER, Environment, running_environment
from reliability.bench.fleet import CARDS, Member, fleet, writes
from reliability.bench.floor import RawClient
from reliability.bench.load import at_pace
from reliability.bench.pools_environment import GROUP_LABEL, grouped, make_pools, make_ready, pool_name
from reliability.bench.quiet import LIMIT, Moment, others, wait_for_quiet
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import START_SECONDS, Subject, running
from reliability.bench.track import WRITES, Track, put_on_record
from reliability.bench.watch import ObjectWatch, Shown, following
from reliability.kit.actors import configure
from reliability.kit.process import total
from reliability.kit.progress import for_each, show_progress
from tools.errors import UserError

if TYPE_CHECKING:
    from tools.programs import Progress

STALL = "gpu_event_loop_stall_seconds"
LOOKED = 'gpu_reconciles_total{controller="nodes",result="ok"}'
STEP_SECONDS = 30.0
REST_SECONDS = 2.0
"""Without a write it counts as resting."""
GATHERED_SECONDS = 2.5
"""After so long, what nodes and pools say of a change has been written."""
WARM_UP = 8
LOOKS = 10
FLOOR_OBJECT = "bench-floor"


@dataclass(frozen=True, slots=True)
class Series:
    """Annotations one after the other; times in seconds."""

    latency: stats.Summary
    floor: stats.Summary
    stall: float
    cpu_an_annotation: float
    others: float


@dataclass(frozen=True, slots=True)
class Burst:
    """Many cards at once."""

    cards: int
    seconds: float
    """From the first annotation to the last card in a list."""
    writes: dict[str, float]
    nodes: int
    pools: int
    stall: float


@dataclass(frozen=True, slots=True)
class Large:
    """One pool of many cards; times in seconds."""

    cards: int
    filled: float
    """From its creation to the last card in its lists."""
    writes: dict[str, float]
    stall: float
    cpu_a_look: float
    looking_stall: float


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as environment:
        return asyncio.run(_measure(environment, sizes, progress))


async def _measure(environment: Environment, sizes: Sizes, progress: Progress) -> Result:
    members = grouped(fleet(sizes.pooled_nodes), sizes.pools)
    async with AsyncExitStack() as stack:
        client = await Client.connect(environment.plane.kubeconfig, user_agent=MANAGER)
        stack.push_async_callback(client.close)
        await Track(environment, client, environment.kubeconfig(names.INVENTORY), sizes, progress).join(members)
        await put_on_record(environment, members, progress)
        await make_ready(environment, members, progress)
        await make_pools(client, sizes.pools)
        await configure(client, {"pools": {"pluginPatience": f"{sizes.plugin_patience:g}s"}}, manager=MANAGER)
        await wait_for_quiet(environment.plane.dir, sizes.patience)
        async with show_progress(progress, f"starting the pool controller, {len(members) * CARDS} free cards"):
            account = environment.kubeconfig(names.POOL_CONTROLLER)
            process = running(environment.plane.dir, names.POOL_CONTROLLER, account, wait=True)
            subject = await stack.enter_async_context(process)
            rested = await _rested(subject, len(members))
        started = {"rested": rested - subject.started, "cpu": subject.cpu_seconds(), **_kinds(await subject.metrics())}
        at_work = _AtWork(
            subject=subject,
            client=client,
            raw=await stack.enter_async_context(RawClient(environment.kubeconfig(names.POOL_CONTROLLER), MANAGER)),
            lists=await stack.enter_async_context(following(client, CONFIGMAP)),
            pools=await stack.enter_async_context(following(client, GPUPOOL)),
            members=members,
            sizes=sizes,
        )
        await at_work.series(WARM_UP, card=0)
        await wait_for_quiet(environment.plane.dir, sizes.patience)
        async with show_progress(progress, f"annotations, {sizes.annotations_a_second:g} a second"):
            series = await at_work.series(sizes.annotations, card=1)
        async with show_progress(progress, "many annotations at once"):
            burst = await at_work.burst()
        async with show_progress(progress, "one pool takes half of the cards by itself"):
            large = await at_work.large()
        quiet_writes = await at_work.quiet()
        rss = subject.peak_rss_mb()
    found = {"started": started, "series": asdict(series), "burst": asdict(burst), "large": asdict(large)}
    end = {"quiet_writes": quiet_writes, "rss_mb": rss}
    return Result(_rows(sizes, series, burst, large, started | end), found | end)


async def _rested(subject: Subject, nodes: int) -> float:
    """Wait until it has looked at every node and writes no more; when that was, in seconds since the epoch.

    On a machine that others use it may take no CPU for a while because it waits for the API server.
    """
    limit, written = time.monotonic() + START_SECONDS + nodes / 2, -1.0
    while time.monotonic() < limit:
        at = await subject.until_idle(START_SECONDS + nodes / 2)
        metrics = await subject.metrics()
        if metrics.get(LOOKED, 0.0) >= nodes and total(metrics, WRITES) == written:
            return at
        written = total(metrics, WRITES)
        await asyncio.sleep(REST_SECONDS)
    raise UserError(f"{subject.name} still writes after {START_SECONDS + nodes / 2:.0f} s")


@dataclass
class _AtWork:
    """The controller at work, and who annotates cards and watches lists."""

    subject: Subject
    client: Client
    raw: RawClient
    lists: ObjectWatch
    pools: ObjectWatch
    members: list[Member]
    sizes: Sizes

    def __post_init__(self) -> None:
        self._cards = [
            [w.name for w in writes(m, 0.0) if w.resource is GPUDEVICE and not w.status] for m in self.members
        ]

    async def series(self, count: int, *, card: int) -> Series:
        """Annotate a card of each of so many nodes, at the pace, between two halves of the floor."""
        count = min(count, len(self.members))
        floor = await at_pace(max(1, count // 2), self.sizes.annotations_a_second, self._floor)
        await self.subject.metrics()
        cpu, moment = self.subject.cpu_seconds(), Moment.now(self.subject.folder)

        async def one(number: int, _due: float) -> float:
            seen = self._listed(number, card)
            sent = time.monotonic()
            await self._annotate(number, card)
            return await _within(seen) - sent

        took = await at_pace(count, self.sizes.annotations_a_second, one)
        cpu = self.subject.cpu_seconds() - cpu
        disturbed = others(moment, Moment.now(self.subject.folder))
        stall = (await self.subject.metrics())[STALL]
        floor += await at_pace(max(1, count // 2), self.sizes.annotations_a_second, self._floor)
        return Series(stats.summary(took), stats.summary(floor), stall, cpu / count, disturbed)

    async def burst(self) -> Burst:
        """Annotate many cards of the first half of the pools as fast as it goes."""
        half = self._half()
        chosen = [(n, c) for n in range(len(self.members)) if n % self.sizes.pools < half for c in range(2, CARDS)]
        chosen = chosen[: self.sizes.burst_cards]
        await asyncio.sleep(self.sizes.plugin_patience)  # then the cards before have said that nothing offers them
        await _rested(self.subject, 0)
        before = await self.subject.metrics()
        seen = [self._listed(number, card) for number, card in chosen]
        began = time.monotonic()
        await for_each(chosen, lambda one: self._annotate(*one))
        last = max([await _within(future) for future in seen])
        # Nodes and pools gather what changes before they write. The plugins' part does not belong to it: none runs
        # here, and after pools.pluginPatience each card says so.
        await asyncio.sleep(GATHERED_SECONDS)
        after = await self.subject.metrics()
        nodes, pools = {n for n, _ in chosen}, {n % self.sizes.pools for n, _ in chosen}
        return Burst(len(chosen), last - began, _since(before, after), len(nodes), len(pools), after[STALL])

    async def large(self) -> Large:
        """Make an automatic pool of the other half of the nodes, fill it, and look at it again and again."""
        half, name = self._half(), "bench-large"
        values = [pool_name(number) for number in range(half, self.sizes.pools)]
        nodes = sum(n % self.sizes.pools >= half for n in range(len(self.members)))
        taken = sum(n % self.sizes.pools >= half for n in range(self._annotated())) + self._warmed(half)
        cards = nodes * CARDS - taken
        selector = {"matchExpressions": [{"key": GROUP_LABEL, "operator": "In", "values": values}]}
        spec = {"nodeSelector": selector, "deviceAssignment": {"requireAnnotation": False}}
        await asyncio.sleep(self.sizes.plugin_patience)  # what the cards of the burst say of it is not this one's
        await _rested(self.subject, 0)
        before = await self.subject.metrics()
        full = self.pools.expect(name, lambda pool: _total(pool) >= cards)
        kind = {"apiVersion": GPUPOOL.api_version, "kind": GPUPOOL.kind}
        began = time.monotonic()
        await self.client.create(GPUPOOL, {**kind, "metadata": {"name": name}, "spec": spec}, manager=MANAGER)
        filled = await _within(full, STEP_SECONDS + cards / 20) - began
        await asyncio.sleep(self.sizes.plugin_patience)
        await _rested(self.subject, cards)
        after = await self.subject.metrics()
        cpu = self.subject.cpu_seconds()
        for look in range(LOOKS):
            mark = {"metadata": {"annotations": {"bench/look": str(look)}}}
            await self.client.merge(GPUPOOL, name, mark, manager=MANAGER)
            await self.subject.until_idle(START_SECONDS)
        cpu = (self.subject.cpu_seconds() - cpu) / LOOKS
        looking = (await self.subject.metrics())[STALL]
        return Large(cards, filled, _since(before, after), after[STALL], cpu, looking)

    async def quiet(self) -> float:
        """Writes while nothing changes."""
        before = await self.subject.metrics()
        await asyncio.sleep(self.sizes.quiet)
        return total(await self.subject.metrics(), WRITES) - total(before, WRITES)

    def _half(self) -> int:
        return max(1, self.sizes.pools // 2)

    def _annotated(self) -> int:
        return min(len(self.members), self.sizes.annotations)

    def _warmed(self, half: int) -> int:
        return sum(n % self.sizes.pools >= half for n in range(min(WARM_UP, len(self.members))))

    def _listed(self, number: int, card: int) -> asyncio.Future[float]:
        """When the card's pool will list it."""
        pool = names.plugin_object(pool_name(number % self.sizes.pools))
        name = self._cards[number][card]
        node = self.members[number].name
        address = name.removeprefix(f"{node}-")
        domain, bus, slot, function = address.rsplit("-", 3)
        listed = f"{node}-{domain}:{bus}:{slot}.{function}"
        return self.lists.expect(pool, lambda config: listed in config.data.get(names.ALLOWED_DEVICES, "").split())

    async def _annotate(self, number: int, card: int) -> None:
        body = {"metadata": {"annotations": {names.ASSIGNMENT: pool_name(number % self.sizes.pools)}}}
        await self.client.merge(GPUDEVICE, self._cards[number][card], body, manager=MANAGER)

    async def _floor(self, number: int, _due: float) -> float:
        name, text = f"{FLOOR_OBJECT}-{number}", str(time.monotonic_ns())
        seen = self.lists.expect(name, lambda config: config.data["at"] == text)
        meta = {"name": name, "namespace": names.NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"at": text}}
        sent = time.monotonic()
        await self.raw.apply(CONFIGMAP.path(names.NAMESPACE, name), body)
        return await _within(seen) - sent


def _total(pool: Shown) -> int:
    return int(pool.status.get("capacity", {}).get("total", 0))


def _kinds(metrics: dict[str, float]) -> dict[str, float]:
    """Writes by kind."""
    kinds = (GPUDEVICE.kind, GPUNODEINVENTORY.kind, GPUPOOL.kind, CONFIGMAP.kind)
    found = {kind: sum(v for k, v in metrics.items() if k.startswith(f'{WRITES}{{kind="{kind}"')) for kind in kinds}
    return found | {"all": total(metrics, WRITES)}


def _since(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    then = _kinds(before)
    return {kind: count - then[kind] for kind, count in _kinds(after).items()}


async def _within(seen: asyncio.Future[float], seconds: float = STEP_SECONDS) -> float:
    try:
        async with asyncio.timeout(seconds):
            return await seen
    except TimeoutError:
        raise UserError(f"what was waited for was not seen within {seconds:.0f} s") from None


def _rows(sizes: Sizes, series: Series, burst: Burst, large: Large, process: dict[str, float]) -> tuple[Row, ...]:
    cards = sizes.pooled_nodes * CARDS
    alone = series.others <= LIMIT
    note = "" if alone else f"others took {series.others:.2f} cores"
    whole = cards >= 8000 and sizes.pools >= 100
    for_one = f"{burst.nodes} nodes, {burst.pools} pools"
    return (
        Row(
            f"pools: annotation → allowed list, {cards} cards in {sizes.pools} pools: p99",
            1000 * series.latency.p99,
            "ms",
            1,
            at_most=250.0,
            judged=whole and alone,
            note=note,
        ),
        Row("  p50", 1000 * series.latency.p50, "ms", 1),
        Row("  one write of a raw client, seen by the same watch: p50", 1000 * series.floor.p50, "ms", 1),
        Row("  the same: p99", 1000 * series.floor.p99, "ms", 1),
        Row("  CPU for one annotation", 1000 * series.cpu_an_annotation, "ms"),
        Row("  longest stall of the event loop", 1000 * series.stall, "ms", 0, at_most=50.0),
        Row(f"  {burst.cards} cards at once: seconds to the last list", burst.seconds, "s", note=for_one),
        Row("  writes of GPUDevices for one card", burst.writes[GPUDEVICE.kind] / burst.cards, at_most=1.0),
        Row("  writes of GPUNodeInventories for one", burst.writes[GPUNODEINVENTORY.kind] / burst.nodes, at_most=1.0),
        Row("  writes of GPUPools for one", burst.writes[GPUPOOL.kind] / burst.pools, note="at most one a second"),
        Row("  longest stall meanwhile", 1000 * burst.stall, "ms", 0, at_most=50.0),
        Row(f"  one pool takes {large.cards} cards by itself", large.filled, "s", 1),
        Row("  writes of GPUDevices for one card", large.writes[GPUDEVICE.kind] / large.cards, note="no plugin runs"),
        Row("  longest stall meanwhile", 1000 * large.stall, "ms", 0, at_most=50.0),
        Row(
            "  CPU for one look at that pool",
            1000 * large.cpu_a_look,
            "ms",
            0,
            at_most=300.0,
            judged=whole,
            note="its status included",
        ),
        Row("  longest stall meanwhile", 1000 * large.looking_stall, "ms", 0, at_most=50.0),
        Row(f"  writes in {sizes.quiet:.0f} s without a change", process["quiet_writes"], "", 0, exactly=0.0),
        Row("  start, nothing assigned: at rest after", process["rested"], "s", 1),
        Row("  CPU of the start", process["cpu"], "s", 1),
        Row("  peak RSS", process["rss_mb"], "MB", 0, at_most=150.0),
    )
