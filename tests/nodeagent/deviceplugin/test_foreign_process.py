"""The plugin as a process beside another device plugin, whose pods kubelet names: real gRPC, a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.domain.plugin_settings import PluginSettings

if TYPE_CHECKING:
    from tests.nodeagent.deviceplugin.conftest import Node
    from tests.nodeagent.deviceplugin.kubelet import Kubelet
    from tests.nodeagent.deviceplugin.node import World

pytestmark = pytest.mark.cluster
POOL = "alpha"
RESOURCE = names.resource_name(POOL)
CARDS = PluginSettings(POOL, "Exclusive", 1)


async def elsewhere(world: World) -> dict[int, list[tuple[str, str]]]:
    """Pod and resource by card, of those that others have."""
    cards = [(number, (await world.get(number)).status.foreign_allocations) for number in range(len(world.addresses))]
    return {number: [(taken.pod, taken.resource) for taken in told] for number, told in cards if told}


async def in_pool(world: World, *cards: int) -> None:
    for number in cards:
        await world.status(names.POOL_CONTROLLER, number, {"poolRef": {"name": POOL, "resource": RESOURCE}})


async def test_a_card_that_another_plugin_gave_away_is_not_offered_until_that_pod_ends(
    node: Node, world: World, kubelet: Kubelet
) -> None:
    kubelet.holdings["legacy", "train", "main"] = ("nvidia.com/gpu", (world.uuid(1), f"{world.uuid(2)}::0"))
    await in_pool(world, 0, 1)
    await world.configure(POOL, CARDS, 0, 1)
    await node.plugin(POOL, "--report-period=0.2")
    await node.offered(POOL, 1)
    assert kubelet.healthy(RESOURCE) == {world.uuid(0)}
    held = ("train", "nvidia.com/gpu")

    async def told() -> dict[int, list[tuple[str, str]]]:
        return await elsewhere(world)

    await world.until(told, {1: [held], 2: [held]})
    assert await world.published() == {0: (POOL, 1)}

    kubelet.release("legacy", "train")
    await node.offered(POOL, 2)
    await world.until(world.published, {0: (POOL, 1), 1: (POOL, 1)})
    assert await elsewhere(world) == {}


async def test_a_card_that_is_offered_is_withdrawn_where_another_plugin_gives_it_too(
    node: Node, world: World, kubelet: Kubelet
) -> None:
    await in_pool(world, 0)
    await world.configure(POOL, CARDS, 0)
    await node.plugin(POOL, "--report-period=0.2")
    await node.offered(POOL, 1)
    pod = f"{world.name}-p"
    await world.pod(pod, POOL)
    await kubelet.admit("default", pod, RESOURCE)
    await world.until(world.allocations, {0: [(pod, "main", 1)]})

    kubelet.holdings["legacy", "train", "main"] = ("nvidia.com/gpu", (world.uuid(0),))
    await node.offered(POOL, 0)
    await world.until(world.published, {})
    assert await elsewhere(world) == {0: [("train", "nvidia.com/gpu")]}
    assert await world.allocations() == {0: [(pod, "main", 1)]}, "who has it keeps it, and is told"


async def test_nothing_is_offered_anew_before_kubelet_has_said_who_has_it(
    node: Node, world: World, kubelet: Kubelet
) -> None:
    kubelet.pod_resources.unlink()
    await in_pool(world, 0)
    await world.configure(POOL, CARDS, 0)
    agent = await node.plugin(POOL, "--report-period=0.2")

    async def asked() -> bool:
        return await agent.metric('gpu_device_plugin_reports_total{result="failed"}') > 1

    await agent.until(asked, "kubelet to be asked in vain")
    assert await world.published() == {}
    await kubelet.stop()
    await kubelet.start()
    await node.offered(POOL, 1)


async def test_kubelet_is_asked_anew_before_a_card_is_offered(node: Node, world: World, kubelet: Kubelet) -> None:
    """What it said last would do for an hour here; nothing tells that the other pod has come since."""
    await in_pool(world, 0, 1)
    await world.configure(POOL, CARDS, 0)
    await node.plugin(POOL, "--report-period=3600")
    await node.offered(POOL, 1)
    await world.until(world.published, {0: (POOL, 1)})
    kubelet.holdings["legacy", "train", "main"] = ("nvidia.com/gpu", (world.uuid(1),))
    await world.configure(POOL, CARDS, 0, 1)

    async def told() -> dict[int, list[tuple[str, str]]]:
        return await elsewhere(world)

    await world.until(told, {1: [("train", "nvidia.com/gpu")]})
    assert await world.published() == {0: (POOL, 1)}
    assert kubelet.healthy(RESOURCE) == {world.uuid(0)}
