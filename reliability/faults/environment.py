"""The cluster of a run: a real control plane, two simulated GPU nodes, and the module's processes.

It is brought up once and kept: a run begins by `wipe`, which takes away what the last one left and waits until nothing
moves any more. Where that does not come true in time it raises `Dirty`, and whoever owns the environment makes a new
one. The settings that are times are scaled down as the processes' own timers are; only the ten minutes after which an
annotation that names no pool is removed stay as they are: no end of a workload is to depend on them.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from controllers.api import resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, NotFound, RuntimeFault
from reliability.faults import cleanup
from reliability.faults.cleanup import NODES, REST, TEAM, Dirty
from reliability.faults.later_webhook import LaterWebhook
from reliability.faults.machine import Meter
from reliability.faults.processes import FULL, MANAGER, PACE, START_SECONDS, Processes, standby_of
from reliability.faults.stale_apiserver import StaleAPIServer
from reliability.faults.trace import PLAIN, Recorder
from reliability.kit import actors
from reliability.kit.apiserver import Server
from sim import controlplane
from sim.cluster import Options, bring_up
from sim.controlplane.ports import free_ports
from sim.nodes.leaving import bury
from sim.nodes.names import TAKES
from sim.view import LateError, View

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

__all__ = ["FULL", "MANAGER", "NODES", "PACE", "SETTINGS", "TEAM", "Dirty", "Environment"]


def _after(seconds: float) -> str:
    return f"{round(1000 * seconds * PACE)}ms"


TTL: Final = 4.0
"""Seconds that a reservation lives, scaled: 2 minutes in earnest."""
SETTINGS: Final[dict[str, Any]] = {
    "admission": {"reservationTTL": _after(TTL), "unseenTTL": _after(1)},
    "bootstrap": {
        "monitoring": {"scrapePeriod": _after(0.5), "missingAfter": _after(6)},
        "phaseDeadline": _after(30),
        "restartGrace": _after(5),
        "toolkit": {"runtimeRestarts": 1},
    },
    "inventory": {"resyncPeriod": _after(2)},
    "maintenance": {"deadline": _after(180)},
    "pools": {"pluginPatience": _after(5)},
    "health": {"recoveryScrapes": 3},
    "driver": {"enabled": True},
}
SHAPE: Final = "mixed-2"
"""One card that can be divided and one that cannot."""
LOOK: Final = 0.05
CONFIGURE_SECONDS: Final = 20.0


def _values(port: int) -> dict[str, str]:
    """Of the chart; `port`: where the API server asks the webhook."""
    return {"gpuControlPlane.webhook.url": f"https://127.0.0.1:{port}", "gpuControlPlane.driver.enabled": "true"}


class Environment(Processes):
    """See the module's text. Lives in one event loop, from `open` to `close`."""

    def __init__(self, folder: Path, wrapped: tuple[str, ...] = ()) -> None:
        """`wrapped`: what the processes are started through, instead of `-m`: a bug on purpose."""
        super().__init__(folder, wrapped)
        self.step = 0
        self.before_step: Callable[[int], Awaitable[None]] | None = None
        self.counts_reviews = False
        self.has_operator = False
        """Whether another program's objects are there, or may be."""
        self.reviewed: set[int] = set()
        self.taken: list[float] = []
        """When each of people's steps was taken, monotonic."""
        """The steps of people in which the webhook was asked, where they are counted."""
        self.refused: list[tuple[float, str]] = []
        """What people were told instead of what they wanted, and when, monotonic."""
        self.plain: list[tuple[float, str]] = []
        self._beside: list[asyncio.Task[None]] = []
        self._log_from: dict[str, int] = {}
        self.stale, self.later = StaleAPIServer(), LaterWebhook()
        self.meter = Meter(self.pids)
        self.suspect: set[str] = set()
        """Processes whose caches a fault may have left wrong: started anew before the next run."""

    # --- life ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Bring everything up; takes about a quarter of a minute on a machine that is idle."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        options = Options(nodes=0, module=(), values=_values(port))
        self.plane = await asyncio.to_thread(bring_up, self.folder / "plane", options)
        self.server = Server(self.plane, "")
        self.client = await Client.connect(self.plane.kubeconfig, user_agent="people")
        self.recorder = Recorder(self.client)
        await self.recorder.start()
        self.view = await View(self.plane.kubeconfig).__aenter__()
        await self.later.start(self.server, self.client, MANAGER)
        await self.start_module(port)
        await self._settle_in()

    async def _settle_in(self) -> None:
        await self.configure()
        for namespace in (TEAM, PLAIN):
            await actors.create_namespace(self.client, namespace, manager=MANAGER)
        for namespace in (TEAM, PLAIN):
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            await actors.retry(partial(self.client.request, "GET", path), CONFIGURE_SECONDS)
        for name in NODES:
            await self.join(name)
        await self.until(lambda: self.ready(*NODES), START_SECONDS, self.view.unready)
        await self.rest(REST, START_SECONDS)

    async def close(self) -> None:
        """Take everything down."""
        await self.later.stop()
        with suppress(AttributeError):
            await self.view.__aexit__(None, None, None)
            await self.recorder.stop()
            await self.client.close()
        await self.end_module()
        await asyncio.to_thread(controlplane.down, self.folder / "plane")

    # --- a run ----------------------------------------------------------------------------

    async def wipe(self) -> None:
        """Take away what is left of the last run; raises Dirty."""
        await cleanup.wipe(self)

    def begin(self) -> None:
        """What is now is where a run begins."""
        for proxy in self.proxies.values():
            proxy.begin()
        self.recorder.begin()
        self.plain, self.refused, self.step, self.before_step = [], [], 0, None
        self.counts_reviews, self.reviewed, self.taken = False, set(), []
        self._log_from = {short: self.log(short).stat().st_size for short in FULL}
        self.meter.begin()
        self._beside = [asyncio.create_task(self._create_plain()), asyncio.create_task(self.meter.follow())]

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done until the run ends."""
        self._beside.append(asyncio.create_task(work))

    async def second(self, short: str) -> None:
        """Start a second replica of a process, whose log is read from here on."""
        called = standby_of(short)
        self._log_from[called] = self.log(called).stat().st_size if self.log(called).exists() else 0
        await super().second(short)

    async def end(self) -> None:
        """No more bystanders, and nobody who looks at the machine."""
        beside, self._beside = self._beside, []
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)

    async def _create_plain(self) -> None:
        """Pods that ask for no card, one after another."""
        number = 0
        while True:
            number += 1
            name = f"plain-{number}"
            spec = {"containers": [{"name": "main", "image": "none"}], "schedulingGates": [{"name": "test/never"}]}
            began, why = time.monotonic(), ""
            try:
                await self.client.create(
                    resources.POD, {"metadata": {"name": name}, "spec": spec}, PLAIN, manager=MANAGER
                )
            except AlreadyExists:
                pass
            except RuntimeFault as error:
                why = str(error)
            self.plain.append((time.monotonic() - began, why))
            with suppress(RuntimeFault):
                await self.delete(resources.POD, name, PLAIN)
            await asyncio.sleep(0.5)

    def logs(self) -> dict[str, list[str]]:
        """What each process logged since `begin`."""
        found = {}
        for short in self.proxies:
            with self.log(short).open("rb") as file:
                file.seek(self._log_from.get(short, 0))
                found[short] = file.read().decode(errors="replace").splitlines()
        return found

    def active_at(self) -> float:
        """When anything was last written by the module, or changed, monotonic."""
        return max(self.recorder.changed_at, *(proxy.wrote_at for proxy in self.proxies.values()))

    async def rest(self, seconds: float, within: float) -> bool:
        """Wait until nothing has moved for so long; False where that does not come true in time."""
        deadline = time.monotonic() + within
        while (left := self.active_at() + seconds - time.monotonic()) > 0:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(min(left, 0.2))
        return True

    async def until(self, true: Callable[[], bool], seconds: float, found: Callable[[], str]) -> None:
        """Wait for something of the view or of the recorder, of which either may be behind; raises LateError."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                raise LateError(f"not true after {seconds:.0f} s; found: {found()}")
            await asyncio.sleep(LOOK)

    async def stirs(self, deadline: float) -> bool:
        """Wait until something moves again; False where nothing does before then (monotonic)."""
        was = self.active_at()
        for _ in range(round(max(0.0, deadline - time.monotonic()) / 0.2)):
            if self.active_at() != was:
                return True
            await asyncio.sleep(0.2)
        return False

    # --- what people do, without retries ------------------------------------------------------

    async def configure(self, settings: dict[str, Any] | None = None, *, enabled: bool = True) -> None:
        """Write the ModuleConfig; what every run begins with, and these settings."""
        given = SETTINGS | (settings or {})
        await actors.retry(
            lambda: actors.configure(self.client, given, manager=MANAGER, enabled=enabled), CONFIGURE_SECONDS
        )

    async def join(self, name: str, shape: str = SHAPE, takes: Mapping[str, int] | None = None) -> None:
        """Add a node, which has no pods of the last one of that name; `takes`: seconds of steps of an installation."""
        if not await self._is_there(resources.NODE, name):  # it is where an answer got lost, and this is another try
            await bury(self.client, name)
        with suppress(AlreadyExists):
            marks = {TAKES: ",".join(f"{step}={seconds}" for step, seconds in takes.items())} if takes else {}
            await actors.create_node(self.client, name, shape, manager=MANAGER, annotations=marks)

    async def _is_there(self, resource: resources.Resource, name: str) -> bool:
        with suppress(NotFound):
            await self.client.get(resource, name)
            return True
        return False

    async def delete(self, resource: resources.Resource, name: str, namespace: str | None = None) -> None:
        """Delete an object, at once; none is fine."""
        await actors.delete(self.client, resource, name, namespace)

    def ready(self, *nodes: str) -> bool:
        """Whether nodes' cards may be pooled."""
        found = (self.view.inventories.get(node) for node in nodes)
        return all(i is not None and is_true(i.status.conditions, READY_FOR_POOLING) for i in found)
