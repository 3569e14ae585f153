"""Verbs over simulated nodes that fall ill and get well, on a cluster where inventory and bootstrap run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from controllers.api import names, resources
from sim import controlplane
from sim.nodes import names as sim_names
from sim.nodes import node_manifests
from sim.nodes.leaving import bury
from tests.inventory.plane import Plane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sim.controlplane import ControlPlane

SHAPE = "a30-4"
SETTINGS = {
    "bootstrap": {
        "phaseDeadline": "4s",
        "restartGrace": "2s",
        "monitoring": {"scrapePeriod": "500ms", "missingAfter": "4s"},
    },
    "health": {"recoveryScrapes": 3},
}
"""Every timer, scaled down."""


@dataclass
class Fleet:
    """The nodes of one test or of many."""

    plane: Plane
    control: ControlPlane

    async def configure(self, *, enabled: bool = True, **more: Any) -> None:
        """The module's settings: the quick timers, and what is given."""
        settings = SETTINGS | {key: SETTINGS.get(key, {}) | value for key, value in more.items()}
        spec = {"enabled": enabled, "version": 1, "settings": settings}
        await self.plane.put(resources.MODULECONFIG, {"metadata": {"name": names.MODULE}, "spec": spec})

    async def nodes(self, *wanted: str, fault: str = "", shape: str = SHAPE) -> None:
        """Make nodes, with four cards each where no shape is named; without a fault, wait until they are ready."""
        for name, made in zip(wanted, node_manifests([shape] * len(wanted)), strict=True):
            labels = made["metadata"]["labels"] | {names.LABEL_HOSTNAME: name}
            meta = made["metadata"] | {"name": name, "labels": labels}
            meta["annotations"] = meta["annotations"] | {sim_names.FAULT: fault}
            await self.plane.put(resources.NODE, made | {"metadata": meta})
        for name in wanted if not fault else ():
            await self.pooling(name, "True", "Ready")

    async def gone(self, *wanted: str) -> None:
        """Delete nodes, and wait until their cards are gone too."""
        for name in wanted:
            for card in await self.cards(name):  # a card in a pool would stay, and be called lost
                await self.pool(card, None)
            await self.plane.delete(resources.NODE, name)
        for name in wanted:

            async def forgotten(name: str = name) -> bool:
                return not await self.cards(name) and await self.plane.get(resources.GPUNODEINVENTORY, name) is None

            await self.plane.until(forgotten, f"{name} to be forgotten")
            await bury(self.plane.client, name)  # now that a DaemonSet's controller makes no more

    async def fault(self, node: str, *words: str) -> None:
        """Let these faults, and no others, befall a node."""
        body = {"metadata": {"annotations": {sim_names.FAULT: ",".join(words)}}}
        await self.plane.client.merge(resources.NODE, node, body, manager="test")

    async def cards(self, node: str) -> list[str]:
        """Names of a node's cards, by address."""
        return [one["metadata"]["name"] for one in await self.plane.list(resources.GPUDEVICE, prefix=f"{node}-0")]

    async def address(self, card: str) -> str:
        """The PCI address of a card."""
        found = await self.plane.get(resources.GPUDEVICE, card)
        return str((found or {})["status"]["hardware"]["pci"]["address"])

    async def pool(self, card: str, pool: str | None) -> None:
        """Put a card into a pool, as its status tells it."""
        ref = {"name": pool, "resource": names.resource_name(pool)} if pool else None
        await self.plane.status(resources.GPUDEVICE, card, {"poolRef": ref})

    async def pooling(self, node: str, status: str, reason: str) -> dict[str, Any]:
        """Wait for the node's ReadyForPooling."""
        return await self.condition(node, "ReadyForPooling", status, reason)

    async def condition(self, node: str, kind: str, status: str, reason: str) -> dict[str, Any]:
        """Wait for a condition of a node."""
        return await self._said(resources.GPUNODEINVENTORY, node, kind, (status, reason))

    async def faulted(self, card: str, status: str, reason: str) -> dict[str, Any]:
        """Wait for a card's Faulted."""
        return await self._said(resources.GPUDEVICE, card, "Faulted", (status, reason))

    async def state(self, card: str) -> tuple[str, str]:
        """A card's Faulted, now."""
        found = await self.plane.condition(resources.GPUDEVICE, card, "Faulted")
        return (found["status"], found["reason"]) if found else ("", "")

    async def _said(
        self, resource: resources.Resource, name: str, kind: str, wanted: tuple[str, str]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def said() -> bool:
            found.update(await self.plane.condition(resource, name, kind) or {})
            return (found.get("status"), found.get("reason")) == wanted

        try:
            await self.plane.until(said, f"{kind} of {name} to be {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}; found {found}") from None
        return found

    async def event(self, about: str, reason: str, words: str) -> None:
        """Wait for an Event about an object whose message has these words."""

        async def told() -> bool:
            events = await self.plane.list(resources.EVENT, namespace="default")
            found = [one["note"] for one in events if (one["regarding"]["name"], one["reason"]) == (about, reason)]
            return any(words in note for note in found)

        await self.plane.until(told, f"event {reason} about {about} with {words!r}")

    async def metrics(self) -> dict[str, float]:
        """The bootstrap controller's metrics."""
        port = controlplane.status(self.control.dir).processes[names.BOOTSTRAP].ports["health"]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def until(self, check: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Wait until a check gives something."""
        return await self.plane.until(check, what)
