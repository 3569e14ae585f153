"""Looks at the node: which cards are there, what their driver tells, what containers can be given.

Two rhythms. Whether the cards are on the bus is a question to the kernel that costs nothing and is asked
at every check; the driver's files, its device nodes and the CDI specifications are read once in a while,
in a thread. The driver itself is asked as rarely as `nodeagent.host.ask` does, in a process of its own.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nodeagent.deviceplugin import cdi
from nodeagent.deviceplugin.give import CAPABILITIES, SHARED_NODES
from nodeagent.deviceplugin.records import Seen
from nodeagent.host import procfs, sysfs
from nodeagent.host.hostfiles import text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from nodeagent.host.ask import Answer, Asker
    from nodeagent.host.facts import Driver, MigDevice
    from nodeagent.host.places import Places

SPEC_MAX = 4 * 1024 * 1024
SUFFIXES = (".json", ".yaml", ".yml")
CONTAINERD = "etc/containerd/config.toml"


@dataclass
class Looker:
    """One node, looked at again and again."""

    places: Places
    dev: Path
    cdi_dirs: tuple[Path, ...]
    asker: Asker
    slow_period: float = 10.0
    """Seconds between two looks at what changes seldom."""
    runtime: str = ""
    """The container runtime, as the Node tells it."""
    _slow: Seen = field(default_factory=Seen, init=False)
    _due: float = field(default=float("-inf"), init=False)
    _specs: dict[Path, tuple[tuple[int, int], frozenset[str]]] = field(default_factory=dict, init=False)

    async def look(self, addresses: Collection[str]) -> Seen:
        """What is there now, of the cards with those addresses."""
        if time.monotonic() >= self._due:
            self._slow = await self._slowly()
            self._due = time.monotonic() + self.slow_period
        silent = self._slow.silent & frozenset(addresses)
        return replace(self._slow, silent=silent, lost=sysfs.lost(self.places.sys, addresses))

    def hasten(self) -> None:
        """Read everything anew at the next look."""
        self._due = float("-inf")

    async def _slowly(self) -> Seen:
        seen, driver, layout = await asyncio.to_thread(self._files)
        if driver is None:
            self.asker.forget()
            return seen
        answer = await self.asker.answer(driver.version, (tuple(sorted(driver.cards)), layout))
        return _with_driver(seen, driver, answer, self.places.proc)

    def _files(self) -> tuple[Seen, Driver | None, tuple[str, ...]]:
        """What files tell, without the driver's own answer."""
        proc = self.places.proc
        driver = procfs.read(proc, self.places.sys)
        minors = {
            address: int(told["Device Minor"])
            for address, told in procfs.information(proc).items()
            if told.get("Device Minor", "").isdigit()
        }
        names = frozenset(name for path in self._spec_files() for name in self._names(path))
        applied = cdi.applied(self.runtime, text(self.places.root, CONTAINERD, SPEC_MAX))
        seen = Seen(minors=minors, nodes=self._nodes(minors.values()), cdi=names, runtime_cdi=applied)
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


def _with_driver(seen: Seen, by_files: Driver, answer: Answer, proc: Path) -> Seen:
    """The same with what the driver says.

    A card is silent where the driver's files have it and the driver, which told all else, does not.
    """
    told = answer.driver
    if told is None:
        return seen
    whole = not answer.pending and not told.failed
    silent = frozenset(by_files.cards.keys() - told.cards.keys()) if whole and told.cards else frozenset[str]()
    instances = {
        address: card.mig_devices
        for address, card in told.cards.items()
        if card.mig_enabled is not None and "mig_instances" not in card.failed
    }
    access = {
        device.uuid: _access(proc, seen.minors.get(address), device)
        for address, devices in instances.items()
        for device in devices
    }
    return replace(seen, silent=silent, instances=instances, access=access)


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
