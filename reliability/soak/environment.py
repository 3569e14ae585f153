"""The cluster of the soak: that of `make up`, with five nodes that stay and one that comes again.

Timers that would outlast a cycle are settings, scaled down; leases and watches are as they are in earnest. The API
server forgets Events after two cycles instead of an hour, so that their number can be steady within the warm-up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from reliability.kit.actors import configure, create_namespace, create_node, create_pool, retry
from reliability.kit.progress import for_each, show_progress
from reliability.soak.snapshot import TEAM, differences, population
from reliability.soak.workload_plan import GUEST, GUESTS, LEFT, RIGHT, STAYING_NODES, STEADY, home_of
from sim.view import LateError, View

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

MANAGER = "soak"
SHAPE = "h100-sxm-8"
PART = "soak/part"
"""Label of nodes by which pools mean them."""
EVENT_TTL = 60
"""Seconds."""
START_SECONDS = 180.0
SETTINGS: dict[str, Any] = {
    "admission": {"reservationTTL": "6s"},
    "bootstrap": {"monitoring": {"scrapePeriod": "1s", "missingAfter": "30s"}},
    "health": {"recoveryScrapes": 3},
    "pools": {"danglingAfter": "3s"},
    "scheduling": {"defaultStrategy": "Spread"},
}


@dataclass
class Environment:
    """The cluster between cycles."""

    view: View
    cards: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Of each node that stays: names and addresses of its cards, by address."""
    first: dict[str, str] = field(default_factory=dict)
    """The population at the begin."""

    @property
    def client(self) -> Client:
        """The administrator's."""
        return self.view.client

    def population(self) -> dict[str, str]:
        """What is there now."""
        view = self.view
        features = (f"{one.metadata.namespace}/{one.name}" for one in view.features)
        return population(
            nodes=view.nodes,
            inventories=view.inventories,
            devices=view.devices,
            pools=view.pools,
            pods=view.pods,
            features=features,
        )

    def moved(self) -> list[str]:
        """What is not as it was at the begin."""
        return differences(self.first, self.population())

    async def returned(self, seconds: float) -> float:
        """Wait until everything is as it was; returns the seconds that took. Raises LateError."""
        return await self.view.until(lambda: not self.moved(), seconds, lambda: "; ".join(self.moved()))


@asynccontextmanager
async def running_environment(plane: ControlPlane, progress: Progress) -> AsyncIterator[Environment]:
    """Settings, nodes and pools on a cluster without nodes, whole when the block begins. Raises LateError."""
    async with View(plane.kubeconfig) as view:
        made = Environment(view)
        async with show_progress(progress, f"{len(STAYING_NODES) + 1} nodes, their cards and their pools"):
            await _make(made)
            await view.until(lambda: not _wanting(made), START_SECONDS, lambda: "; ".join(_wanting(made)))
            await _resting(made)
        made.first = made.population()
        yield made


async def _make(made: Environment) -> None:
    client = made.client
    await configure(client, SETTINGS, manager=MANAGER)
    await create_namespace(client, TEAM, manager=MANAGER)
    await for_each((STAYING_NODES | {GUEST: GUESTS}).items(), lambda item: join(client, *item))
    for name in (STEADY, GUESTS):
        assignment = {"requireAnnotation": False}
        await create_pool(client, name, manager=MANAGER, nodeSelector=_of(name), deviceAssignment=assignment)
    for name in (LEFT, RIGHT):
        assignment = {"requireAnnotation": True}
        await create_pool(client, name, manager=MANAGER, nodeSelector=_of("movers"), deviceAssignment=assignment)
    count = len(STAYING_NODES)
    view = made.view
    await view.until(lambda: view.ready() == count + 1, START_SECONDS, view.unready)
    for node in STAYING_NODES:
        there = sorted((d for d in view.devices if d.status.node_name == node), key=lambda device: device.name)
        made.cards[node] = [(d.name, d.status.hardware.pci.address) for d in there if d.status.hardware is not None]
    for position, (card, _) in enumerate(made.cards["movers-1"]):
        body = {"metadata": {"annotations": {names.ASSIGNMENT: home_of(position)}}}
        await retry(partial(client.merge, resources.GPUDEVICE, card, body, manager=MANAGER), START_SECONDS)


def _wanting(made: Environment) -> list[str]:
    """What is not yet as it is to be: all cards in the pools that mean them, and offered."""
    wanted = {STEADY: 24, LEFT: 4, RIGHT: 4, GUESTS: 8}
    totals = {pool.name: pool.status.capacity.available if pool.status.capacity else 0 for pool in made.view.pools}
    offered = dict.fromkeys(wanted, 0)
    for node in made.view.nodes:
        for pool in wanted:
            offered[pool] += int(node.status.allocatable.get(names.resource_name(pool), 0))
    short = [
        f"{pool}: {totals.get(pool)} of {count} available, {offered[pool]} offered"
        for pool, count in wanted.items()
        if (totals.get(pool), offered[pool]) != (count, count)
    ]
    return short + [text for text in (made.view.unready(),) if made.view.ready() != len(STAYING_NODES) + 1]


async def _resting(made: Environment) -> None:
    """Wait until nothing of the population has moved for some seconds: it is compared with from then on."""
    still, limit = 3.0, time.monotonic() + START_SECONDS
    before, since = made.population(), time.monotonic()
    while time.monotonic() - since < still:
        await asyncio.sleep(0.2)
        if (now := made.population()) != before:
            if time.monotonic() > limit:
                raise LateError(f"still moving: {'; '.join(differences(before, now))}")
            before, since = now, time.monotonic()


async def join(client: Client, name: str, part: str) -> None:
    """Create a node of a part; raises AlreadyExists."""
    await create_node(client, name, SHAPE, manager=MANAGER, labels={PART: part})


def _of(part: str) -> dict[str, Any]:
    return {"matchLabels": {PART: part}}


def brief_spec(positions: str) -> dict[str, Any]:
    """The pool of a cycle: cards at these positions of their node, which it takes by itself."""
    return {
        "nodeSelector": _of("brief"),
        "deviceSelector": {"include": {"indexes": [positions]}},
        "deviceAssignment": {"requireAnnotation": False},
    }
