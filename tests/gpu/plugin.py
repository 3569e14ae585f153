"""The device plugin's own parts with this machine's cards, and a kubelet that is played: what a pod gets."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from nodeagent.deviceplugin.devices import allocate
from nodeagent.deviceplugin.devices.allocate import DEVICE_SPECS, AllocationContext
from nodeagent.deviceplugin.devices.records import Listed
from nodeagent.deviceplugin.kubelet import Sockets
from nodeagent.deviceplugin.scanner import NodeScanner
from nodeagent.deviceplugin.service import Service
from nodeagent.deviceplugin.session import Sessions
from tests.nodeagent.deviceplugin.kubelet import Kubelet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodeagent.host.driver_probe import DriverProbe
    from nodeagent.host.facts.records import Driver
    from nodeagent.host.paths import HostPaths

POOL = "gpu"
RESOURCE = f"{names.GROUP}/{POOL}"


def listing(driver: Driver) -> tuple[Listed, ...]:
    """What a plugin would offer: every card, and of cards in MIG mode every MIG device."""
    found: list[Listed] = []
    for address, card in driver.cards.items():
        if not card.mig_enabled:
            found.append(Listed(card.uuid, card.uuid, card.uuid, address))
        found += [Listed(one.uuid, one.uuid, card.uuid, address, instance=one) for one in card.mig_devices]
    return tuple(found)


async def admitted(places: HostPaths, dev: Path, asker: DriverProbe, driver: Driver) -> dict[str, list[str]]:
    """The device nodes that a pod gets with each of the devices, by its id; raises what a kubelet would meet."""
    offered = listing(driver)
    seen = await NodeScanner(places, dev, (), asker).scan({})
    ground = AllocationContext(POOL, {one.id: one for one in offered})

    def prefer(available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        return [*must, *available][:size]

    async def before() -> None:
        return None

    service = Service(prefer, lambda ids: allocate.container_devices(ids, ground, seen, DEVICE_SPECS), lambda: None)
    folder = Path(tempfile.mkdtemp(prefix="gpu"))
    kubelet, decided = Kubelet(folder), asyncio.Event()
    try:
        await kubelet.start()
        await service.show(offered)
        decided.set()
        sessions = Sessions(Sockets(kubelet.plugins, POOL), service, 0.1, before=before, decided=decided)
        running = asyncio.create_task(sessions.run())
        try:
            await kubelet.until(lambda: len(kubelet.healthy(RESOURCE)) == len(offered), "the list")
            return {one.id: await _allocated(kubelet, one.id) for one in offered}
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await kubelet.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _allocated(kubelet: Kubelet, id_: str) -> list[str]:
    answer = await kubelet.allocate(RESOURCE, [id_])
    if answer.envs[names.VISIBLE_DEVICES] != id_:
        raise AssertionError(f"{id_} was asked for, and the container sees {answer.envs[names.VISIBLE_DEVICES]}")
    return [device.host_path for device in answer.devices]
