"""A cluster whose settings change while it works: how a test changes them, and where it sees what comes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from controllers.api import names, resources
from controllers.api.conditions import find
from controllers.api.gpudevice import GPUDevice, Reservation
from controllers.api.resources import VALIDATING_WEBHOOK
from controllers.runtime.errors import ApiError
from sim import controlplane
from sim.nodes import names as sim_names
from sim.workload import gpu_pod
from tests.kit.waiting import PATIENCE, until
from tests.slice.people import People
from webhook.decision.affinity import PREFERRED

BASE: dict[str, Any] = {
    "bootstrap": {
        "phaseDeadline": "10m",
        "restartGrace": "10m",
        "monitoring": {"scrapePeriod": "500ms", "readyAfter": 1, "missingAfter": "2m"},
    },
    "health": {"maxUnavailablePercent": 100},
}
"""Quick where something is to happen by itself, slow where a case makes it quick."""
POOL, TEAM = "live", "live"


def merged(base: Any, change: Any) -> Any:
    """A group of settings with another laid over it."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    return base | {key: merged(base.get(key), value) for key, value in change.items()}


class Live:
    """Verbs of one case."""

    def __init__(self, people: People) -> None:
        self.people, self.view, self.client = people, people.view, people.client

    async def set(self, **change: Any) -> None:
        """These settings over the usual ones of the tests."""
        await self.people.settings(**merged(BASE, change))

    async def until(self, true: Callable[[], bool], what: Callable[[], str]) -> None:
        await self.view.until(true, PATIENCE, what)

    async def eventually(self, check: Callable[[], Any], what: str) -> Any:
        """Ask until the answer is true; for what no watch tells."""
        return await until(check, what)

    async def metric(self, process: str, name: str) -> float:
        """The sum over a metric's series of one process."""
        port = controlplane.status(self.people.plane.dir).processes[process].ports["health"]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def log(self, process: str) -> str:
        """What a process has logged so far."""
        return (self.people.plane.dir / "logs" / f"{process}.log").read_text(encoding="utf-8")

    # --- nodes and cards ---------------------------------------------------------------------

    async def fault(self, node: str, *words: str) -> None:
        """Let these faults, and no others, befall a node."""
        body = {"metadata": {"annotations": {sim_names.FAULT: ",".join(words) or None}}}
        await self.client.merge(resources.NODE, node, body, manager="test")

    async def label(self, node: str, key: str, value: str | None) -> None:
        await self.client.merge(resources.NODE, node, {"metadata": {"labels": {key: value}}}, manager="test")

    def cards(self, node: str) -> list[GPUDevice]:
        """A node's cards, by address."""
        return sorted((d for d in self.view.devices if d.status.node_name == node), key=lambda d: d.name)

    def address(self, card: str) -> str:
        found = self.view.devices.get(card)
        assert found is not None
        assert found.status.hardware is not None
        return found.status.hardware.pci.address

    def said(self, stores: Any, name: str, kind: str) -> tuple[str, str]:
        """Status and reason of a condition, now."""
        found = stores.get(name)
        told = find(found.status.conditions, kind) if found is not None else None
        return (told.status, told.reason) if told is not None else ("", "")

    async def says(self, stores: Any, name: str, kind: str, *wanted: tuple[str, str]) -> None:
        """Wait for one of these."""
        await self.until(
            lambda: self.said(stores, name, kind) in wanted, lambda: f"{name}: {self.said(stores, name, kind)}"
        )

    async def ready(self, *nodes: str) -> None:
        for node in nodes:
            await self.says(self.view.inventories, node, "ReadyForPooling", ("True", "Ready"))

    # --- pods --------------------------------------------------------------------------------

    async def shared(self) -> None:
        """The pool from which cases ask for cards: two cards on one node, one on another."""
        await self.people.namespace(TEAM)
        if self.view.pools.get(POOL) is None:
            wanted = [*self.cards("gpu-1")[:2], self.cards("gpu-2")[0]]
            await self.people.pool(POOL, deviceAssignment={"requireAnnotation": True})
            for card in wanted:
                await self.people.annotate(card.name, POOL)
        await self.people.offered(POOL, 3)

    async def tried(self, pool: str = POOL, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        """The spec of a pod as the webhook would leave it; nothing is reserved."""
        path = resources.POD.path(TEAM)
        body = gpu_pod("tried", pool, **spec)
        body["metadata"]["labels"] = labels or {}
        made: dict[str, Any] = orjson.loads(await self.client.request("POST", path, query={"dryRun": "All"}, body=body))
        found: dict[str, Any] = made["spec"]
        return found

    async def chosen(self, pool: str = POOL) -> str:
        """The node that the webhook would choose for a pod."""
        nodes = (await self.tried(pool))["affinity"]["nodeAffinity"]
        (here,) = nodes[PREFERRED][-1]["preference"]["matchFields"]
        return str(here["values"][0])

    async def refusal(self) -> str:
        """Why a pod is refused now; empty where it is not."""
        try:
            await self.tried()
        except ApiError as error:
            return error.message
        return ""

    @asynccontextmanager
    async def stranded(self, name: str, pool: str = POOL, **spec: Any) -> AsyncIterator[list[Reservation]]:
        """A pod that no scheduler takes; gives every version of its reservation that is seen."""
        seen: list[Reservation] = []

        def follow(_: object, new: GPUDevice | None) -> None:
            seen.extend(r for r in (new.status.reservations if new else ()) if r.pod == name)

        self.view.devices.subscribe(follow)
        await self.people.pod(name, TEAM, pool, schedulerName="nobody", **spec)
        try:
            yield seen
        finally:
            await self.people.remove(resources.POD, name, TEAM)
            await self.until(
                lambda: not any(r.pod == name for d in self.view.devices for r in d.status.reservations),
                lambda: f"the reservation of {name} stays",
            )

    @asynccontextmanager
    async def unjudged(self) -> AsyncIterator[None]:
        """The webhook does not look at settings, as while it is away: they reach the processes as they are."""
        name = names.WEBHOOK_CONFIGURATION
        before = orjson.loads(await self.client.get(VALIDATING_WEBHOOK, name))
        await self._judge(before, "false")
        try:
            yield
        finally:
            await self._judge(before, None)

    async def _judge(self, before: dict[str, Any], expression: str | None) -> None:
        """Have the webhook called for settings where an expression holds; None: as it was."""
        now = orjson.loads(await self.client.get(VALIDATING_WEBHOOK, names.WEBHOOK_CONFIGURATION))
        for webhook, was in zip(now["webhooks"], before["webhooks"], strict=True):
            if webhook["name"].startswith("moduleconfigs."):
                webhook["matchConditions"] = [dict(one) for one in was["matchConditions"]]
                webhook["matchConditions"][0]["expression"] = expression or was["matchConditions"][0]["expression"]
        await self.client.replace(VALIDATING_WEBHOOK, names.WEBHOOK_CONFIGURATION, now, manager="test")
