"""What a device plugin does, simulated or real: the simulation may not drift from the truth.

Every test runs against `sim.nodes.agent` and against `nodeagent device-plugin` with a kubelet over real
sockets, on the same API server, and looks only at what the cluster sees: GPUDevice and allocatable.
Both decide by the same modules; what may drift apart is what the plugin sees of its node, and kubelet.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from controllers.api.resources import NODE
from controllers.domain.plugin_settings import PluginSettings
from sim.nodes import names as sim
from tests.nodeagent.deviceplugin.conftest import Node
from tests.nodeagent.deviceplugin.drivers import Driver, Real, Simulated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.nodeagent.deviceplugin.kubelet import Kubelet
    from tests.nodeagent.deviceplugin.node import World
    from tests.nodeagent.discover.node import Agent

pytestmark = pytest.mark.cluster
A, B = "alpha", "beta"
CARDS, SLOTS = PluginSettings(A, "Exclusive", 1), PluginSettings(A, "TimeSlice", 4)


@asynccontextmanager
async def _real(world: World, kubelet: Kubelet, folder: Path) -> AsyncIterator[Driver]:
    agents: list[Agent] = []
    yield Real(Node(world, kubelet, folder, agents))
    for agent in agents:
        await asyncio.to_thread(agent.end)


@asynccontextmanager
async def _simulated(world: World, folder: Path) -> AsyncIterator[Driver]:
    marks = {sim.FAKE: "fake", sim.SHAPE: "t4-4"}
    await world.cluster.client.merge(NODE, world.name, {"metadata": {"annotations": marks}}, manager="test")
    driver = Simulated(world, folder, world.cluster.admin)
    try:
        yield driver
    finally:
        driver.stop()


@pytest.fixture(params=["simulated", "real"])
async def driver(request: pytest.FixtureRequest, world: World, kubelet: Kubelet, short: Path) -> AsyncIterator[Driver]:
    """One of the two."""
    made = _real(world, kubelet, short) if request.param == "real" else _simulated(world, short)
    async with made as found:
        yield found
    for pool in (A, B):
        await world.forget(pool)


async def offers(driver: Driver, pool: str, slots: int) -> None:
    """Wait until kubelet shows so many slots: it reads a list when it comes to it, whatever has been written since."""
    await driver.world.until(lambda: driver.allocatable(pool), slots)


async def test_what_the_list_names_is_published_with_its_version(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0, 2, others=5)
    await driver.start(A)
    await offers(driver, A, 2)
    assert await driver.world.published() == {0: (A, 1), 2: (A, 1)}
    assert (await driver.world.get(0)).status.published == CARDS.of(driver.world.id(0))


async def test_slots_and_their_change(driver: Driver) -> None:
    await driver.world.configure(A, SLOTS, 0, 1)
    await driver.start(A)
    await offers(driver, A, 8)
    before = await driver.world.get(1)
    await driver.world.configure(A, PluginSettings(A, "TimeSlice", 4, None, {driver.world.id(0): 2}), 0, 1)
    await offers(driver, A, 6)
    await driver.world.until(driver.world.published, {0: (A, 2), 1: (A, 4)})
    assert (await driver.world.get(1)).metadata.resource_version == before.metadata.resource_version
    await driver.world.configure(A, PluginSettings(A, "TimeSlice", 8), 0, 1)
    await offers(driver, A, 16)


async def test_a_card_that_leaves_the_list_is_withdrawn(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0, 1)
    await driver.start(A)
    await offers(driver, A, 2)
    await driver.world.configure(A, CARDS, 1)
    await driver.world.until(driver.world.published, {1: (A, 1)})
    await offers(driver, A, 1)


async def test_without_its_configmap_a_pool_offers_nothing(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0)
    await driver.start(A)
    await offers(driver, A, 1)
    await driver.world.forget(A)
    await driver.world.until(driver.world.published, {})
    await offers(driver, A, 0)


async def test_settings_that_cannot_be_read_keep_what_is_published(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0)
    await driver.start(A)
    await offers(driver, A, 1)
    known = await driver.world.get(0)
    await driver.world.configure(A, "not settings", 0, 1)
    await driver.world.configure(A, "not settings", 0, 1, shard=".0")
    await driver.crash()
    await offers(driver, A, 1)
    await driver.world.configure(A, CARDS, 0, 2)
    await offers(driver, A, 3)
    assert await driver.world.published() == {0: (A, 1), 1: (A, 1), 2: (A, 1)}, (
        "the shard's card came with the settings"
    )
    assert (await driver.world.get(0)).metadata.resource_version == known.metadata.resource_version


async def test_a_card_is_never_of_two_pools(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0, 1)
    await driver.world.configure(B, PluginSettings(B, "Exclusive", 1), 1, 2)
    await driver.start(A)
    await offers(driver, A, 2)
    await driver.start(B)
    await offers(driver, B, 1)
    assert await driver.world.published() == {0: (A, 1), 1: (A, 1), 2: (B, 1)}
    await driver.world.configure(A, CARDS, 0)
    await offers(driver, B, 2)
    assert await driver.world.published() == {0: (A, 1), 1: (B, 1), 2: (B, 1)}
    await offers(driver, A, 1)


async def test_what_a_pod_holds_is_reported_while_it_runs(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0, 1, 2)
    await driver.start(A)
    await offers(driver, A, 3)
    pod = f"{driver.world.name}-p"
    await driver.run(pod, A, devices=(2,))
    await driver.world.until(driver.world.allocations, {2: [(pod, "main", 1)]})
    uid = (await driver.world.get(2)).status.allocations[0].pod_uid
    assert uid == await driver.world.pod_uid(pod)
    await driver.end(pod)
    await driver.world.until(driver.world.allocations, {})
    assert len(await driver.world.published()) == 3


async def test_slots_of_one_card_for_two_pods(driver: Driver) -> None:
    await driver.world.configure(A, SLOTS, 0)
    await driver.start(A)
    await offers(driver, A, 4)
    pods = [f"{driver.world.name}-{n}" for n in "ab"]
    await driver.run(pods[0], A, 3)
    await driver.world.until(driver.world.allocations, {0: [(pods[0], "main", 3)]})
    await driver.run(pods[1], A, 1)
    await driver.world.until(driver.world.allocations, {0: [(pods[0], "main", 3), (pods[1], "main", 1)]})
    await driver.end(pods[0])
    await driver.world.until(driver.world.allocations, {0: [(pods[1], "main", 1)]})


async def test_what_an_init_container_had_is_not_told_and_given_to_nobody_else(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0, 1, 2)
    await driver.start(A)
    await offers(driver, A, 3)
    pods = [f"{driver.world.name}-{n}" for n in "ab"]
    await driver.run(pods[0], A, 1, devices=(0, 1), init=2)
    await driver.world.until(driver.world.allocations, {0: [(pods[0], "main", 1)]})
    await driver.run(pods[1], A, 1, devices=(1,))
    await driver.world.until(driver.world.allocations, {0: [(pods[0], "main", 1)], 2: [(pods[1], "main", 1)]})


async def test_a_pod_keeps_a_card_that_is_withdrawn(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0)
    await driver.start(A)
    await offers(driver, A, 1)
    pod = f"{driver.world.name}-p"
    await driver.run(pod, A)
    await driver.world.until(driver.world.allocations, {0: [(pod, "main", 1)]})
    await driver.world.configure(A, CARDS)
    await driver.world.until(driver.world.published, {})
    assert await driver.world.allocations() == {0: [(pod, "main", 1)]}
    await driver.end(pod)
    await driver.world.until(driver.world.allocations, {})


async def test_a_lost_card_is_withdrawn_and_comes_back(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0, 1)
    await driver.start(A)
    await offers(driver, A, 2)
    await driver.lose(1)
    await driver.world.until(driver.world.published, {0: (A, 1)})
    await offers(driver, A, 1)
    await driver.restore(1)
    await offers(driver, A, 2)
    assert await driver.world.published() == {0: (A, 1), 1: (A, 1)}


async def test_after_a_crash_nothing_is_written_anew(driver: Driver) -> None:
    await driver.world.configure(A, CARDS, 0, 1)
    await driver.start(A)
    await offers(driver, A, 2)
    pod = f"{driver.world.name}-p"
    await driver.run(pod, A)
    await driver.world.until(lambda: holders(driver), [pod])
    versions = [(await driver.world.get(n)).metadata.resource_version for n in range(4)]
    await driver.crash()
    await driver.world.configure(A, CARDS, 0, 1, 3)  # by this we see that it works again
    await driver.world.until(driver.world.published, {0: (A, 1), 1: (A, 1), 3: (A, 1)})
    assert [(await driver.world.get(n)).metadata.resource_version for n in range(3)] == versions[:3]


async def holders(driver: Driver) -> list[str]:
    return [pod for entries in (await driver.world.allocations()).values() for pod, _, _ in entries]
