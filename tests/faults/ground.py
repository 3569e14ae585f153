"""The ground of a run: a real control plane, two simulated GPU nodes, and the module's processes, each behind its tap.

It is brought up once and kept: a run begins by `wipe`, which takes away what the last one left and waits until nothing
moves any more. Where that does not come true in time it raises `Dirty`, and whoever owns the ground makes a new one.
Every timer of the module is scaled down together, to about a twentieth; leases last 3 s. Only the ten minutes after
which an annotation that names no pool is removed stay as they are: no end of a workload is to depend on them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, NotFound, RuntimeFault
from sim import controlplane, programs
from sim.cluster import Options, bring_up
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.module.identities import kubeconfig_for
from sim.module.install import ROOT, Tools
from sim.module.processes import Timers, exporter_url, module_process
from sim.nodes.manifests import node_manifests
from sim.nodes.names import FAULT
from sim.view import LateError, View
from tests.faults.staleness import Stale
from tests.faults.tap import Tap
from tests.faults.trace import PLAIN, Recorder
from tests.tools.apiserver import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from controllers.api.gpudevice import GPUDevice

PACE: Final = float(os.environ.get("FAULTS_PACE", "1"))
"""Every time is so many times as long: for a machine on which much else runs, where leases of 3 s are lost by
themselves."""
TIMERS: Final = Timers(
    lease_duration=3.0 * PACE, renew_deadline=2.0 * PACE, retry_period=0.4 * PACE, watch_idle=6.0 * PACE
)


def _after(seconds: float) -> str:
    return f"{round(1000 * seconds * PACE)}ms"


SETTINGS: Final[dict[str, Any]] = {
    "admission": {"reservationTTL": _after(6), "unseenTTL": _after(1)},
    "bootstrap": {
        "monitoring": {"scrapePeriod": _after(0.5), "missingAfter": _after(6)},
        "phaseDeadline": _after(30),
        "restartGrace": _after(5),
    },
    "inventory": {"resyncPeriod": _after(2)},
    "maintenance": {"deadline": _after(180)},
    "pools": {"pluginPatience": _after(5)},
    "health": {"recoveryScrapes": 3},
}
FULL: Final = {
    "inventory": names.INVENTORY,
    "bootstrap": names.BOOTSTRAP,
    "gpupool": names.POOL_CONTROLLER,
    "webhook": names.WEBHOOK,
}
SHAPE: Final = "mixed-2"
"""One card that can be divided and one that cannot."""
NODES: Final = ("base-1", "base-2")
TEAM: Final = "team"
CLOCK: Final = Path(__file__).with_name("clock")
WIPE_SECONDS, START_SECONDS = 45.0 * PACE, 120.0 * PACE
REST: Final = 0.7
MANAGER: Final = "people"


class Dirty(Exception):
    """What the last run left does not go away."""


class Ground:
    """See the module's text. Lives in one event loop, from `open` to `close`."""

    def __init__(self, folder: Path, wrapped: tuple[str, ...] = ()) -> None:
        """`wrapped`: what the processes are started through, instead of `-m`: a bug on purpose."""
        self.folder, self._wrapped = folder, wrapped
        self.taps: dict[str, Tap] = {}
        self._specs: dict[str, controlplane.ProcessSpec] = {}
        self.step = 0
        self.before_step: Callable[[int], Awaitable[None]] | None = None
        self.plain: list[tuple[float, str]] = []
        self._bystander: asyncio.Task[None] | None = None
        self._log_from: dict[str, int] = {}
        self.stale = Stale()
        self.suspect: set[str] = set()
        """Processes whose caches a fault may have left wrong: started anew before the next run."""

    # --- life ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Bring everything up; takes about a quarter of a minute on a machine that is idle."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        options = Options(nodes=0, module=(), values={"gpuControlPlane.webhook.url": f"https://127.0.0.1:{port}"})
        self.plane = await asyncio.to_thread(bring_up, self.folder / "plane", options)
        self.server = Server(self.plane, "")
        self.client = await Client.connect(self.plane.kubeconfig, user_agent="people")
        self.recorder = Recorder(self.client)
        await self.recorder.start()
        self.view = await View(self.plane.kubeconfig).__aenter__()
        await self._start_module(port)
        await self._settle_in()

    async def _start_module(self, port: int) -> None:
        tools = Tools(self.plane.kubectl, programs.ensure(["helm"])["helm"], self.plane.kubeconfig)
        exporters = controlplane.status(self.plane.dir).processes["simulated-agent"].ports["exporters"]
        flags = {
            "bootstrap": (f"--exporter-url={exporter_url(exporters)}",),
            "webhook": ("--host=127.0.0.1", f"--port={port}", "--contact-seconds=3", "--drain-seconds=0.2"),
        }
        ports = dict(zip(FULL, free_ports(len(FULL)), strict=True))
        for short, name in FULL.items():
            tap = self.taps[short] = Tap(self.server, short)
            await tap.start()
            config = await asyncio.to_thread(
                kubeconfig_for, self.plane, tools, name, self.plane.dir / "pki" / "identities"
            )
            content = json.loads(config.read_text())
            content["clusters"][0]["cluster"]["server"] = tap.url
            config.write_text(json.dumps(content))
            spec = module_process(name, config, ports[short], TIMERS, *flags.get(short, ()))
            env = {**spec.env, "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}", "FAULTS_CLOCK": str(self.clock(short))}
            argv = spec.argv if not self._wrapped else (spec.argv[0], *self._wrapped, *spec.argv[2:])
            self.clock(short).write_text("0")
            self._specs[short] = replace(spec, env=env, argv=argv)
            controlplane.add_process(self.plane.dir, self._specs[short])
        await self.up()

    async def _settle_in(self) -> None:
        await self.configure(SETTINGS)
        for namespace in (TEAM, PLAIN):
            await self.client.create(resources.NAMESPACE, {"metadata": {"name": namespace}}, manager=MANAGER)
        for namespace in (TEAM, PLAIN):
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            await self.eventually(lambda path=path: self.client.request("GET", path), 20)
        for name in NODES:
            await self.join(name)
        await self.view.until(lambda: self.ready(*NODES), START_SECONDS, self.view.unready)
        await self.rest(REST, START_SECONDS)

    async def close(self) -> None:
        """Take everything down."""
        with suppress(AttributeError):
            await self.view.__aexit__(None, None, None)
            await self.recorder.stop()
            await self.client.close()
        for tap in self.taps.values():
            await tap.close()
        await asyncio.to_thread(controlplane.down, self.folder / "plane")

    # --- processes ------------------------------------------------------------------------

    def clock(self, short: str) -> Path:
        """The file that says how far off a process's wall clock is, in seconds."""
        return self.folder / f"{short}.clock"

    def pid(self, short: str) -> int:
        """A process's id now, 0 while it is down."""
        process = controlplane.status(self.plane.dir).processes.get(FULL.get(short, short))
        return process.pid if process else 0

    def signal(self, short: str, number: signal.Signals) -> bool:
        """Send a process a signal; whether it was there."""
        pid = self.pid(short)
        if not pid:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if number == signal.SIGKILL and short in self.taps:
            self.taps[short].marks.append(time.monotonic())
            self.taps[short].kills.append(time.monotonic())
        return True

    async def stop(self, short: str) -> None:
        """End a process in order, and leave it ended."""
        await asyncio.to_thread(controlplane.remove_process, self.plane.dir, FULL[short])

    def start(self, short: str) -> None:
        """Have it started again."""
        controlplane.add_process(self.plane.dir, self._specs[short])

    async def up(self, shorts: Iterable[str] = tuple(FULL)) -> None:
        """Wait until processes say that they are ready."""
        for short in shorts:
            await asyncio.to_thread(controlplane.wait_ready, self.plane.dir, FULL[short], START_SECONDS)

    # --- a run ----------------------------------------------------------------------------

    async def wipe(self) -> None:
        """Take away what is left of the last run; raises Dirty."""
        for tap in self.taps.values():
            tap.begin()
        try:
            async with asyncio.timeout(WIPE_SECONDS + START_SECONDS):
                await self._renew()
                await self.up()
                await self.configure(SETTINGS)
                await self._remove()
                await self.view.until(self.is_clean, WIPE_SECONDS, self.unclean)
                await self.rest(REST, WIPE_SECONDS)
        except (LateError, TimeoutError, RuntimeFault) as error:
            raise Dirty(f"what the last run left stays: {error}") from error

    async def _renew(self) -> None:
        suspects, self.suspect = self.suspect, set()
        for short in suspects:
            self.clock(short).write_text("0")
            await self.stop(short)
            self.start(short)

    async def _remove(self) -> None:
        for (kind, name), obj in list(self.recorder.now.items()):
            if kind == "Pod" and name.startswith(f"{TEAM}/"):
                await self.delete(resources.POD, name.partition("/")[2], TEAM)
            elif kind == "GPUPool":
                await self.delete(resources.GPUPOOL, name)
            elif kind == "Node" and name not in NODES:
                await self.delete(resources.NODE, name)
            elif kind == "Node" and FAULT in obj["metadata"].get("annotations", {}):
                await self._unmark(resources.NODE, name, FAULT)
        await self.view.until(lambda: not list(self.view.pools), WIPE_SECONDS, self.unclean)
        await self._new_nodes()
        for name in self._stray():  # Kubernetes' own collector comes after up to a minute
            await self.delete(resources.POD, name.partition("/")[2], names.NAMESPACE)
        for device in list(self.view.devices):
            marks = device.metadata.annotations.keys() & {names.ASSIGNMENT, names.RETURN, names.LABEL_IGNORE}
            if marks:
                await self._unmark(resources.GPUDEVICE, device.name, *marks)

    def _stray(self) -> list[str]:
        """Our pods on nodes that are gone."""
        return [
            name
            for name, pod in self.recorder.of("Pod").items()
            if name.startswith(f"{names.NAMESPACE}/") and pod["spec"].get("nodeName", NODES[0]) not in NODES
        ]

    async def _new_nodes(self) -> None:
        """What a MIG manager said last stays on the card: a new node has cards that were never divided."""
        for name in {d.status.node_name or "" for d in self.view.devices if d.status.mig_apply}:
            await self.delete(resources.NODE, name)
            await self.view.until(lambda name=name: self.view.inventories.get(name) is None, WIPE_SECONDS, self.unclean)
        for name in NODES:
            if ("Node", name) not in self.recorder.now:
                await self.join(name)

    async def _unmark(self, resource: resources.Resource, name: str, *marks: str) -> None:
        body = {"metadata": {"annotations": dict.fromkeys(marks)}}
        with suppress(NotFound):
            await self.client.merge(resource, name, body, manager=MANAGER)

    def is_clean(self) -> bool:
        """Whether there are the two nodes, ready, with their cards in no pool, and nothing else."""
        return not self.left()

    def left(self) -> list[str]:
        """What is there and should not be, and the other way about."""
        now, devices = self.recorder.now, list(self.view.devices)
        found = [f"nodes: {wrong}" for wrong in self._wrong_nodes()]
        found += [f"pool {pool.name}" for pool in self.view.pools]
        found += [f"stray pod {name}" for name in self._stray()]
        found += [f"pod {name}" for kind, name in now if kind == "Pod" and name.startswith(f"{TEAM}/")]
        found += [
            f"{kind} {name}"
            for (kind, name), obj in now.items()
            if kind in ("ConfigMap", "DaemonSet") and names.LABEL_POOL in obj["metadata"].get("labels", {})
        ]
        if len(devices) != 2 * len(NODES):
            found.append(f"{len(devices)} cards")
        return found + [f"card {device.name}: {device.status}" for device in devices if _in_use(device)]

    def _wrong_nodes(self) -> list[str]:
        there = {node.name for node in self.view.nodes}, {inventory.name for inventory in self.view.inventories}
        wrong = [str(sorted(found)) for found in there if found != set(NODES)]
        return wrong if self.ready(*NODES) else [*wrong, self.view.unready()]

    def unclean(self) -> str:
        """What is there."""
        return "; ".join(self.left())

    def begin(self) -> None:
        """What is now is where a run begins."""
        for tap in self.taps.values():
            tap.begin()
        self.recorder.begin()
        self.plain, self.step, self.before_step = [], 0, None
        self._log_from = {short: self._log(short).stat().st_size for short in FULL}
        self._bystander = asyncio.create_task(self._create_plain())

    async def end(self) -> None:
        """No more bystanders."""
        if self._bystander is not None:
            self._bystander.cancel()
            await asyncio.gather(self._bystander, return_exceptions=True)
            self._bystander = None

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
        for short, start in self._log_from.items():
            with self._log(short).open("rb") as file:
                file.seek(start)
                found[short] = file.read().decode(errors="replace").splitlines()
        return found

    def _log(self, short: str) -> Path:
        return Layout.of(self.plane.dir).log(FULL[short])

    def active_at(self) -> float:
        """When anything was last written by the module, or changed, monotonic."""
        return max(self.recorder.changed_at, *(tap.wrote_at for tap in self.taps.values()))

    async def rest(self, seconds: float, within: float) -> bool:
        """Wait until nothing has moved for so long; False where that does not come true in time."""
        deadline = time.monotonic() + within
        while (left := self.active_at() + seconds - time.monotonic()) > 0:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(min(left, 0.2))
        return True

    async def stirs(self, deadline: float) -> bool:
        """Wait until something moves again; False where nothing does before then (monotonic)."""
        was = self.active_at()
        for _ in range(round(max(0.0, deadline - time.monotonic()) / 0.2)):
            if self.active_at() != was:
                return True
            await asyncio.sleep(0.2)
        return False

    # --- what people do, without retries ------------------------------------------------------

    async def configure(self, settings: dict[str, Any], *, enabled: bool = True) -> None:
        """Write the ModuleConfig."""
        body = {
            "apiVersion": resources.MODULECONFIG.api_version,
            "kind": "ModuleConfig",
            "metadata": {"name": names.MODULE},
            "spec": {"enabled": enabled, "version": 1, "settings": settings},
        }
        await self.eventually(
            lambda: self.client.apply(resources.MODULECONFIG, names.MODULE, body, manager=MANAGER), 20
        )

    async def join(self, name: str) -> None:
        """Add a node."""
        (made,) = node_manifests([SHAPE], prefix="x")
        made["metadata"]["name"] = name
        made["metadata"]["labels"][names.LABEL_HOSTNAME] = name
        with suppress(AlreadyExists):
            await self.client.create(resources.NODE, made, manager=MANAGER)

    async def delete(self, resource: resources.Resource, name: str, namespace: str | None = None) -> None:
        """Delete an object, at once; none is fine."""
        with suppress(NotFound):
            await self.client.request("DELETE", resource.path(namespace, name), body={"gracePeriodSeconds": 0})

    async def eventually(self, call: Callable[[], Awaitable[Any]], seconds: float) -> Any:
        """Repeat a request until it succeeds; raises the last refusal."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return await call()
            except RuntimeFault:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    def ready(self, *nodes: str) -> bool:
        """Whether nodes' cards may be pooled."""
        found = (self.view.inventories.get(node) for node in nodes)
        return all(i is not None and is_true(i.status.conditions, READY_FOR_POOLING) for i in found)


def _in_use(device: GPUDevice) -> bool:
    """Whether a card is anything but free."""
    status = device.status
    held = status.pool_ref or status.published or status.reservations or status.allocations or status.mig_apply
    return bool(held) or status.state != "Unassigned" or names.ASSIGNMENT in device.metadata.annotations
