"""From a changed NodeFeature to the GPUDevice: how long it takes, and what it costs.

N nodes are on record and the inventory runs. By an open loop, one node after the other, the
agent's report changes in one card's memory, which concerns that card and its node's summary, as
the agent does it: by an apply of all that it publishes. A latency counts from the moment at which
that request is sent to the moment at which a watch of the benchmark brings the card's new value.
The floor, which takes turns with it, is one apply of a GPUDevice's status by a raw client, seen by
the same watch at the same pace: a change is two such ways one after the other, and our own part.

Then reports change in what the inventory does not read, and it must not write. A last real change,
which the watch of NodeFeatures brings after them, tells that they have all been looked at.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY
from controllers.runtime.client import Client
from reliability.bench.change_rows import Floor, Found, Round, rows, undisturbed
from reliability.bench.change_series import STALL, Series
from reliability.bench.environment import MANAGER, Environment, running_environment
from reliability.bench.fleet import fleet
from reliability.bench.floor import RawClient
from reliability.bench.quiet import wait_for_quiet
from reliability.bench.reports import UNREAD, Reports
from reliability.bench.rows import Result, Sizes
from reliability.bench.track import Track, put_on_record
from reliability.bench.watch import following
from reliability.kit.progress import show_progress

if TYPE_CHECKING:
    from tools.programs import Progress

WARM_UP = 8
"""Changes that do not count: the API server compiles policies with them, and connections are made."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as environment:
        return asyncio.run(_measure(environment, sizes, progress))


async def _measure(environment: Environment, sizes: Sizes, progress: Progress) -> Result:
    members = fleet(sizes.nodes)
    async with AsyncExitStack() as stack:
        client = await Client.connect(environment.plane.kubeconfig, user_agent=MANAGER)
        stack.push_async_callback(client.close)
        track = Track(environment, client, environment.kubeconfig(names.INVENTORY), sizes, progress)
        await track.join(members)
        await put_on_record(environment, members, progress)
        async with show_progress(progress, f"starting the inventory, {sizes.nodes} nodes on record"):
            subject = await stack.enter_async_context(track.inventory(wait=True))
        raw = RawClient(environment.kubeconfig(names.BOOTSTRAP), names.MANAGER_BOOTSTRAP)
        series = Series(
            subject=subject,
            reports=Reports(client, members),
            raw=await stack.enter_async_context(raw),
            cards=await stack.enter_async_context(following(client, GPUDEVICE)),
            summaries=await stack.enter_async_context(following(client, GPUNODEINVENTORY)),
            sizes=sizes,
        )
        found = await _all(series, progress)
    raw_figures = {"nodes": sizes.nodes, "a_second": sizes.changes_a_second, "touched": UNREAD, **asdict(found)}
    return Result(rows(found, sizes.nodes, sizes.changes_a_second), raw_figures)


async def _all(series: Series, progress: Progress) -> Found:
    """Every series, and at last the changes that nobody reads."""
    sizes, rate = series.sizes, f"{series.sizes.changes_a_second:g} a second"
    rounds: list[Round] = []
    floors: list[Floor] = []
    async with show_progress(progress, "warming up"):
        await series.floor(WARM_UP)
        await series.changes(WARM_UP)
    while len(rounds) < sizes.rounds or (
        len(undisturbed(rounds)) < sizes.rounds and len(rounds) < sizes.tries * sizes.rounds
    ):
        await wait_for_quiet(series.subject.folder, sizes.patience)
        async with show_progress(progress, f"the floor: a raw client changes GPUDevices, {rate}"):
            floors.append(await series.floor(series.count))
        async with show_progress(progress, f"agents change their reports, {rate}"):
            rounds.append(await series.changes(series.count))
    async with show_progress(progress, "reports change in what is not read"):
        unread = await series.unread()
    await series.subject.metrics()
    reading = (await series.subject.metrics())[STALL]
    return Found(rounds, floors, unread, reading, series.subject.peak_rss_mb())
