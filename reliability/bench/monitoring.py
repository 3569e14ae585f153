"""gpu-bootstrap-controller with every node's exporter scraped: what a quiet fleet costs, and how soon a node is ready.

N nodes are on record, with the pods of their components as plain objects that nobody runs. The benchmark serves
the exporters' texts over HTTP from its own process. When all nodes are ready for pooling, the process is looked at
for a while: its CPU, its memory, its writes. Then, on nodes that were kept back, the last component becomes ready,
one node after the other: the validator alone, and exporter and validator together, where three fresh scrapes are
waited for besides. It counts from the moment at which that is written to the one at which a watch shows the node
ready.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import GPUNODEINVENTORY, NODE, POD, Resource
from controllers.bootstrap.preparation.phases import PHASES
from controllers.runtime.client import Client
from reliability.bench.environment import MANAGER, Environment, running_environment
from reliability.bench.fleet import CARDS, SHAPE, Member, fleet
from reliability.bench.quiet import Moment, others, wait_for_quiet
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.stats import percentile
from reliability.bench.subject import START_SECONDS, Subject, running
from reliability.bench.track import WRITES, Track, put_on_record
from reliability.bench.watch import ObjectWatch, Shown, following
from reliability.kit.actors import create_namespace
from reliability.kit.process import total
from reliability.kit.progress import for_each, show_progress
from sim.controlplane.ports import free_ports
from sim.hardware import load
from sim.nodes import dcgm
from sim.nodes import names as sim_names
from sim.nodes.machine import machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tools.programs import Progress

ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
STALL, SCRAPES = "gpu_event_loop_stall_seconds", 'gpu_scrapes_total{result="ok"}'
PERIOD = 15.0
"""Seconds between two scrapes of a node, by default."""
VALIDATOR, EXPORTER = "validator", "dcgm-exporter"
LAST = {"validator": (VALIDATOR,), "exporter": (EXPORTER, VALIDATOR)}
"""What is made ready at last on a node of each series."""
COMPONENTS = ("discover", *(phase.name for phase in PHASES))
WAITS = {"validator": "ValidatorNotReady", "exporter": "DcgmExporterNotReady"}
"""What such a node says before."""
CPU_BUDGET, MEMORY_BUDGET, READY_BUDGET, STALL_BUDGET = 0.3, 150.0, 2.0, 50.0  # cores, MB, s, ms


@dataclass(frozen=True, slots=True)
class Quiet:
    """A while with nothing but scrapes."""

    seconds: float
    cpu: float
    """Cores, on the average."""
    rss_mb: float
    """The most so far."""
    writes: float
    scrapes: float
    stall: float
    """Seconds, at most; the reading of the metrics before included."""
    others: float


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as environment:
        return asyncio.run(_measure(environment, sizes, progress))


async def _measure(environment: Environment, sizes: Sizes, progress: Progress) -> Result:
    members = fleet(sizes.monitored_nodes)
    kept = _kept(members, sizes)
    async with AsyncExitStack() as stack:
        client = await Client.connect(environment.plane.kubeconfig, user_agent=MANAGER)
        stack.push_async_callback(client.close)
        for member in members:
            found = member.report["spec"]["features"]["attributes"]
            found[names.FEATURE_VALIDATION] = {"elements": {"driver": "ok", "container": "ok"}}
        await Track(environment, client, environment.kubeconfig(names.INVENTORY), sizes, progress).join(members)
        await put_on_record(environment, members, progress)
        await _pods(client, members, kept, progress)
        url = await stack.enter_async_context(_exporters(members))
        sight = await stack.enter_async_context(following(client, GPUNODEINVENTORY))
        ready = {m.name: sight.expect(m.name, _is_ready) for m in members if m.name not in kept}
        account = environment.kubeconfig(names.BOOTSTRAP)
        process = running(environment.plane.dir, names.BOOTSTRAP, account, f"--exporter-url={url}", wait=False)
        subject = await stack.enter_async_context(process)
        async with show_progress(
            progress, f"preparing {len(ready)} nodes", lambda: sum(f.done() for f in ready.values()), len(ready)
        ):
            await asyncio.wait_for(asyncio.gather(*ready.values()), START_SECONDS + sizes.monitored_nodes / 5)
        await subject.until_idle(START_SECONDS)
        await wait_for_quiet(environment.plane.dir, sizes.patience)
        async with show_progress(progress, "and then nothing but scrapes"):
            quiet = await _quiet(subject, sizes)
        took: dict[str, list[float]] = {}
        for series in LAST:
            async with show_progress(progress, f"nodes whose last component is the {series}"):
                took[series] = [await _last(client, sight, name, series) for name, of in kept.items() if of == series]
    raw = {"nodes": sizes.monitored_nodes, "quiet": asdict(quiet), "ready_after": took}
    return Result(_rows(sizes, len(ready), quiet, took), raw)


def _kept(members: list[Member], sizes: Sizes) -> dict[str, str]:
    """Nodes that are kept back, each with its series."""
    count = min(sizes.last_repeats, len(members) // 3)
    back = [member.name for member in members[-count * len(LAST) :]]
    return {name: series for at, series in enumerate(LAST) for name in back[at * count : (at + 1) * count]}


async def _pods(client: Client, members: list[Member], kept: dict[str, str], progress: Progress) -> None:
    """The pods of every node, ready but for what is kept back."""
    done = 0

    async def one(member: Member) -> None:
        nonlocal done
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await client.merge(NODE, member.name, {"status": ready}, manager=MANAGER, subresource="status")
        for component in COMPONENTS:
            await client.create(POD, _pod(member.name, component), names.NAMESPACE, manager=MANAGER)
            if member.name not in kept:
                await _set_ready(client, member.name, component)
        done += 1

    await create_namespace(client, names.NAMESPACE, manager=MANAGER)
    await client.apply(ACCOUNT, "default", _account(), manager=MANAGER, namespace=names.NAMESPACE)
    async with show_progress(progress, f"adding the pods of {len(members)} nodes", lambda: done, len(members)):
        await for_each(members, one)


def _account() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def _pod(node: str, component: str) -> dict[str, Any]:
    app = names.DISCOVER_DAEMONSET if component == "discover" else f"gpu-{component}"
    labels = {names.LABEL_APP: app, names.LABEL_COMPONENT: component}
    spec = {
        "nodeName": node,
        "containers": [{"name": component, "image": "none"}],
        "automountServiceAccountToken": False,
    }
    return {"metadata": {"name": f"{component}-{node}", "labels": labels}, "spec": spec}


async def _set_ready(client: Client, node: str, component: str) -> None:
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "conditions": [ready]}
    name, body = f"{component}-{node}", {"status": status}
    await client.merge(POD, name, body, manager=MANAGER, namespace=names.NAMESPACE, subresource="status")


@asynccontextmanager
async def _exporters(members: list[Member]) -> AsyncIterator[str]:
    """Every node's exporter behind one port; the template of their URLs."""
    catalogue, counts = load(), dict.fromkeys((member.name for member in members), 0)
    texts: dict[str, dcgm.Text] = {}
    nodes = {member.name: member for member in members}

    async def scraped(request: web.Request) -> web.Response:
        name = request.match_info["node"]
        if name not in texts:
            texts[name] = dcgm.text(name, machine(_node(nodes[name]), None, catalogue))
        counts[name] += 1
        return web.Response(body=texts[name].at(counts[name]), content_type="text/plain")

    app = web.Application()
    app.router.add_get("/nodes/{node}/metrics", scraped)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port, backlog=len(members) + 128).start()
    try:
        yield f"http://127.0.0.1:{port}/nodes/{{node}}/metrics"
    finally:
        await runner.cleanup()


def _node(member: Member) -> Node:
    meta = {**member.node["metadata"], "annotations": {sim_names.SHAPE: SHAPE}}
    return adapter(Node).validate_python({"metadata": meta})


async def _quiet(subject: Subject, sizes: Sizes) -> Quiet:
    await asyncio.sleep(sizes.settle)
    before, moment, cpu = await subject.metrics(), Moment.now(subject.folder), subject.cpu_seconds()
    await asyncio.sleep(sizes.monitored_seconds)
    # The CPU first: what it takes to tell its metrics is not what a fleet costs.
    taken, now = subject.cpu_seconds() - cpu, Moment.now(subject.folder)
    after, seconds = await subject.metrics(), now.at - moment.at
    return Quiet(
        seconds=seconds,
        cpu=taken / seconds,
        rss_mb=subject.peak_rss_mb(),
        writes=total(after, WRITES) - total(before, WRITES),
        scrapes=after[SCRAPES] - before[SCRAPES],
        stall=after[STALL],
        others=others(moment, now),
    )


async def _last(client: Client, sight: ObjectWatch, node: str, series: str) -> float:
    """Seconds until a node is ready whose last components are made so now."""
    monitored = EXPORTER not in LAST[series]
    waits = sight.expect(node, lambda obj: _says(obj, "False", WAITS[series]) and _is_monitored(obj) >= monitored)
    for component in COMPONENTS:
        if component not in LAST[series]:
            await _set_ready(client, node, component)
    await asyncio.wait_for(waits, START_SECONDS)
    shows, began = sight.expect(node, _is_ready), time.monotonic()
    for component in LAST[series]:
        await _set_ready(client, node, component)
    return await asyncio.wait_for(shows, START_SECONDS) - began


def _says(obj: Shown, status: str, reason: str) -> bool:
    conditions = obj.status.get("conditions", ())
    return any((c["type"], c["status"], c["reason"]) == (READY_FOR_POOLING, status, reason) for c in conditions)


def _is_monitored(obj: Shown) -> bool:
    return bool(obj.status.get("monitoring", {}).get("dcgmReady"))


def _is_ready(obj: Shown) -> bool:
    return _says(obj, "True", "Ready")


def _rows(sizes: Sizes, answering: int, quiet: Quiet, took: dict[str, list[float]]) -> tuple[Row, ...]:
    nodes = sizes.monitored_nodes
    judged = nodes >= 1000
    expected = answering * quiet.seconds / PERIOD
    ready = [
        row
        for series, values in took.items()
        if values
        for row in (
            Row(f"  ready after its last component, the {series}: median", percentile(values, 0.5), "s"),
            Row("  at most", max(values), "s", at_most=READY_BUDGET),
        )
    ]
    return (
        Row(
            f"monitoring: {nodes} nodes × {CARDS} cards, a scrape each {PERIOD:g} s: CPU",
            quiet.cpu,
            "cores",
            at_most=CPU_BUDGET,
            judged=judged,
            note=f"others took {quiet.others:.2f} cores" if quiet.others > 0.1 else "",
        ),
        Row("  peak RSS", quiet.rss_mb, "MB", 0, at_most=MEMORY_BUDGET, judged=judged),
        Row("  scrapes ÷ expected scrapes", quiet.scrapes / expected),
        Row(f"  writes in {quiet.seconds:.0f} s", quiet.writes, "", 0, exactly=0.0),
        Row("  longest stall of the event loop", 1000 * quiet.stall, "ms", 0, at_most=STALL_BUDGET, judged=judged),
        *ready,
    )
