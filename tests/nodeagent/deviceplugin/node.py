"""A node of a real API server with cards, as the processes of the module and a person write them."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import TypeAdapter

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import CONFIGMAP, GPUDEVICE, NODE, POD
from controllers.inventory.identity import device_name, inventory_id
from controllers.runtime.errors import NotFound
from sim.hardware import load
from sim.hardware.shape import card_uuid
from sim.nodes.identity import Identities
from tests.kit import manifests, objects
from tests.kit.manifests import manifest
from tests.kit.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controllers.domain.plugin_settings import PluginSettings
    from tests.nodeagent.discover.node import Cluster

SPACE = "default"


class World:
    """One node: its objects at the API server, written under the accounts that may."""

    def __init__(self, cluster: Cluster, name: str, shape: str = "t4-4") -> None:
        self.cluster, self.name, self.shape = cluster, name, load().shape(shape)
        self.addresses = [card.address for card in self.shape.cards]
        self._identities = Identities(cluster.client)

    async def make(self, annotations: dict[str, str] | None = None) -> None:
        """The node and its cards."""
        client = self.cluster.client
        meta = {"name": self.name, "annotations": annotations or {}}
        made = await client.create(NODE, {"metadata": meta}, manager="test")
        self.node: Node = adapter(Node).validate_json(made)
        for number, card in enumerate(self.shape.cards):
            pci = {"vendor": card.vendor, "device": card.device, "class": card.class_}
            hardware = {"uuid": self.uuid(number), "numa_node": card.numa, "pci": pci}
            found = objects.card(self.name, card.address, hardware=hardware)
            await client.create(GPUDEVICE, manifest(found), manager="test")
            await self.status(names.INVENTORY, number, manifests.status(found))

    async def close(self) -> None:
        """Let go of what others would see, and of connections."""
        await self.cluster.client.request("DELETE", NODE.path(None, self.name))
        for number in range(len(self.addresses)):
            await self.cluster.client.request("DELETE", GPUDEVICE.path(None, self.card(number)))
        await self._identities.close()

    def id(self, number: int) -> str:
        """A card's inventoryID."""
        return inventory_id(self.name, self.addresses[number])

    def card(self, number: int) -> str:
        """A card's object."""
        return device_name(self.name, self.addresses[number])

    def uuid(self, number: int) -> str:
        """A card's uuid."""
        return card_uuid(self.name, self.addresses[number])

    async def status(self, account: str, number: int, status: dict[str, Any]) -> None:
        """Write part of a card's status as a process of the module."""
        client = self._identities.client(account, self.node)
        await client.merge(GPUDEVICE, self.card(number), {"status": status}, manager=account, subresource="status")

    async def get(self, number: int) -> GPUDevice:
        """A card as it is now."""
        found: GPUDevice = TypeAdapter(GPUDevice).validate_json(
            await self.cluster.client.get(GPUDEVICE, self.card(number))
        )
        return found

    async def published(self) -> dict[int, tuple[str, int]]:
        """What is published: pool and slots by card."""
        cards = [(number, (await self.get(number)).status.published) for number in range(len(self.addresses))]
        return {number: (told.pool, told.slots) for number, told in cards if told is not None}

    async def allocations(self) -> dict[int, list[tuple[str, str, int]]]:
        """What is reported: pod, container and slots by card."""
        cards = [(number, (await self.get(number)).status.allocations) for number in range(len(self.addresses))]
        return {number: [(a.pod, a.container, a.slots) for a in told] for number, told in cards if told}

    # --- what gpupool-controller writes ---------------------------------------------------------

    async def configure(
        self, pool: str, offer: PluginSettings | str, *cards: int, others: int = 0, shard: str = ""
    ) -> float:
        """Write the pool's ConfigMap; returns when that was (the event loop's clock)."""
        text = offer if isinstance(offer, str) else offer.text()
        lines = [*(self.id(card) for card in cards), *(f"elsewhere-{n}-0000:00:00.0" for n in range(others))]
        name = names.plugin_object(pool) + shard
        data = {names.ALLOWED_DEVICES: "\n".join(sorted(lines))} | ({} if shard else {names.PLUGIN_SETTINGS: text})
        body = {
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": name, "labels": {names.LABEL_POOL: pool}},
        }  # fmt: skip
        await self.cluster.client.apply(CONFIGMAP, name, body, manager="test", namespace=names.NAMESPACE)
        return asyncio.get_running_loop().time()

    async def forget(self, pool: str) -> None:
        """Delete the pool's ConfigMaps."""
        for name in (names.plugin_object(pool), names.plugin_shard(pool, 0)):
            with suppress(NotFound):
                await self.cluster.client.request("DELETE", CONFIGMAP.path(names.NAMESPACE, name))

    # --- pods ----------------------------------------------------------------------------------

    async def pod(self, name: str, pool: str, slots: int = 1, devices: tuple[int, ...] = (), init: int = 0) -> None:
        """A pod that is bound to this node and asks for slots; `devices`: the cards that the webhook wrote on it.

        `init`: what an init container of it asks for.
        """
        wanted = {names.REQUEST_ID: name}
        if devices:
            wanted[names.DEVICES] = ",".join(self.id(card) for card in devices)

        def asks(container: str, count: int) -> dict[str, Any]:
            limits = {names.resource_name(pool): str(count)}
            return {"name": container, "image": "i", "resources": {"limits": limits, "requests": limits}}

        body = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": wanted, "labels": {names.LABEL_POOL: pool}},
            "spec": {
                "nodeName": self.name,
                "containers": [asks("main", slots)],
                "initContainers": [asks("init", init)] if init else [],
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
            },
        }  # fmt: skip
        await self.cluster.client.create(POD, body, SPACE, manager="test")

    async def phase(self, name: str, phase: str) -> None:
        """What kubelet says of a pod."""
        body = {"status": {"phase": phase}}
        await self.cluster.client.merge(POD, name, body, manager="test", namespace=SPACE, subresource="status")

    async def pod_uid(self, name: str) -> str:
        """A pod's uid."""
        uid: str = orjson.loads(await self.cluster.client.get(POD, name, SPACE))["metadata"]["uid"]
        return uid

    async def delete_pod(self, name: str) -> None:
        """End a pod at once."""
        with suppress(NotFound):
            await self.cluster.client.request("DELETE", POD.path(SPACE, name), body={"gracePeriodSeconds": 0})

    async def until(self, check: Callable[[], Awaitable[Any]], wanted: Any, seconds: float = PATIENCE) -> None:
        """Wait until a question has that answer."""
        deadline = time.monotonic() + seconds
        while (found := await check()) != wanted:
            assert time.monotonic() < deadline, f"waited {seconds} s for {wanted}, found {found}"
            await asyncio.sleep(0.01)
