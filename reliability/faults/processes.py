"""The module's processes on a control plane, each behind a fault proxy.

Every timer of the module is scaled down together, to about a twentieth; leases last 3 s. The API server reaches the
webhook through a balancer of ours, so that a second replica can stand behind the same address. A second replica of any
process is called `<short>-2`; it is there for one run.
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
from typing import TYPE_CHECKING, Final

import aiohttp

from controllers.api import names
from reliability.faults.process_proxy import ProcessProxy
from sim import controlplane
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.module.balancer import Backend, Balancer
from sim.module.identities import kubeconfig_for
from sim.module.install import ROOT, Tools
from sim.module.processes import Timers, exporter_url, module_process
from tools import programs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reliability.kit.apiserver import Server

PACE: Final = float(os.environ.get("FAULTS_PACE", "1"))
"""Every time is so many times as long: for a machine on which much else runs, where leases of 3 s are lost by
themselves."""
TIMERS: Final = Timers(
    lease_duration=3.0 * PACE, renew_deadline=2.0 * PACE, retry_period=0.4 * PACE, watch_idle=6.0 * PACE
)
REQUEST_TIMEOUT: Final = 5.0 * PACE
FLAGS: Final = (f"--watch-seconds={12 * PACE:g}", f"--request-timeout={REQUEST_TIMEOUT:g}")
"""Beside those: watches end in order within a run, and a request without an answer is given up within it."""
FULL: Final = {
    "inventory": names.INVENTORY,
    "bootstrap": names.BOOTSTRAP,
    "gpupool": names.POOL_CONTROLLER,
    "driver": names.DRIVER_CONTROLLER,
    "webhook": names.WEBHOOK,
}
CONTROLLERS: Final = "kube-controller-manager"
CLOCK: Final = ROOT / "reliability" / "kit" / "clock"
START_SECONDS: Final = 120.0 * PACE
MANAGER: Final = "people"
REVIEWS: Final = ("gpu_webhook_reviews_total{", "gpu_webhook_validations_total{")


def standby_of(short: str) -> str:
    """What the second replica of a process is called here."""
    return f"{short}-2"


class Processes:
    """See the module's text. `wrapped`: what the processes are started through, instead of `-m`: a bug on purpose."""

    plane: controlplane.ControlPlane
    server: Server

    def __init__(self, folder: Path, wrapped: tuple[str, ...] = ()) -> None:
        self.folder, self._wrapped = folder, wrapped
        self.proxies: dict[str, ProcessProxy] = {}
        """By short name; that of a second replica stays until the next run, since it tells what was sent."""
        self._specs: dict[str, controlplane.ProcessSpec] = {}
        self._flags: dict[str, tuple[str, ...]] = {}
        self._configs: dict[str, Path] = {}
        self._balancer = Balancer(())
        self._backends: list[Backend] = []

    async def start_module(self, port: int) -> None:
        """Start one of each; `port`: where the API server asks the webhook."""
        tools = Tools(self.plane.kubectl, programs.ensure(["helm"])["helm"], self.plane.kubeconfig)
        exporters = controlplane.status(self.plane.dir).processes["simulated-agent"].ports["exporters"]
        self._flags = {
            "bootstrap": (f"--exporter-url={exporter_url(exporters)}",),
            "webhook": (
                *("--host=127.0.0.1", "--contact-seconds=3", "--drain-seconds=0.2"),
                f"--certificate-settle={0.5 * PACE:g}",
            ),
        }
        folder = self.plane.dir / "pki" / "identities"
        for short, name in FULL.items():
            self._configs[short] = await asyncio.to_thread(kubeconfig_for, self.plane, tools, name, folder)
            await self._add(short, short)
        self._balancer = Balancer(self._backends)
        await self._balancer.start(port)
        await self.up()

    async def _add(self, called: str, short: str) -> None:
        """Start a process behind a proxy of its own."""
        health, reviews = free_ports(2)
        proxy = self.proxies[called] = ProcessProxy(self.server, short, 1 if called == short else 2)
        await proxy.start()
        content = json.loads(self._configs[short].read_text())
        content["clusters"][0]["cluster"]["server"] = proxy.url
        config = self._configs[short].with_name(f"{called}.tap")
        with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(content, file)
        extra = (*FLAGS, *self._flags.get(short, ()))
        if short == "webhook":
            self._backends.append(Backend(reviews))
            extra = (*extra, f"--port={reviews}")
        spec = module_process(FULL[short], config, health, TIMERS, *extra, replica=proxy.replica)
        self.clock(called).write_text("0")
        env = {**spec.env, "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}", "FAULTS_CLOCK": str(self.clock(called))}
        argv = spec.argv if not self._wrapped else (spec.argv[0], *self._wrapped, *spec.argv[2:])
        self._specs[called] = replace(spec, env=env, argv=argv)
        self.start(called)

    async def end_module(self) -> None:
        """Let go of what stands before the processes."""
        await self._balancer.stop()
        for proxy in self.proxies.values():
            await proxy.close()

    # --- one process ----------------------------------------------------------------------

    def clock(self, short: str) -> Path:
        """The file that says how far off a process's wall clock is, in seconds."""
        return self.folder / f"{short}.clock"

    def log(self, short: str) -> Path:
        """What a process logs."""
        return Layout.of(self.plane.dir).log(self._name(short))

    def pid(self, short: str) -> int:
        """A process's id now, 0 while it is down."""
        process = controlplane.status(self.plane.dir).processes.get(self._name(short))
        return process.pid if process else 0

    def pids(self) -> list[int]:
        """The control plane's and the module's programs that are up, and this one, which their requests go through."""
        return [os.getpid(), *(one.pid for one in controlplane.status(self.plane.dir).processes.values() if one.pid)]

    def _name(self, short: str) -> str:
        """As the supervisor knows it."""
        base, dash, _ = short.rpartition("-")
        return f"{FULL[base]}-2" if dash and base in FULL else FULL.get(short, short)

    def signal(self, short: str, number: signal.Signals) -> bool:
        """Send a process a signal; whether it was there."""
        pid = self.pid(short)
        if not pid:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if number == signal.SIGKILL and short in self.proxies:
            self.proxies[short].marks.append(time.monotonic())
            self.proxies[short].kills.append(time.monotonic())
        return True

    async def stop(self, short: str) -> None:
        """End a process in order, and leave it ended."""
        await asyncio.to_thread(controlplane.remove_process, self.plane.dir, self._name(short))

    def start(self, short: str) -> None:
        """Have it started again."""
        controlplane.add_process(self.plane.dir, self._specs[short])

    async def up(self, shorts: Iterable[str] = tuple(FULL)) -> None:
        """Wait until processes say that they are ready."""
        for short in shorts:
            await asyncio.to_thread(controlplane.wait_ready, self.plane.dir, self._name(short), START_SECONDS)

    # --- a second replica -------------------------------------------------------------------

    async def second(self, short: str) -> None:
        """Start a second replica of a process; a leader's waits, the webhook's is asked nothing before `share`."""
        called = standby_of(short)
        await self._add(called, short)
        await self.up([called])

    async def alone(self, short: str) -> None:
        """The first replica again, and the second ended; what there was is told by its proxy until the next run."""
        if not self.pid(short):
            self.start(short)
        await self.up([short])
        if short == "webhook":
            await self._unshare()
        await self.stop(standby_of(short))

    async def forget_second(self) -> None:
        """Let go of what second replicas leave."""
        for called in [called for called in self.proxies if called not in FULL]:
            await self.proxies.pop(called).close()
            self._specs.pop(called)

    def share(self) -> None:
        """Pass connections to the webhook's second replica, too."""
        self._balancer.add(self._backends[1])

    async def _unshare(self) -> None:
        second = self._backends.pop()
        with suppress(ValueError):
            self._balancer.remove(second)
        second.cut()

    def reconnect(self) -> None:
        """End the API server's connections to the webhook: the next review goes to the next replica."""
        for backend in self._backends:
            backend.cut()

    async def reviews(self, short: str = "webhook") -> float:
        """How many reviews a webhook has answered, by its metrics; 0 while it is down."""
        url = f"http://127.0.0.1:{self._specs[short].ports['health']}/metrics"
        with suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                lines = (await answer.text()).splitlines()
                return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(REVIEWS))
        return 0.0
