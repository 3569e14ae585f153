"""Two pools' plugins that decide by the same state of one card: the API server takes one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.domain.plugin_settings import PluginSettings
from controllers.runtime.client import Client
from controllers.runtime.errors import Conflict
from controllers.runtime.events import Recorder
from controllers.runtime.executor import Executor
from nodeagent.deviceplugin.devices import card_status, offers
from nodeagent.deviceplugin.devices.offers import DesiredOffer
from nodeagent.deviceplugin.devices.records import NodeScan

if TYPE_CHECKING:
    from pathlib import Path

    from tests.nodeagent.deviceplugin.node import World

pytestmark = pytest.mark.cluster
POOLS = ("alpha", "beta")
ROUNDS = 15


async def test_only_one_of_two_publishes_a_card(world: World, tmp_path: Path) -> None:
    config = await world.cluster.kubeconfig(world.name, tmp_path, names.MANAGER_PLUGIN)
    clients = [await Client.connect(config, user_agent=pool) for pool in POOLS]
    executors = [Executor(c, names.MANAGER_PLUGIN, Recorder(c, names.MANAGER_PLUGIN, "h")) for c in clients]
    allowed = frozenset({world.id(0)})

    async def one(number: int) -> None:
        pool = POOLS[number]
        wanted = offers.wanted(pool, [card], DesiredOffer(PluginSettings(pool, "Exclusive", 1), allowed), NodeScan())
        await executors[number].execute(card_status.writes(pool, [card], wanted, {card.name: ()}))

    winners = []
    for number in range(ROUNDS):
        card = await world.get(0)
        order = (0, 1) if number % 2 else (1, 0)
        first, second = await asyncio.gather(*(one(n) for n in order), return_exceptions=True)
        assert sorted((type(first).__name__, type(second).__name__)) == ["Conflict", "NoneType"], (first, second)
        assert isinstance(first, Conflict) or isinstance(second, Conflict)
        told = (await world.get(0)).status.published
        assert told is not None
        winner = order[0] if first is None else order[1]
        assert told.pool == POOLS[winner]
        winners.append(winner)
        card = await world.get(0)
        await executors[winner].execute(card_status.writes(POOLS[winner], [card], {card.name: None}, None))
    assert len(winners) == ROUNDS
    for client in clients:
        await client.close()
