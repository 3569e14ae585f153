"""Memory, descriptors, tasks and requests of a process at one moment, by the kernel and by its own metrics.

Each reading costs the process an answer of its metrics over one connection that stays open, a few milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import aiohttp

from reliability.kit.process import cpu_seconds, parse_metrics, total
from reliability.soak.records import Own, Reading, is_ours
from sim import controlplane

if TYPE_CHECKING:
    from types import TracebackType

    from sim.controlplane.state import ProcessState

SERVERS = ("etcd", "kube-apiserver")
ASK_SECONDS = 20.0
REQUESTS = "gpu_client_requests_total"
LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Reader:
    """Looks at the processes of a control plane; lives inside one `async with`."""

    folder: Path
    restarts: Counter[str] = field(default_factory=Counter)
    """Of each process, as the supervisor counts; a process that was away once is counted too."""
    came: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of each process since when each series that its metrics have now is there, in seconds of the monotonic clock."""

    async def __aenter__(self) -> Self:
        """Open the connections."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_SECONDS))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: object, trace: TracebackType | None) -> None:
        """Close them."""
        await self._session.close()

    async def read(self) -> dict[str, Reading]:
        """All processes now; one that is away is left out, and counted as restarted."""
        processes = controlplane.status(self.folder).processes
        chosen = {name: state for name, state in processes.items() if is_ours(name) or name in SERVERS}
        found = await asyncio.gather(*(self._one(name, state) for name, state in chosen.items()))
        return {name: reading for name, reading in zip(chosen, found, strict=True) if reading is not None}

    async def _one(self, name: str, state: ProcessState) -> Reading | None:
        self.restarts[name] = max(self.restarts[name], state.restarts)
        try:
            own = await self._own(name, state) if is_ours(name) else None
            return kernel(state.pid, own)
        except (OSError, aiohttp.ClientError, TimeoutError):
            self.restarts[name] = max(self.restarts[name], state.restarts + 1)
            return None

    async def _own(self, name: str, state: ProcessState) -> Own:
        async with self._session.get(f"http://127.0.0.1:{state.ports['health']}/metrics") as answer:
            metrics = parse_metrics(await answer.text())
        known, now = self.came.get(name, {}), time.monotonic()
        self.came[name] = {series: known.get(series, now) for series in metrics}
        return own(metrics)


def own(metrics: Mapping[str, float]) -> Own:
    """What its metrics say."""
    pairs = dict(metrics)
    labels = ((dict(LABEL.findall(key)), count) for key, count in pairs.items() if key.startswith(REQUESTS))
    return Own(
        tasks=total(pairs, "gpu_event_loop_tasks"),
        queue=total(pairs, "gpu_queue_depth"),
        cached=total(pairs, "gpu_cached_objects"),
        series=len(pairs),
        stall=total(pairs, "gpu_event_loop_stall_seconds"),
        lists=total(pairs, "gpu_lists_total"),
        writes=total(pairs, "gpu_writes_total"),
        requests={f"{label['method']} {label['code']}": count for label, count in labels},
        expired=total(pairs, "gpupool_reservations_expired_total"),
    )


def kernel(pid: int, said: Own | None = None) -> Reading:
    """A process as the kernel counts; raises OSError where it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    facts = {key: value.split()[0] for key, _, value in (line.partition(":") for line in lines) if value.split()}
    return Reading(
        at=time.monotonic(),
        pid=pid,
        rss=int(facts["VmRSS"]) * 1024 / 1e6,
        anonymous=int(facts["RssAnon"]) * 1024 / 1e6,
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - names are not needed as paths
        threads=int(facts["Threads"]),
        cpu=cpu_seconds(pid),
        own=said,
    )
