"""Scans the node for the device plugin: cards on the bus, MIG instances, device nodes, CDI names.

Two rhythms. Whether the cards are on the bus is a question to the kernel that costs nothing and is asked
at every check; the driver's files, its device nodes and the CDI specifications are read once in a while,
in a thread. The driver itself is asked as rarely as `nodeagent.host.driver_probe` does, in a process of its own.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from controllers.runtime.errors import RuntimeFault
from nodeagent.deviceplugin.devices import cdi
from nodeagent.deviceplugin.devices.allocate import CAPABILITIES, SHARED_NODES
from nodeagent.deviceplugin.devices.records import NodeScan
from nodeagent.host import mpsfiles, procfs, sysfs
from nodeagent.host.hostfiles import Reader, text
from nodeagent.host.mpsfiles import Daemons
from nodeagent.host.runtimes import configurations

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from nodeagent.host.driver_probe import DriverAnswer, DriverProbe
    from nodeagent.host.facts.records import Driver, MigDevice
    from nodeagent.host.mpsfiles import WantedDaemon
    from nodeagent.host.paths import HostPaths

log = structlog.get_logger()
SPEC_MAX = 4 * 1024 * 1024
SUFFIXES = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class MigReport:
    """What the driver told of a card's MIG instances."""

    uuid: str
    """Of the card."""
    instances: tuple[MigDevice, ...]
    access: Mapping[str, tuple[int, ...]]


@dataclass
class NodeScanner:
    """One node, looked at again and again."""

    paths: HostPaths
    dev: Path
    cdi_dirs: tuple[Path, ...]
    probe: DriverProbe
    slow_period: float = 10.0
    """Seconds between two looks at what changes seldom."""
    mps: Path | None = None
    """The folder of the pool's MPS role; None in other modes."""
    runtime: str = ""
    """The container runtime, as the Node tells it."""
    _slow: NodeScan = field(default_factory=NodeScan, init=False)
    _due: float = field(default=float("-inf"), init=False)
    _specs: dict[Path, tuple[tuple[int, int], frozenset[str]]] = field(default_factory=dict, init=False)
    _reports: dict[str, MigReport] = field(default_factory=dict, init=False)
    _daemons: Daemons = field(default_factory=lambda: Daemons(known=False), init=False)
    _runtime_error: str = field(default="", init=False)

    async def scan(self, cards: Mapping[str, str], *, ask: bool = True) -> NodeScan:
        """What is there now, of the cards with those addresses; with each its uuid, empty where that is not known.

        `ask`: whether the driver is asked.
        """
        if time.monotonic() >= self._due:
            self._slow = await self._slowly(ask=ask)
            self._due = time.monotonic() + self.slow_period
        silent = self._slow.unresponsive & cards.keys()
        seen = replace(self._slow, unresponsive=silent, lost=sysfs.lost(self.paths.sys, cards))
        # Without what was told earlier, a card that falls silent would leave kubelet's list instead of being ill in it.
        self._reports = {a: told for a, told in self._reports.items() if ask and cards.get(a) in ("", told.uuid)}
        return await self.with_daemons(_with_instances(seen, self._reports))

    async def with_daemons(self, seen: NodeScan) -> NodeScan:
        """The same with what the pool's MPS role says by now; where that cannot be read, with what it said."""
        if self.mps is None:
            return seen
        said = await asyncio.to_thread(mpsfiles.read_state, self.mps)
        if said.known:
            self._daemons = said
        else:
            said = replace(self._daemons, alive=said.alive, asked_for=said.asked_for, read=False)
        return replace(seen, daemons=said)

    async def want_daemons(self, cards: Mapping[str, WantedDaemon]) -> None:
        """Tell the pool's MPS role, where there is one, what is wanted of its cards."""
        if self.mps is None:
            return
        try:
            await asyncio.to_thread(mpsfiles.write_wanted, self.mps, cards)
        except OSError as error:
            log.warning("the MPS role cannot be told", path=str(self.mps), why=error.strerror or str(error))

    def rescan(self) -> None:
        """Read everything anew at the next look."""
        self._due = float("-inf")

    async def learn_runtime(self, read: Callable[[], Awaitable[str]]) -> None:
        """Ask which container runtime the node has; what is known stays where nobody answers."""
        try:
            told = await read()
        except (RuntimeFault, KeyError) as error:
            if str(error) != self._runtime_error:
                self._runtime_error = str(error)
                known = self.runtime or "not known, and CDI is left alone unless asked for"
                log.warning("the node's container runtime cannot be read", why=self._runtime_error, runtime=known)
            return
        self._runtime_error = ""
        if told and told != self.runtime:
            self.runtime = told
            self.rescan()

    async def follow_runtime(self, read: Callable[[], Awaitable[str]], period: float) -> None:
        """Go on asking: at every slow look while it is not known, else once a period."""
        while True:
            await asyncio.sleep(period if self.runtime else self.slow_period)
            await self.learn_runtime(read)

    async def _slowly(self, *, ask: bool) -> NodeScan:
        seen, driver, layout = await asyncio.to_thread(self._files)
        if driver is None or not ask:
            self.probe.forget()
            # An unloaded driver's instances are remembered, for their capacity, and ill.
            return replace(seen, unresponsive=frozenset(self._reports)) if ask else seen
        answer = await self.probe.answer(driver.version, (tuple(sorted(driver.cards)), layout))
        silent = _unresponsive(driver, answer, self._slow.unresponsive)
        if answer.driver is None:
            return replace(seen, unresponsive=silent)
        told = _mig_reports(seen, answer.driver, self.paths.proc)
        self._reports |= told
        return replace(_with_instances(seen, told), unresponsive=silent, remembered=frozenset())

    def _files(self) -> tuple[NodeScan, Driver | None, tuple[str, ...]]:
        """What files tell, without the driver's own answer."""
        proc = self.paths.proc
        driver = procfs.read(proc, self.paths.sys)
        minors = {
            address: int(told["Device Minor"])
            for address, told in procfs.information(proc).items()
            if told.get("Device Minor", "").isdigit()
        }
        names = frozenset(name for path in self._spec_files() for name in self._names(path))
        applied = cdi.applied(self.runtime, configurations(Reader(self.paths.root)))
        seen = NodeScan(minors=minors, nodes=self._nodes(minors.values()), cdi=names, runtime_cdi=applied)
        return seen, driver, procfs.layout(proc)

    def _nodes(self, minors: Iterable[int]) -> frozenset[str]:
        wanted = [*SHARED_NODES, *(f"nvidia{minor}" for minor in minors)]
        there = {name for name in wanted if (self.dev / name).exists()}
        caps = self.dev / CAPABILITIES
        return frozenset(there | {f"{CAPABILITIES}/{path.name}" for path in (caps.iterdir() if caps.is_dir() else ())})

    def _spec_files(self) -> list[Path]:
        found: list[Path] = []
        for folder in self.cdi_dirs:
            try:
                found += sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
            except OSError:
                continue
        return found

    def _names(self, path: Path) -> frozenset[str]:
        """What a specification names; a file is read anew only when it has changed."""
        try:
            stat = path.stat()
            stamp = stat.st_mtime_ns, stat.st_size
            if path not in self._specs or self._specs[path][0] != stamp:
                content = path.read_text("utf-8", "replace") if stat.st_size <= SPEC_MAX else ""
                self._specs[path] = stamp, cdi.names(content)
        except OSError:
            return frozenset()
        return self._specs[path][1]


def _mig_reports(seen: NodeScan, driver: Driver, proc: Path) -> dict[str, MigReport]:
    """The instances of the cards that the driver tells of."""
    return {
        address: MigReport(
            card.uuid,
            card.mig_devices,
            {device.uuid: _access(proc, seen.minors.get(address), device) for device in card.mig_devices},
        )
        for address, card in driver.cards.items()
        if card.mig_enabled is not None and "mig_instances" not in card.failed
    }


def _unresponsive(by_files: Driver, answer: DriverAnswer, before: frozenset[str]) -> frozenset[str]:
    """The cards that the driver's files have and the driver, which told all else, does not.

    An answer that is not whole says nothing of what it leaves out: who was silent `before` stays so until it is named.
    """
    told = answer.driver
    missing = frozenset(by_files.cards.keys() - (told.cards.keys() if told is not None else ()))
    whole = told is not None and bool(told.cards) and not told.failed and not answer.pending
    return missing if whole else missing & before


def _with_instances(seen: NodeScan, told: Mapping[str, MigReport]) -> NodeScan:
    """The same with the instances of cards of which it has none."""
    added = {address: each for address, each in told.items() if address not in seen.instances}
    instances = {**{address: each.instances for address, each in added.items()}, **seen.instances}
    access = dict(seen.access)
    for each in added.values():
        access |= each.access
    return replace(seen, instances=instances, access=access, remembered=frozenset(added))


def _access(proc: Path, minor: int | None, device: MigDevice) -> tuple[int, ...]:
    """The capabilities of an instance, from the driver's `…/mig/gi<N>[/ci<M>]/access`: `DeviceFileMinor: 12`."""
    if minor is None:
        return ()
    folder = f"driver/nvidia/capabilities/gpu{minor}/mig/gi{device.gpu_instance}"
    files = (f"{folder}/access", f"{folder}/ci{device.compute_instance}/access")
    return tuple(int(number) for file in files if (number := _values(text(proc, file, 4096)).get("DeviceFileMinor")))


def _values(content: str) -> Mapping[str, str]:
    lines = (line.partition(":") for line in content.splitlines())
    return {key.strip(): value.strip() for key, _, value in lines if value.strip().isdigit()}
