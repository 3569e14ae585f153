"""Scans the node for the MIG manager: the PCI bus, and the driver's present MIG layout.

Each look asks the driver anew, in a process of its own that ends with its answer (`nodeagent.host.nvml`): nothing of
ours is left holding a card open when it is to be reset.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from controllers.domain.catalogue import canonical_profile
from controllers.domain.mig import DISABLED, CardLayout
from controllers.domain.pci import place
from nodeagent.host import library, procfs, sysfs
from nodeagent.mig.cards.records import DriverReport, HostEvidence, Loading, NodeScan

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from nodeagent.host.driver_probe import DriverProbe
    from nodeagent.host.facts.records import Driver, DriverCard
    from nodeagent.host.paths import HostPaths


class NodeScanner(Protocol):
    """What looks at the node."""

    async def collect_evidence(self, addresses: Collection[str]) -> HostEvidence:
        """What is to be seen now, also of the cards with those addresses; the driver is not asked."""

    async def scan(self, addresses: Collection[str]) -> NodeScan:
        """What is there now, of the cards with those addresses and of all that the driver tells."""


class HostScanner:
    """The real one."""

    def __init__(self, places: HostPaths, probe: DriverProbe) -> None:
        """Prepare."""
        self._places, self._probe = places, probe

    async def collect_evidence(self, addresses: Collection[str]) -> HostEvidence:
        """See `NodeScanner`."""
        return await asyncio.to_thread(self._collect_evidence, addresses)

    def _collect_evidence(self, addresses: Collection[str]) -> HostEvidence:
        loading, (lost, driver) = self._loading(), self._files(addresses)
        taken = frozenset(driver.cards) if driver is not None else frozenset[str]()
        return HostEvidence(loading, lost, taken, procfs.layout(self._places.proc))

    def _loading(self) -> Loading | None:
        boot = procfs.boot_id(self._places.proc)
        loaded = procfs.is_loaded(self._places.proc, self._places.sys)
        return Loading(boot, procfs.load(self._places.sys)) if boot and loaded else None

    async def scan(self, addresses: Collection[str]) -> NodeScan:
        """See `NodeScanner`."""
        loading = await asyncio.to_thread(self._loading)
        lost, by_files = await asyncio.to_thread(self._files, addresses)
        if by_files is None:
            return NodeScan(lost=lost, unavailable_reason="no driver is loaded")
        self._probe.forget()  # so that it is asked anew, and waited for
        answer = await self._probe.answer(by_files.version, ())
        if answer.driver is None:
            return NodeScan(
                lost=lost, unavailable_reason=answer.reason or "the driver does not answer", loading=loading
            )
        return NodeScan(driver_reports(by_files, answer.driver), lost, loading=loading)

    def _files(self, addresses: Collection[str]) -> tuple[frozenset[str], Driver | None]:
        return sysfs.lost(self._places.sys, addresses), procfs.read(self._places.proc, self._places.sys)


def driver_reports(by_files: Driver, by_driver: Driver) -> dict[str, DriverReport]:
    """The cards that the driver tells of.

    mig-parted counts the cards that NVML answers for by address, and then gives NVML that number. One that does not
    answer shifts the count for all that come after it.
    """
    everyone = sorted(by_files.cards.keys() | by_driver.cards.keys(), key=place)
    silent = next((n for n, address in enumerate(everyone) if address not in by_driver.cards), len(everyone))
    return {
        address: _driver_report(by_driver.cards[address], number if number < silent else None)
        for number, address in enumerate(everyone)
        if address in by_driver.cards
    }


def _driver_report(card: DriverCard, index: int | None) -> DriverReport:
    return DriverReport(_layout(card), card.uuid, card.mig_capable, card.mig_profiles, index)


def _layout(card: DriverCard) -> CardLayout | None:
    if card.mig_capable is False:
        return DISABLED
    if card.mig_enabled is None or "mig_instances" in card.failed:
        return None
    if not card.mig_enabled:
        return DISABLED
    return CardLayout(True, {canonical_profile(name) or name: count for name, count in card.mig_instances.items()})


def library_folder(places: HostPaths, folder: Path) -> Path | None:
    """A folder with a link to the host's driver library and nothing else; None where the loader finds it by itself.

    The host's own folder of libraries would bring its libc into a program of this image.
    """
    roots = [root for root in places.library_roots() if str(root) != "/"]
    driver = procfs.read(places.proc, places.sys)
    found = library.candidates(roots, driver.version if driver is not None else "")
    if not found:
        return None
    made = folder / "lib"
    made.mkdir(exist_ok=True)
    fresh = made / f".{library.NAME}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(found[0])
    fresh.replace(made / library.NAME)
    return made
