"""What the webhook costs those who create pods: two replicas behind the balancer, on a pool of 1,000 free cards.

First pods with and without a card in turn, one at a time: what a card adds to a creation. Then series of both, several
creations at once: how many a second. Then as many pods as there are cards, all at once. The pods without a card ask
for a resource that no webhook hears of and are the same else, so the API server's own part is in both.

No scheduler and no controller runs here. Where the pool controller runs it marks a pod as seen as soon as it appears,
and a reservation whose pod has not been seen ends after 15 s. Nobody does so here, so reservations live longer by
setting, and what is judged is that each is younger than 15 s when its pod has been created.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.clock import seconds
from reliability.bench import stats
from reliability.bench.creators import CARD, PLAIN, TEAMS, Creation
from reliability.bench.environment import Environment, running_environment
from reliability.bench.fleet import CARDS
from reliability.bench.gpu_pool import cards
from reliability.bench.quiet import Moment, others, wait_for_quiet
from reliability.bench.replicas import WebhookReplicas, webhook_replicas
from reliability.bench.rows import Result, Row, Sizes
from reliability.kit.process import cpu_seconds
from reliability.kit.progress import show_progress
from sim import controlplane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.gpudevice import GPUDevice
    from tools.programs import Progress

PAIRS_A_BATCH = 25
UNSEEN_SECONDS = 15.0
LONG = "10m"
"""A reservation's life here."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Seconds that two creations took, one right after the other."""

    plain: float
    card: float


@dataclass(frozen=True, slots=True)
class Series:
    """Creations a second, of both kinds, one series right after the other."""

    plain: float
    card: float
    cpu: dict[str, tuple[float, float]]
    """CPU seconds for one pod without and one with a card, by process."""
    others: float
    """Cores that others took meanwhile."""


@dataclass(frozen=True, slots=True)
class Burst:
    """All at once; times in seconds."""

    pods: int
    admitted: int
    wall: float
    took: stats.Summary
    tries: int
    twice: int
    """Cards with two promises at one time."""
    expired: int
    """Reservations that would have run out before their pod was created."""
    refusal: str
    """The first one's message."""
    conflicts: float
    writes: stats.Summary
    """Of each process: reservations written."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as made:
        return asyncio.run(_measure(made, sizes, progress))


async def _measure(made: Environment, sizes: Sizes, progress: Progress) -> Result:
    nodes = -(-sizes.burst_pods // CARDS)
    async with webhook_replicas(made, nodes, {"unseenTTL": LONG}, progress) as replicas:
        pairs = await _pairs(replicas, sizes, progress)
        series = await _series(replicas, sizes, progress)
        burst = await _burst(replicas, sizes, progress)
    raw = {
        "cards": nodes * CARDS,
        "pairs": list(map(asdict, pairs)),
        "series": list(map(asdict, series)),
        "burst": asdict(burst),
    }
    return Result(_rows(sizes, pairs, series, burst), raw)


async def _pairs(replicas: WebhookReplicas, sizes: Sizes, progress: Progress) -> list[Pair]:
    pairs: list[Pair] = []
    async with show_progress(
        progress, "a pod with a card and one without, in turn", lambda: len(pairs), sizes.creation_pairs
    ):
        while len(pairs) < sizes.creation_pairs:
            for _ in range(min(PAIRS_A_BATCH, sizes.creation_pairs - len(pairs))):
                (plain,) = await replicas.creators.several(1, PLAIN, 1)
                (card,) = await replicas.creators.several(1, CARD, 1)
                pairs.append(Pair(plain.seconds, card.seconds))
            await replicas.clear()
    return pairs


async def _series(replicas: WebhookReplicas, sizes: Sizes, progress: Progress) -> list[Series]:
    found: list[Series] = []
    folder = replicas.environment.plane.dir

    async def one(resource: str) -> tuple[float, dict[str, float]]:
        began, before = time.perf_counter(), _cpu(folder)
        await replicas.creators.several(sizes.series_pods, resource, sizes.creators)
        took = time.perf_counter() - began
        return sizes.series_pods / took, {name: cpu - before[name] for name, cpu in _cpu(folder).items()}

    async with show_progress(
        progress, "series of pods with and without cards", lambda: len(found), sizes.series_rounds
    ):
        for _ in range(sizes.series_rounds):
            await wait_for_quiet(folder, sizes.patience)
            moment = Moment.now(folder)
            plain, plain_cpu = await one(PLAIN)
            card, card_cpu = await one(CARD)
            cpu = {name: (plain_cpu[name] / sizes.series_pods, card_cpu[name] / sizes.series_pods) for name in card_cpu}
            found.append(Series(plain, card, cpu, others(moment, Moment.now(folder))))
            await replicas.clear()
    return found


def _cpu(folder: Path) -> dict[str, float]:
    """CPU seconds so far of everybody who takes part, the benchmark itself as `creators`."""
    processes = controlplane.status(folder).processes
    found = {name: cpu_seconds(process.pid) for name, process in processes.items() if process.pid}
    return found | {"creators": time.process_time()}


async def _burst(replicas: WebhookReplicas, sizes: Sizes, progress: Progress) -> Burst:
    count = sizes.burst_pods
    async with show_progress(progress, f"opening {count} connections"):
        await replicas.creators.open(count)
    conflicts = sum(await replicas.sum("gpu_webhook_conflicts_total"))
    began = time.perf_counter()
    async with show_progress(progress, f"{count} pods at once"):
        creations = await asyncio.gather(
            *(replicas.creators.create(TEAMS[number % len(TEAMS)], CARD) for number in range(count))
        )
    wall = time.perf_counter() - began
    return _judged(
        creations,
        wall,
        await cards(replicas.admin),
        sum(await replicas.sum("gpu_webhook_conflicts_total")) - conflicts,
        await replicas.sum("gpu_webhook_reservations_total"),
    )


def _judged(
    creations: Sequence[Creation], wall: float, found: list[GPUDevice], conflicts: float, written: list[float]
) -> Burst:
    """Hold the pods against the cards."""
    made = [creation for creation in creations if creation.pod]
    since = {entry.request_id: seconds(entry.since) for card in found for entry in card.status.reservations}
    promised = Counter(_mark(creation, names.DEVICES) for creation in made)
    several = sum(len(card.status.reservations) > 1 for card in found)
    return Burst(
        pods=len(creations),
        admitted=len(made),
        wall=wall,
        took=stats.summary([creation.seconds for creation in creations]),
        tries=sum(creation.tries for creation in creations),
        twice=max(several, sum(times > 1 for times in promised.values())),
        expired=sum(one.answered - since.get(_mark(one, names.REQUEST_ID), 0.0) > UNSEEN_SECONDS for one in made),
        refusal=next((creation.refusal for creation in creations if not creation.pod), ""),
        conflicts=conflicts,
        writes=stats.summary(written),
    )


def _mark(creation: Creation, key: str) -> str:
    annotations: dict[str, Any] = creation.pod["metadata"].get("annotations") or {}
    return str(annotations.get(key, ""))


def _rows(sizes: Sizes, pairs: list[Pair], series: list[Series], burst: Burst) -> tuple[Row, ...]:
    added = 1000 * median(pair.card - pair.plain for pair in pairs)
    ratio = median(one.card / one.plain for one in series)
    note = f"{sizes.creators} at once; others took {max(one.others for one in series):.2f} cores"
    whole = sizes.burst_pods % CARDS == 0
    return (
        Row(
            "a card adds to a pod's creation: median of pairs", added, "ms", 1, at_most=25.0, note=f"{len(pairs)} pairs"
        ),
        Row("  creation without a card p50", 1000 * median(pair.plain for pair in pairs), "ms", 1),
        Row("  creation with a card p50", 1000 * median(pair.card for pair in pairs), "ms", 1),
        Row("pods/s with reservation ÷ pods/s without the webhook", ratio, at_least=0.5, note=note),
        *(
            Row(
                f"  CPU for one pod with a card: {name}",
                1000 * median(one.cpu[name][1] for one in series),
                "ms",
                note=f"without: {1000 * median(one.cpu[name][0] for one in series):.2f} ms",
            )
            for name in series[0].cpu
        ),
        Row("  pods/s without the webhook", median(one.plain for one in series), digits=0),
        Row("  pods/s with reservation", median(one.card for one in series), digits=0),
        Row(
            f"{burst.pods} pods at once for {burst.pods} free cards, two replicas: admitted",
            burst.admitted,
            digits=0,
            exactly=burst.pods,
            judged=whole,
        ),
        Row("  cards promised twice", burst.twice, digits=0, exactly=0.0),
        Row("  reservations too old when their pod was created", burst.expired, digits=0, exactly=0.0),
        Row("  all created after", burst.wall, "s", 1),
        Row("  p50 of a creation", burst.took.p50, "s", 1),
        Row("  creations that were told to come again", burst.tries - burst.pods, digits=0),
        Row("  conflicts", burst.conflicts, digits=0),
    )
