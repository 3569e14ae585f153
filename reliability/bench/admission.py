"""The webhook under load: reviews sent straight to it, at a fixed rate, by an open loop.

The pool is real in the API (`reliability.bench.gpu_pool`): 125 nodes with 8 published cards. Dry runs, which are
decisions without their write, take turns with the same load on a server that decides nothing
(`reliability.bench.echo`); then come reviews that reserve, until the pool is nearly full.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import aiohttp
import orjson

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK
from controllers.runtime.client import Client
from reliability.bench import echo, stats
from reliability.bench.environment import MANAGER, Environment, running_environment
from reliability.bench.fleet import CARDS, fleet
from reliability.bench.gpu_pool import POOL, fill
from reliability.bench.load import Answer, open_loop
from reliability.bench.quiet import LIMIT, Moment, others, wait_for_quiet
from reliability.bench.reviews import review
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.kit.process import total
from reliability.kit.progress import show_progress
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.module.processes import Timers, module_process
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.programs import Progress

NAMESPACES = 100
"""Reviews that reserve come from so many: one alone would meet the cap on unseen reservations."""
CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Round:
    """One series of reviews; times in seconds."""

    latency: stats.Summary
    late: stats.Summary
    granted: int
    cpu_a_review: float
    refusal: str
    """The first refusal's message."""
    others: float
    """Cores that others took meanwhile."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as environment:
        return asyncio.run(_measure(environment, sizes, progress))


async def _measure(environment: Environment, sizes: Sizes, progress: Progress) -> Result:
    members = fleet(sizes.pool_nodes)
    admin = await Client.connect(environment.plane.kubeconfig, user_agent=MANAGER)
    subjects: list[Subject] = []
    try:
        await fill(environment, admin, members, progress)
        async with show_progress(progress, "starting the webhook, and a server that decides nothing"):
            subjects.append(await asyncio.to_thread(_webhook, environment))
            subjects.append(await asyncio.to_thread(_echo, environment))
            trust = await _trust(admin)
        webhook, floor = subjects
        async with (
            _session(trust) as to_webhook,
            _session(ssl.create_default_context(cafile=environment.plane.ca)) as to_floor,
        ):
            url = f"https://127.0.0.1:{environment.webhook_port}/mutate-pods"
            return await _load(
                Target(webhook, to_webhook, url, sizes.reviews_a_second),
                Target(floor, to_floor, f"https://127.0.0.1:{floor.port}/", sizes.reviews_a_second),
                sizes,
                progress,
            )
    finally:
        for subject in subjects:
            await asyncio.to_thread(subject.stop)
        await admin.close()


def _session(tls: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS))


@dataclass(frozen=True, slots=True)
class Target:
    """A server that is sent reviews."""

    subject: Subject
    session: aiohttp.ClientSession
    url: str
    a_second: int

    async def series(self, seconds: float, *, dry_run: bool) -> Round:
        """Send reviews for so long."""
        bodies = [
            review(number, f"team-{number % NAMESPACES}", POOL, dry_run=dry_run)
            for number in range(max(1, round(seconds * self.a_second)))
        ]
        cpu, moment = self.subject.cpu_seconds(), Moment.now(self.subject.folder)
        answers = await open_loop(self.session, self.url, bodies, self.a_second)
        took = (self.subject.cpu_seconds() - cpu) / len(bodies)
        return _round(answers, took, others(moment, Moment.now(self.subject.folder)))


async def _load(webhook: Target, floor: Target, sizes: Sizes, progress: Progress) -> Result:
    rate, rounds = sizes.reviews_a_second, sizes.review_rounds
    decided: list[Round] = []
    floors: list[Round] = []
    for target in (floor, webhook):
        await target.series(sizes.warm_up, dry_run=True)
    at_start = (await webhook.subject.metrics())["gpu_event_loop_stall_seconds"]
    while len(decided) < rounds or (len(undisturbed(decided)) < rounds and len(decided) < sizes.tries * rounds):
        await wait_for_quiet(webhook.subject.folder, sizes.patience)
        async with show_progress(progress, f"{rate} reviews a second to a server that decides nothing"):
            floors.append(await floor.series(sizes.review_seconds, dry_run=True))
        async with show_progress(progress, f"{rate} reviews a second to the webhook, decisions only"):
            decided.append(await webhook.series(sizes.review_seconds, dry_run=True))
    stall = (await webhook.subject.metrics())["gpu_event_loop_stall_seconds"]
    async with show_progress(progress, f"{rate} reviews a second to the webhook, with reservations"):
        written = await webhook.series(sizes.writing_seconds, dry_run=False)
    metrics, rss = await webhook.subject.metrics(), webhook.subject.peak_rss_mb()
    if refused := sum(one.latency.count - one.granted for one in decided):
        why = next(one.refusal for one in decided if one.refusal)
        raise UserError(f"{refused} reviews of a pool with free cards were not granted, the first with: {why}")
    raw = {
        "pool": {"nodes": sizes.pool_nodes, "cards": sizes.pool_nodes * CARDS},
        "reviews_a_second": rate,
        "review_bytes": len(review(0, "team-0", POOL, dry_run=True)),
        "decided": [asdict(one) for one in decided],
        "floors": [asdict(one) for one in floors],
        "written": asdict(written),
        "conflicts": total(metrics, "gpu_webhook_conflicts_total"),
        "stall": {"start": at_start, "load": stall},
        "peak_rss_mb": rss,
    }
    return Result(_rows(sizes, decided, floors, written, (rss, stall)), raw)


def undisturbed(rounds: list[Round]) -> list[Round]:
    """Those that had the machine for themselves."""
    return [one for one in rounds if one.others <= LIMIT]


def _round(answers: Sequence[Answer], cpu_a_review: float, disturbed: float) -> Round:
    """Reduce the answers."""
    responses = [orjson.loads(answer.body)["response"] if answer.body else {} for answer in answers]
    granted = [bool(response.get("allowed") and response.get("patch")) for response in responses]
    refusals = [
        str(response.get("status") or "no answer") for response, ok in zip(responses, granted, strict=True) if not ok
    ]
    return Round(
        latency=stats.summary([answer.latency for answer in answers]),
        late=stats.summary([answer.late for answer in answers]),
        granted=sum(granted),
        cpu_a_review=cpu_a_review,
        refusal=next(iter(refusals), ""),
        others=disturbed,
    )


def _rows(
    sizes: Sizes, decided: list[Round], floors: list[Round], written: Round, process: tuple[float, float]
) -> tuple[Row, ...]:
    rss, stall = process
    title = f"webhook, {sizes.reviews_a_second} reviews/s, {sizes.pool_nodes * CARDS} cards"
    share = f"{written.granted} of {written.latency.count} granted"

    alone = undisturbed(decided)
    note = "" if len(alone) == len(decided) else f"{len(alone)} of {len(decided)} rounds undisturbed"

    def p99(rounds: list[Round]) -> float:
        return 1000 * median(one.latency.p99 for one in undisturbed(rounds) or rounds)

    def p50(rounds: list[Round]) -> float:
        return 1000 * median(one.latency.p50 for one in undisturbed(rounds) or rounds)

    return (
        Row(f"{title}: decision p99", p99(decided), "ms", 1, at_most=10.0, judged=bool(alone), note=note),
        Row("  p99 of a server that decides nothing", p99(floors), "ms", 1),
        Row("  decision p50", p50(decided), "ms", 1),
        Row("  p50 of a server that decides nothing", p50(floors), "ms", 1),
        Row("  CPU for one decision", 1000 * median(one.cpu_a_review for one in decided), "ms"),
        Row("  CPU of a server that decides nothing", 1000 * median(one.cpu_a_review for one in floors), "ms"),
        Row("  longest stall of the event loop", 1000 * stall, "ms", 0, at_most=50.0),
        Row("  peak RSS", rss, "MB", 0),
        Row("  decision and reservation p50", 1000 * written.latency.p50, "ms", 1, note=share),
        Row("  decision and reservation p99", 1000 * written.latency.p99, "ms", 1, note=share),
    )


def _webhook(environment: Environment) -> Subject:
    """Start the webhook and wait until it is ready. Blocks."""
    (health,) = free_ports(1)
    flags = ("--host=127.0.0.1", f"--port={environment.webhook_port}")
    spec = module_process(names.WEBHOOK, environment.kubeconfig(names.WEBHOOK), health, Timers(), *flags)
    return Subject.start(environment.plane.dir, spec, wait=True)


def _echo(environment: Environment) -> Subject:
    """Start the server that decides nothing. Blocks."""
    (port,) = free_ports(1)
    return Subject.start(environment.plane.dir, echo.spec(Layout.of(environment.plane.dir), port), wait=True)


async def _trust(admin: Client) -> ssl.SSLContext:
    """TLS that trusts what the API server was told to trust."""
    found = orjson.loads(await admin.get(MUTATING_WEBHOOK, names.WEBHOOK_CONFIGURATION))
    bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]).decode()
    return ssl.create_default_context(cadata=bundle)
