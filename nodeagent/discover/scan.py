"""Scans the node for its NodeFeature: the PCI bus, the driver, the container toolkit and the system.

Files are read in a thread, so that a slow disk does not stop the agent from answering health.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nodeagent.host import procfs, sysfs, system, toolkit
from nodeagent.host.facts.driver import combine

if TYPE_CHECKING:
    from collections.abc import Hashable

    from nodeagent.host.driver_probe import DriverProbe
    from nodeagent.host.driverroot import DriverRoot
    from nodeagent.host.facts.records import Bus, Driver, System, Toolkit
    from nodeagent.host.paths import HostPaths


@dataclass(frozen=True, slots=True)
class Facts:
    """What one scan found."""

    bus: Bus
    driver: Driver | None
    toolkit: Toolkit | None
    boot_id: str
    pending: bool = False
    """Whether an answer of the driver is still awaited."""
    why_incomplete: str = ""
    """Why the driver told less than all; empty where it told all."""
    system: System | None = None
    """None where nobody has looked."""


@dataclass
class NodeScanner:
    """Scans one node, again and again."""

    paths: HostPaths
    probe: DriverProbe
    _boot_id: str = field(default="", init=False)

    async def scan(self) -> Facts:
        """Everything that can be known now; raises `sysfs.ScanError` where the bus cannot be read."""
        found = await asyncio.to_thread(self._files)
        bus, by_procfs, root = found.bus, found.driver, found.root
        if by_procfs is None:
            self.probe.forget()
            return Facts(bus, None, found.toolkit, self.boot_id, system=found.system)
        about = (*_fingerprint(bus, by_procfs, found.layout), root.library)
        answer = await self.probe.answer(by_procfs.version, about, by_procfs.load)
        driver = combine(replace(by_procfs, root=root.reported_name), answer.driver)
        return Facts(bus, driver, found.toolkit, self.boot_id, answer.pending, answer.reason, found.system)

    @property
    def boot_id(self) -> str:
        """The id of this boot; it cannot change while we run."""
        self._boot_id = self._boot_id or procfs.boot_id(self.paths.proc)
        return self._boot_id

    def _files(self) -> _Files:
        places = self.paths
        bus = sysfs.scan(places.sys)
        by_procfs = procfs.read(places.proc, places.sys)
        layout = procfs.layout(places.proc) if by_procfs is not None else ()
        root = places.driver()
        return _Files(bus, by_procfs, layout, toolkit.read(places.root), root, system.read(places, root))


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files of the host tell."""

    bus: Bus
    driver: Driver | None
    layout: tuple[str, ...]
    """MIG instances that have a file of their own."""
    toolkit: Toolkit | None
    root: DriverRoot
    system: System


def _fingerprint(bus: Bus, driver: Driver, layout: tuple[str, ...]) -> tuple[Hashable, ...]:
    """What can be seen without asking the driver, and changes when its answer does."""
    functions = tuple((f.address, f.device, f.driver) for f in bus.functions if f.vendor == "10de")
    return functions, tuple(sorted(driver.cards)), layout
