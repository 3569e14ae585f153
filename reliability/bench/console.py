"""The console with a large fleet: how soon a card's change is at every viewer, and what the backend takes.

N nodes with 8 cards are on record as plain objects, each status written by the account that owns it, and the cards are
in a pool; nothing of ours runs but the backend, a process of its own as a person has it: `kubectl gpu console`. First
one viewer opens the page Fleet, then all of them at once. By an open loop one card after the other comes into another
pool, which its square shows. A latency counts from the moment at which that write is sent to the one at which the event
is at a viewer, so the API server's part is in it. Then nothing changes, and no viewer may receive a byte.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUDEVICE, NODE
from controllers.runtime.client import Client
from reliability.bench.console_backend import Backend, running_backend
from reliability.bench.console_rows import Found, rows, times
from reliability.bench.console_viewers import Expected, Viewer, looking, until_served
from reliability.bench.environment import MANAGER, Environment, running_environment
from reliability.bench.fleet import Member, fleet, writes
from reliability.bench.load import at_pace
from reliability.bench.quiet import Moment, others, wait_for_quiet
from reliability.bench.rows import Result, Sizes
from reliability.bench.track import put_on_record
from reliability.kit.progress import for_each, show_progress
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tools.programs import Progress

STEP_SECONDS = 30.0
"""Within which a change must be at every viewer."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as environment:
        return asyncio.run(_measure(environment, sizes, progress))


async def _measure(environment: Environment, sizes: Sizes, progress: Progress) -> Result:
    async with _pool_controller(environment) as gpupool:
        cards = await _on_record(environment, gpupool, fleet(sizes.console_nodes), progress)
        await wait_for_quiet(environment.plane.dir, sizes.patience)
        async with running_backend(environment) as backend:
            found = await _looked(backend, gpupool, cards, sizes, progress)
    raw = {"nodes": sizes.console_nodes, "viewers": sizes.console_viewers, **asdict(found)}
    return Result(rows(found, sizes), raw)


@asynccontextmanager
async def _pool_controller(environment: Environment) -> AsyncIterator[Client]:
    """A client under the account that owns which pool a card is in."""
    client = await Client.connect(environment.kubeconfig(names.POOL_CONTROLLER), user_agent=MANAGER)
    try:
        yield client
    finally:
        await client.close()


async def _on_record(environment: Environment, gpupool: Client, members: list[Member], progress: Progress) -> list[str]:
    """Make nodes with their cards, and bring these into a pool; returns the cards, neighbours on different nodes."""
    done = 0

    async def join(member: Member) -> None:
        nonlocal done
        await admin.create(NODE, member.node, manager=MANAGER)
        done += 1

    async def assign(card: str) -> None:
        nonlocal done
        await _move(gpupool, card, "bench")
        done += 1

    admin = await Client.connect(environment.plane.kubeconfig, user_agent=MANAGER)
    try:
        async with show_progress(progress, f"adding {len(members)} nodes", lambda: done, len(members)):
            await for_each(members, join)
    finally:
        await admin.close()
    await put_on_record(environment, members, progress)
    cards = _cards(members)
    done = 0
    async with show_progress(progress, "bringing the cards into a pool", lambda: done, len(cards)):
        await for_each(cards, assign)
    return cards


def _cards(members: list[Member]) -> list[str]:
    """Names of all cards, first the first of each node."""
    planned = [writes(member, time.time()) for member in members]
    by_node = [sorted({each.name for each in node if each.resource is GPUDEVICE}) for node in planned]
    return [card for same in zip(*by_node, strict=True) for card in same]


async def _move(gpupool: Client, card: str, pool: str) -> None:
    body = {"status": {"state": "Assigned", "poolRef": {"name": pool, "resource": names.resource_name(pool)}}}
    await gpupool.merge(GPUDEVICE, card, body, manager=names.MANAGER_POOL, subresource="status")


async def _looked(backend: Backend, gpupool: Client, cards: list[str], sizes: Sizes, progress: Progress) -> Found:
    """Open the page, change cards, and then leave them alone."""
    count, folder = sizes.console_viewers, backend.subject.folder
    async with show_progress(progress, "starting the console"):
        await until_served(backend.url, backend.token, STEP_SECONDS + len(cards) / 100)
    filled = time.time() - backend.subject.started
    filled_mb = backend.subject.peak_rss_mb()
    async with looking(backend.url, backend.token, 1, Expected(1)) as (alone,):
        first = alone.snapshot.result()
    await asyncio.sleep(sizes.settle)
    expected = Expected(count)
    async with AsyncExitStack() as stack:
        viewers = await stack.enter_async_context(looking(backend.url, backend.token, count, expected))

        async def change(number: int, _due: float) -> tuple[float, float, list[float]]:
            card, pool = cards[number], f"bench-{number}"
            seen = expected.expect(card, pool)
            sent = time.monotonic()
            await _move(gpupool, card, pool)
            answered = time.monotonic()
            return sent, answered, await _within(seen, card)

        await asyncio.sleep(sizes.settle)
        changes = min(sizes.console_changes, len(cards))
        before, cpu, moment = _received(viewers), backend.subject.cpu_seconds(), Moment.now(folder)
        async with show_progress(progress, f"{changes} cards change, {count} viewers look"):
            made = await at_pace(changes, sizes.console_changes_a_second, change)
        await asyncio.sleep(sizes.settle)
        received, cpu = _received(viewers) - before, backend.subject.cpu_seconds() - cpu
        disturbed = others(moment, Moment.now(folder))
        before, quiet_cpu = _received(viewers), backend.subject.cpu_seconds()
        async with show_progress(progress, "and then nothing: bytes while nothing changes"):
            await asyncio.sleep(sizes.console_quiet)
        backend.subject.check()
        return Found(
            filled=filled,
            first=first,
            snapshots=[viewer.snapshot.result() for viewer in viewers],
            again=sum(viewer.snapshots - 1 for viewer in viewers),
            snapshot_bytes=viewers[0].snapshot_bytes,
            sent=times(at - sent for sent, _, seen in made for at in seen),
            answered=times(at - answered for _, answered, seen in made for at in seen),
            floor=times(answered - sent for sent, answered, _ in made),
            bytes_a_change=received / changes / count,
            cpu_a_change=cpu / changes,
            quiet_bytes=_received(viewers) - before,
            quiet_cpu=(backend.subject.cpu_seconds() - quiet_cpu) / sizes.console_quiet,
            filled_mb=filled_mb,
            rss_mb=backend.subject.peak_rss_mb(),
            others=disturbed,
        )


def _received(viewers: list[Viewer]) -> int:
    return sum(viewer.received for viewer in viewers)


async def _within(seen: asyncio.Future[list[float]], card: str) -> list[float]:
    try:
        async with asyncio.timeout(STEP_SECONDS):
            return await seen
    except TimeoutError:
        raise UserError(f"not every viewer has seen the change of {card} within {STEP_SECONDS:.0f} s") from None
