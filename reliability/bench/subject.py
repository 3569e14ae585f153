"""A process of the module under measurement: started by the control plane's supervisor, read through /proc.

While it works, little is asked of the process itself: its log tells how far it is. Reading its
metrics costs it time, in one go, and what it then says of its event loop's worst stall counts from
the last reading on, that reading's own cost included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import aiohttp
import orjson

from reliability.kit.process import cpu_seconds, memory_mb, parse_metrics
from sim import controlplane
from sim.controlplane import ProcessSpec, Ready
from sim.controlplane.client import log_tail
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.controlplane.state import ProcessState
from sim.module.processes import Timers, module_process
from tools.errors import UserError

START_SECONDS = 60.0
LOG_LOOK, IDLE_LOOK = 0.02, 0.25  # seconds
IDLE = 0.08
"""Cores that a process takes, at most, which does nothing but renew its lease; the kernel counts in 10 ms."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One process, from its start to its stop."""

    folder: Path
    name: str
    pid: int
    started: float
    """Seconds since the epoch."""
    port: int
    """Of its metrics."""
    log_from: int
    """Where its part of the log begins, in bytes."""

    @classmethod
    def of(cls, folder: Path, state: ProcessState) -> Subject:
        """One that runs already; all of its log is its part."""
        return cls(folder, state.name, state.pid, state.started, state.ports["health"], 0)

    @classmethod
    def start(cls, folder: Path, spec: ProcessSpec, *, wait: bool) -> Subject:
        """Start it; `wait`: until it says that it is ready, else nobody asks. Blocks; raises UserError."""
        log = Layout.of(folder).log(spec.name)
        log_from = log.stat().st_size if log.exists() else 0
        spec = replace(spec, restart="never", ready=spec.ready if wait else Ready())
        controlplane.add_process(folder, spec)
        state = controlplane.wait_ready(folder, spec.name, START_SECONDS)
        return cls(folder, spec.name, state.pid, state.started, spec.ports["health"], log_from)

    def stop(self) -> None:
        """End it in order, and wait until it has. Blocks."""
        controlplane.remove_process(self.folder, self.name)

    def check(self) -> None:
        """Raise UserError where it has ended."""
        process = controlplane.status(self.folder).processes.get(self.name)
        if process is None or process.identity is None or not process.identity.alive:
            raise UserError(
                f"{self.name} ended while it was measured; the end of its log:\n"
                f"{log_tail(Layout.of(self.folder), self.name)}"
            )

    def cpu_seconds(self) -> float:
        """User and system time so far, the interpreter's start included."""
        return cpu_seconds(self.pid)

    def peak_rss_mb(self) -> float:
        """The most memory that was resident at once (VmHWM), in millions of bytes."""
        return memory_mb(self.pid, "VmHWM")

    def rss_mb(self) -> float:
        """What memory is resident now (VmRSS), in millions of bytes."""
        return memory_mb(self.pid, "VmRSS")

    async def metrics(self) -> dict[str, float]:
        """Its metrics by name with labels; reading them resets the event loop's worst stall."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}/metrics") as answer:
            return parse_metrics(await answer.text())

    async def until_logged(self, event: str, within: float) -> float:
        """Wait until it has logged an event; returns when, in seconds since the epoch. Raises UserError."""
        limit = time.monotonic() + within
        while (at := self.logged(event)) is None:
            self.check()
            if time.monotonic() > limit:
                raise UserError(f"{self.name} has not said {event!r} after {within:.0f} s")
            await asyncio.sleep(LOG_LOOK)
        return at

    async def until_idle(self, within: float) -> float:
        """Wait until it takes no CPU; returns when that began, in seconds since the epoch. Raises UserError."""
        limit, before = time.monotonic() + within, self.cpu_seconds()
        while True:
            began = time.time()
            await asyncio.sleep(IDLE_LOOK)
            self.check()
            before, taken = (now := self.cpu_seconds()), now - before
            if taken <= IDLE * IDLE_LOOK:
                return began
            if time.monotonic() > limit:
                raise UserError(f"{self.name} is still at work after {within:.0f} s")

    def logged(self, event: str) -> float | None:
        """When it first logged an event, in seconds since the epoch."""
        with Layout.of(self.folder).log(self.name).open("rb") as log:
            log.seek(self.log_from)
            for line in log:
                if f'"{event}"'.encode() in line:
                    return datetime.fromisoformat(orjson.loads(line)["time"]).timestamp()
        return None


@asynccontextmanager
async def running(folder: Path, name: str, account: Path, *flags: str, wait: bool) -> AsyncIterator[Subject]:
    """A process of the module under an account, until the end of the block; `wait`: until it says that it is ready."""
    (port,) = free_ports(1)
    spec = module_process(name, account, port, Timers(), *flags)
    subject = await asyncio.to_thread(Subject.start, folder, spec, wait=wait)
    try:
        yield subject
    finally:
        await asyncio.to_thread(subject.stop)
