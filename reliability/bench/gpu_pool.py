"""A pool of published cards on nodes that nobody runs, every field written by the process that owns it.

The policies refuse anybody else. No controller of ours runs beside: what is reserved stays until it expires.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import GPUDEVICE, GPUPOOL, NODE
from controllers.runtime.client import Client
from reliability.bench.environment import MANAGER, Environment
from reliability.bench.fleet import CARDS, Member, Write, writes
from reliability.kit.caches import listed
from reliability.kit.progress import for_each, show_progress
from sim.nodes.identity import Identities

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.programs import Progress

POOL = "bench"
PUBLISHED = {"pool": POOL, "configVersion": "0123456789abcdef", "slots": 1}


async def fill(environment: Environment, admin: Client, members: list[Member], progress: Progress) -> None:
    """Make the pool, its nodes, and cards that are published, each field by its owner."""
    # Nobody serves a queue here; what waiting costs is the theme `queue`.
    spec = {"allocation": {"mode": "Exclusive"}, "queue": {"onShortage": "Refuse"}}
    pool = {"apiVersion": GPUPOOL.api_version, "kind": GPUPOOL.kind, "metadata": {"name": POOL}, "spec": spec}
    await admin.create(GPUPOOL, pool, manager=MANAGER)
    filled = 0
    inventory = await Client.connect(environment.kubeconfig(names.INVENTORY), user_agent=MANAGER)
    gpupool = await Client.connect(environment.kubeconfig(names.POOL_CONTROLLER), user_agent=MANAGER)
    agents = Identities(admin)
    owners = _Owners(admin, inventory, gpupool, agents)

    async def fill(member: Member) -> None:
        nonlocal filled
        await owners.fill(member)
        filled += 1

    try:
        async with show_progress(progress, f"filling the pool: {len(members)} nodes", lambda: filled, len(members)):
            await for_each(members, fill)
    finally:
        for client in (inventory, gpupool, agents):
            await client.close()


@dataclass(frozen=True, slots=True)
class _Owners:
    """Those who own a card's fields."""

    admin: Client
    inventory: Client
    gpupool: Client
    agents: Identities

    async def fill(self, member: Member) -> None:
        """Create a node of the pool, with its cards."""
        labels = member.node["metadata"]["labels"] | {names.pool_node_label(POOL): ""}
        room = member.node["status"]["allocatable"] | {names.resource_name(POOL): str(CARDS)}
        ready = [{"type": "Ready", "status": "True"}]
        status = {**member.node["status"], "capacity": room, "allocatable": room, "conditions": ready}
        meta = {**member.node["metadata"], "labels": labels}
        await self.admin.create(NODE, {**member.node, "metadata": meta, "status": status}, manager=MANAGER)
        # The API server taints a new node as not ready, and here no controller takes that back.
        made = await self.admin.merge(NODE, member.name, {"spec": {"taints": None}}, manager=MANAGER)
        node = adapter(Node).validate_json(made)
        cards = [write for write in writes(member, time.time()) if write.resource is GPUDEVICE]
        for made_of, status_of in zip(cards[::2], cards[1::2], strict=True):
            await self._card(node, made_of, status_of)

    async def _card(self, node: Node, made_of: Write, status_of: Write) -> None:
        name = made_of.name
        meta = {**made_of.body["metadata"], "annotations": {names.ASSIGNMENT: POOL}}
        made = await self.admin.apply(GPUDEVICE, name, {**made_of.body, "metadata": meta}, manager=MANAGER)
        uid = orjson.loads(made)["metadata"]["uid"]
        body = {**status_of.body, "metadata": {"name": name, "uid": uid}}
        await self.inventory.apply(GPUDEVICE, name, body, manager=names.MANAGER_INVENTORY, subresource="status")
        pooled = {"state": "Assigned", "poolRef": {"name": POOL, "resource": names.resource_name(POOL)}}
        await self.gpupool.merge(GPUDEVICE, name, {"status": pooled}, manager=names.MANAGER_POOL, subresource="status")
        plugin = self.agents.client(names.MANAGER_PLUGIN, node)
        offered: dict[str, Any] = {**body, "status": {"published": PUBLISHED}}
        await plugin.apply(GPUDEVICE, name, offered, manager=names.MANAGER_PLUGIN, subresource="status")


async def cards(admin: Client) -> list[GPUDevice]:
    """Every card, by a list."""
    return await listed(admin, GPUDEVICE, GPUDevice)


async def free(gpupool: Client, reserved: Iterable[GPUDevice]) -> None:
    """Take every reservation off cards, as the pool controller does."""
    empty = {"status": {"state": "Assigned", "reservations": []}}

    async def release(card: GPUDevice) -> None:
        await gpupool.merge(GPUDEVICE, card.name, empty, manager=names.MANAGER_POOL, subresource="status")

    await for_each([card for card in reserved if card.status.reservations], release)
