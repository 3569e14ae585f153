"""One process of the module: flags, caches, health, leadership, and an orderly end.

Start: the health server answers, reflectors fill the stores, the garbage collector is told
to leave the filled caches alone, and then `work` runs: as leader where the process has a
lease, at once where every replica works. SIGTERM: not ready any more, workers finish what
they have in hand, events are sent, the lease is given back; so, too, where the wall clock jumps. Anything that ends
unexpectedly ends the process with a status other than 0, and whoever supervises it starts it anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import resource as limits
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import structlog

from controllers.api.meta import KubeObject
from controllers.runtime import clock_guard, logs
from controllers.runtime.client import REQUEST_TIMEOUT, Client
from controllers.runtime.errors import ClockJumped, ConfigurationError, LostLeadership
from controllers.runtime.events import Recorder
from controllers.runtime.executor import Executor
from controllers.runtime.garbage import caches_filling
from controllers.runtime.health import Health, add_ports
from controllers.runtime.leader import Leader, LeaseSettings
from controllers.runtime.listing import page_size
from controllers.runtime.reflector import Reflector, Scope, WatchSettings
from controllers.runtime.scraping import Scraping, open_ports
from controllers.runtime.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controllers.api.resources import Resource

T = TypeVar("T", bound=KubeObject)
log = structlog.get_logger()
FREEZE_PERIOD, FREEZE_SHARE = 1.0, 0.05
FREEZE_LEAST = 1000
"""Changes of objects, at least, between two freezes: each keeps for ever some of what is under way just then."""
EXIT_LOST_LEADERSHIP = 3
EXIT_CLOCK_JUMPED = 4


def arguments(name: str, description: str) -> argparse.ArgumentParser:
    """The flags that every process has."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig file (default: the pod's own credentials)")
    add_ports(parser)
    parser.add_argument("--log-level", choices=sorted(logs.LEVELS), default="Info", help="until the settings are read")
    group = parser.add_argument_group("timing, in seconds")
    lease, watch = LeaseSettings(), WatchSettings()
    group.add_argument("--lease-duration", type=float, default=lease.lease_duration, help="others take over after")
    group.add_argument("--renew-deadline", type=float, default=lease.renew_deadline, help="no writes after")
    group.add_argument("--retry-period", type=float, default=lease.retry_period, help="renewals are this far apart")
    group.add_argument("--watch-seconds", type=float, default=watch.watch_seconds, help="length of a watch request")
    group.add_argument(
        "--watch-idle", type=float, default=watch.idle_seconds, help="silence that means a dead connection"
    )
    group.add_argument(
        "--request-timeout", type=float, default=REQUEST_TIMEOUT, help="a request without an answer is given up after"
    )
    group.add_argument(
        "--absent-retry", type=float, default=watch.absent_retry, help="a kind that is not served is asked for again"
    )
    return parser


@dataclass
class Process:
    """What a process is made of; `start` opens it, `run` lives it."""

    name: str
    manager: str
    args: argparse.Namespace
    client: Client
    lease_client: Client
    recorder: Recorder
    executor: Executor
    health: Health
    scraping: Scraping | None = None
    """Its metrics, where others may reach them."""
    _reflectors: list[Reflector[Any]] = field(default_factory=list)
    _background: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    _stopping: bool = False

    @classmethod
    async def open(cls, name: str, manager: str, args: argparse.Namespace) -> Process:
        """Connect; raises ConfigurationError."""
        client = await Client.connect(args.kubeconfig, user_agent=name)
        lease_client = await Client.connect(args.kubeconfig, user_agent=f"{name}/lease", connections=2)
        client.timeout = args.request_timeout
        recorder = Recorder(client, manager, socket.gethostname())
        health, scraping = await open_ports(name, args)
        executor = Executor(client, manager, recorder)
        return cls(name, manager, args, client, lease_client, recorder, executor, health, scraping)

    def reflect(
        self,
        resource: Resource,
        record: type[T],
        *,
        scope: Scope | None = None,
        optional: bool = False,
        second: str | None = None,
    ) -> Store[T]:
        """A store that is kept equal to the API server's objects from `run` on.

        `second`: what metrics and health call it, where the process has a store of that kind already, of other objects;
        that one learns of our own writes.
        """
        store: Store[T] = Store(second or resource.kind)
        settings = WatchSettings(
            page_size=page_size(resource),
            watch_seconds=self.args.watch_seconds,
            idle_seconds=self.args.watch_idle,
            absent_retry=self.args.absent_retry,
        )
        reflector = Reflector(
            self.client,
            resource,
            record,
            store,
            scope=scope,
            settings=settings,
            optional=optional,
            recorder=self.recorder,
        )
        self._reflectors.append(reflector)
        if second is None:
            self.executor.register_cache(resource, record, store)
        self.health.check(f"cache of {second or resource.plural}", reflector.synced.is_set)
        return store

    def background(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task beside the work, for as long as the process lives."""
        self._background.append(task)

    async def run(self, work: Callable[[], Awaitable[None]], *, lease: str | None, namespace: str) -> None:
        """Live until SIGTERM or SIGINT; raises what ended it otherwise, ClockJumped after an orderly end."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        self.health.check("not stopping", lambda: not self._stopping)
        leader = self._leader(lease, namespace) if lease is not None else None
        await self.health.start()
        log.info("started", health=f"{self.args.health_host}:{self.health.port}", pid=os.getpid())
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(_forever(task))
                for task in (self.recorder.run, self.health.watch_loop, self._keep_frozen, *self._background)
            ]
            background += [group.create_task(reflector.run()) for reflector in self._reflectors]
            background += [group.create_task(self.scraping.run())] if self.scraping is not None else []
            living = group.create_task(self._live(work, leader), name="work")
            waiting = group.create_task(stop.wait(), name="signals")
            jumping = group.create_task(clock_guard.wait_for_clock_jump(), name="wall clock")
            await asyncio.wait((living, waiting, jumping), return_when=asyncio.FIRST_COMPLETED)
            self._stopping = True
            log.info("stopping")
            living.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await living
            jumped = jumping.result() if jumping.done() else None
            for task in (*background, waiting, jumping):
                task.cancel()
        if jumped is not None:
            raise ClockJumped(jumped)

    def _leader(self, lease: str, namespace: str) -> Leader:
        """Nothing is written, and no event sent, before the lease is ours."""
        settings = LeaseSettings(self.args.lease_duration, self.args.renew_deadline, self.args.retry_period)
        leader = Leader(self.lease_client, lease, namespace, f"{socket.gethostname()}_{uuid4().hex[:12]}", settings)
        self.client.fence = leader.require_leadership
        self.recorder.may_send.clear()
        return leader

    async def _live(self, work: Callable[[], Awaitable[None]], leader: Leader | None) -> None:
        with caches_filling():
            await asyncio.gather(*(reflector.synced.wait() for reflector in self._reflectors))
        log.info("caches are filled", objects={r.kind: n for r, n in self._sizes()})

        async def lead() -> None:
            self.recorder.may_send.set()
            try:
                await work()
            finally:
                await self.recorder.drain(2.0)

        await (lead() if leader is None else leader.run(lead))

    async def _keep_frozen(self) -> None:
        """Take what came into the caches out of the collector's sight, too.

        After a cold start, or a change of every object, a full collection would stall the loop for 100 to 200 ms
        at 8,000 cards: the collector counts objects that were replaced against new ones, so it comes seldom and
        then looks through all of them. Collected often, it finds little each time, and what it has looked at stays
        out of its sight; cached objects refer to nothing that refers to them, and go without it.
        """
        frozen = 0
        while True:
            await asyncio.sleep(FREEZE_PERIOD)
            stores = [reflector.store for reflector in self._reflectors]
            came = sum(store.change_count for store in stores)
            many = came - frozen > max(FREEZE_LEAST, FREEZE_SHARE * sum(map(len, stores)))
            if many and all(reflector.synced.is_set() for reflector in self._reflectors):
                gc.collect()
                gc.freeze()
                frozen = came

    def _sizes(self) -> list[tuple[Any, int]]:
        return [(reflector.resource, len(reflector.store)) for reflector in self._reflectors]

    async def close(self) -> None:
        """Let go of sockets."""
        await self.health.stop()
        if self.scraping is not None:
            await self.scraping.close()
        await self.client.close()
        await self.lease_client.close()


async def _forever(task: Callable[[], Awaitable[None]]) -> None:
    await task()


def main(
    parser: argparse.ArgumentParser,
    manager: str,
    wire: Callable[[Process], Awaitable[None]],
    argv: list[str] | None = None,
) -> int:
    """Run a process from its flags; `wire` adds reflectors and controllers and calls `run`."""
    args = parser.parse_args(argv)
    logs.configure(parser.prog, args.log_level)
    _allow_files()
    # What the imports made stays too. Looked through here, it stalls no event loop when the caches are filled.
    gc.collect()
    gc.freeze()

    async def live() -> None:
        process = await Process.open(parser.prog, manager, args)
        try:
            await wire(process)
        finally:
            await process.close()

    try:
        asyncio.run(live())
    except BaseException as error:  # noqa: BLE001 - told apart, and raised again if unknown
        return _exit_status(parser.prog, _innermost(error))
    return 0


def _allow_files() -> None:
    """As many open files as the system lets us have: a usual soft limit of 1,024 is a connection to each node."""
    _, most = limits.getrlimit(limits.RLIMIT_NOFILE)
    limits.setrlimit(limits.RLIMIT_NOFILE, (most, most))


def _innermost(error: BaseException) -> BaseException:
    """Task groups wrap: the first cause is the one to tell."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _exit_status(prog: str, error: BaseException) -> int:
    if isinstance(error, LostLeadership):
        log.error("lost the lease; ending, so that a fresh start begins without it", error=str(error))
        return EXIT_LOST_LEADERSHIP
    if isinstance(error, ClockJumped):
        log.warning("ending, so that a fresh start notes all times anew", error=str(error))
        return EXIT_CLOCK_JUMPED
    if isinstance(error, (OSError, ConfigurationError)):
        # A wrong path or a port in use is a person's mistake: a sentence, no traceback.
        print(f"{prog}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    if not isinstance(error, Exception):
        raise error  # somebody wants the interpreter to end
    log.error("ended by an error", exc_info=error)
    return 1
