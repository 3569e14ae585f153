"""One control plane between measurements: nodes join, everything is recorded, everything is wiped.

The end of a cold start is told by a watch of GPUNodeInventories, whose events are few; that
every card is recorded is looked at afterwards, when nothing is timed any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names
from controllers.api.resources import EVENT, GPUDEVICE, GPUNODEINVENTORY, LEASE, NODE, NODEFEATURE
from controllers.runtime.client import Client
from controllers.runtime.errors import NotFound
from sim import controlplane
from sim.bench.bed import MANAGER, Bed, create_namespace, each, shown
from sim.bench.fleet import CARDS, Member, Write
from sim.bench.floor import RawClient
from sim.bench.quiet import Moment, others, wait_for_quiet
from sim.bench.rows import Sizes
from sim.bench.subject import Subject, cpu_seconds, total
from sim.controlplane.ports import free_ports
from sim.errors import UserError
from sim.module.processes import Timers, module_process
from sim.nodes.names import NFD_NAMESPACE

if TYPE_CHECKING:
    from controllers.api.resources import Resource
    from sim.programs import Progress

PAGE = 500
SERVERS = ("etcd", "kube-apiserver")


@dataclass(frozen=True, slots=True)
class Start:
    """One cold start; times in seconds from the start of the process."""

    wall: float
    caches_filled: float
    cpu: float
    rss_mb: float
    writes: float
    events: int
    stall: float
    quiet_writes: float
    quiet_changes: int
    server_cpu: dict[str, float]
    others: float
    """Cores that others took meanwhile."""


@dataclass(frozen=True, slots=True)
class Floor:
    """One run of the floor; times in seconds."""

    wall: float
    cpu: float
    """Of the raw client."""
    writes: int
    server_cpu: dict[str, float]
    """Of etcd and the API server: what a write costs them, also where others use the machine."""
    others: float
    """Cores that others took meanwhile."""


@dataclass
class Track:
    """The control plane between measurements."""

    ground: Bed
    client: Client
    account: Path
    sizes: Sizes
    progress: Progress
    recorded: set[str] = field(default_factory=set)
    """Nodes whose summary the watch has shown."""

    async def join(self, members: list[Member]) -> None:
        """Create nodes and both reports of each."""
        joined = 0

        async def join(member: Member) -> None:
            nonlocal joined
            await self.client.create(NODE, member.node, manager=MANAGER)
            for report in (member.nfd, member.report):
                body = {"apiVersion": NODEFEATURE.api_version, "kind": NODEFEATURE.kind, **report}
                await self.client.create(NODEFEATURE, body, report["metadata"]["namespace"], manager=MANAGER)
            joined += 1

        await create_namespace(self.client, NFD_NAMESPACE)
        if members:
            title = f"adding {len(members)} nodes and their reports"
            async with shown(self.progress, title, lambda: joined, len(members)):
                await each(members, join)

    async def floor(self, raw: RawClient, planned: list[list[Write]], at_once: int) -> Floor:
        """Run the floor."""
        done, before, moment = 0, self._server_cpu(), self._now()

        def one_more() -> None:
            nonlocal done
            done += 1

        async with shown(self.progress, "the floor: the same writes by a raw client", lambda: done, len(planned)):
            took = await raw.write(planned, at_once=at_once, done=one_more)
        disturbed = others(moment, self._now())
        return Floor(took.seconds, took.cpu_seconds, took.writes, self._server_cpu(before), disturbed)

    async def cold_start(self, title: str) -> Start:
        """Start the inventory, wait until everything is recorded, and see that it then rests."""
        (port,) = free_ports(1)
        spec = module_process(names.INVENTORY, self.account, port, Timers())
        complete: asyncio.Task[float] | None = None
        subject: Subject | None = None
        try:
            async with shown(
                self.progress, f"{title}, {self.sizes.nodes} nodes", lambda: len(self.recorded), self.sizes.nodes
            ):
                complete = asyncio.create_task(self._complete(await self._version()))
                before, moment = self._server_cpu(), self._now()
                subject = await asyncio.to_thread(Subject.start, self.ground.plane.dir, spec, wait=False)
                ended = await self._wait(complete, subject)
                server_cpu, disturbed = self._server_cpu(before), others(moment, self._now())
                cpu, rss = subject.cpu_seconds(), subject.peak_rss_mb()
                stall = (await subject.metrics())["gpu_event_loop_stall_seconds"]
                await self._verify()
            async with shown(self.progress, "and then nothing: writes while nothing changes"):
                written, quiet_writes, quiet_changes = await self._quiet(subject)
            filled = subject.logged("caches are filled")
        finally:
            if complete is not None:
                complete.cancel()
            if subject is not None:
                await asyncio.to_thread(subject.stop)
        return Start(
            wall=ended - subject.started,
            caches_filled=(filled or subject.started) - subject.started,
            cpu=cpu,
            rss_mb=rss,
            writes=written,
            events=len(await self._list(EVENT)),
            stall=stall,
            quiet_writes=quiet_writes,
            quiet_changes=quiet_changes,
            server_cpu=server_cpu,
            others=disturbed,
        )

    def _now(self) -> Moment:
        return Moment.now(self.ground.plane.dir)

    def _server_cpu(self, since: dict[str, float] | None = None) -> dict[str, float]:
        """CPU seconds of the control plane's processes, in all or since then."""
        processes = controlplane.status(self.ground.plane.dir).processes
        now = {name: cpu_seconds(processes[name].pid) for name in SERVERS}
        return {name: round(cpu - (since or {}).get(name, 0.0), 2) for name, cpu in now.items()}

    async def _wait(self, complete: asyncio.Task[float], subject: Subject) -> float:
        """When everything was recorded, in seconds since the epoch."""
        limit = time.monotonic() + 60 + 0.3 * self.sizes.nodes
        while not complete.done():
            await asyncio.wait((complete,), timeout=1.0)
            if not complete.done():
                subject.check()
                if time.monotonic() > limit:
                    raise UserError(f"{len(self.recorded)} of {self.sizes.nodes} nodes are recorded, and it is late")
        return complete.result()

    async def _complete(self, version: str) -> float:
        """Watch until every node's summary is there; returns when, in seconds since the epoch."""
        self.recorded.clear()
        query = {"watch": "1", "resourceVersion": version}
        async with self.client.stream(GPUNODEINVENTORY.path(), query=query, idle=600) as batches:
            async for lines in batches:
                for line in filter(None, lines):
                    found = orjson.loads(line)["object"]
                    if "hw" in found.get("status", {}):
                        self.recorded.add(found["metadata"]["name"])
                if len(self.recorded) == self.sizes.nodes:
                    return time.time()
        raise UserError("the watch of GPUNodeInventories ended before everything was recorded")

    async def _verify(self) -> None:
        """Every card is recorded, not only every summary."""
        cards = [card async for card in self._items(GPUDEVICE) if "hardware" in card.get("status", {})]
        if len(cards) != self.sizes.nodes * CARDS:
            raise UserError(f"every node's summary is there, but {len(cards)} of {self.sizes.nodes * CARDS} cards")

    async def _quiet(self, subject: Subject) -> tuple[float, float, int]:
        """Writes before, and writes and objects that changed in, the time that nothing happens; the lease apart."""
        await asyncio.sleep(self.sizes.settle)
        written = total(await subject.metrics(), "gpu_writes_total")
        before = await self._versions()
        await asyncio.sleep(self.sizes.quiet)
        after = await self._versions()
        changed = len(set(before.items()) ^ set(after.items()))
        return written, total(await subject.metrics(), "gpu_writes_total") - written, changed

    async def _versions(self) -> dict[str, str]:
        return {
            f"{resource.kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for resource in (GPUDEVICE, GPUNODEINVENTORY)
            async for item in self._items(resource)
        }

    async def wipe(self) -> None:
        """Remove everything that was recorded, and the lease, and wait until it is gone."""
        async with shown(self.progress, "removing what was recorded"):
            for resource, namespace in ((GPUDEVICE, None), (GPUNODEINVENTORY, None), (EVENT, "default")):
                while await self._list(resource, limit=1):
                    await self.client.request("DELETE", resource.path(namespace), timeout=300)
            with suppress(NotFound):
                await self.client.request("DELETE", LEASE.path(names.NAMESPACE, names.INVENTORY))
            await asyncio.sleep(self.sizes.settle)
            await wait_for_quiet(self.ground.plane.dir, self.sizes.patience)

    async def _version(self) -> str:
        body = await self.client.request("GET", GPUNODEINVENTORY.path(), query={"limit": "1"})
        return str(orjson.loads(body)["metadata"]["resourceVersion"])

    async def _list(self, resource: Resource, limit: int | None = None) -> list[dict[str, Any]]:
        """Objects of a kind; `limit`: no more than that."""
        found: list[dict[str, Any]] = []
        async for item in self._items(resource, limit or PAGE):
            found.append(item)
            if limit is not None and len(found) == limit:
                break
        return found

    async def _items(self, resource: Resource, page: int = PAGE) -> AsyncIterator[dict[str, Any]]:
        """Objects of a kind, read in pages; yields to others between them."""
        query = {"limit": str(page)}
        while True:
            answer = orjson.loads(await self.client.request("GET", resource.path(), query=query, timeout=60))
            for item in answer["items"]:
                yield item
            if not (token := answer["metadata"].get("continue")):
                return
            query["continue"] = token
