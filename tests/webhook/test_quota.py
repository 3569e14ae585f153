"""A tenant over its quota, in the whole module: its pods are refused after the webhook has reserved for them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.resources import POD
from controllers.runtime.errors import ApiError, Forbidden
from tests.kit.pace import Stretch
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sim.controlplane import ControlPlane
    from sim.view import View

pytestmark = [pytest.mark.cluster, pytest.mark.slow("a tenant loops for as long as its quota forgets")]
GREEDY, CALM, POOL = "greedy", "calm", "loop"
CARDS, SHARE = 8, 4
UNSEEN, SWEEP = 15, 5
"""Seconds: the life of a reservation whose pod nobody has seen, and what its end may take."""


@pytest.fixture
async def people(cluster: ControlPlane, view: View) -> AsyncIterator[People]:
    """Two tenants, a pool of eight cards, and a quota that lets the one have none of them."""
    made = People(cluster, view)
    await made.ready_nodes()
    for namespace in (GREEDY, CALM):
        await made.namespace(namespace)

    def cards() -> list[str]:
        return sorted(device.name for device in view.devices if device.status.node_name in ("gpu-1", "gpu-2"))

    await view.until(lambda: len(cards()) >= CARDS, PATIENCE, lambda: f"{len(cards())} cards")
    await made.filled(POOL, cards()[:CARDS])
    path = f"/api/v1/namespaces/{GREEDY}/resourcequotas"
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {f"requests.{names.resource_name(POOL)}": "0"}}}
    await made.client.request("POST", path, body=quota)

    async def counts() -> bytes:
        answer = await made.client.request("GET", f"{path}/none")
        if b'"used"' not in answer:
            raise Forbidden(0, "", "the quota is not counted yet")
        return answer

    await made.eventually(counts)
    yield made
    for pod in made.pods(CALM):
        await made.remove(POD, pod.name, CALM)
    await made.settled(POOL, (CARDS, 0, 0, CARDS))
    await made.client.request("DELETE", f"{path}/none")
    await made.retire(POOL)


class Loop:
    """A tenant's program that creates pods and never looks at the answer."""

    def __init__(self, people: People) -> None:
        self.people, self.answers = people, list[str]()
        self.over = asyncio.Event()

    async def run(self) -> None:
        while not self.over.is_set():
            # So many at once that they take the whole pool before anything is known of it, however slow the machine is.
            await asyncio.gather(*(self.one(number) for number in range(CARDS)))

    async def one(self, number: int) -> None:
        try:
            await self.people.pod(f"over-{number}", GREEDY, POOL)
        except ApiError as error:
            self.answers.append(error.message)
        else:
            self.answers.append("Created")

    def seen(self, part: str) -> bool:
        return any(part in answer for answer in self.answers)


async def test_a_tenant_over_quota_cannot_hold_a_pool_by_looping(people: People) -> None:
    loop = Loop(people)
    task = asyncio.create_task(loop.run())
    try:
        held = f"{CARDS} cards held for pods that the quota refuses"
        await people.view.until(lambda: _promised(people, GREEDY) == CARDS, PATIENCE, lambda: held)
        # The other tenant comes as a controller does: again and again. The loop goes on meanwhile, with its share.
        with Stretch() as machine:
            await _created(people, 0, SHARE)
        await people.running(CALM, SHARE)
        assert not task.done()
        assert loop.seen("exceeded quota")
        assert loop.seen("whose pod never appeared, and now has")
        assert loop.seen(f"of GPUPool {POOL} for such pods; 2 may be so at once: something after this webhook")
        assert not loop.seen("Created")
    finally:
        loop.over.set()
        await task

    # What it held last ends by itself, in the objects too.
    await people.settled(POOL, (CARDS, SHARE, 0, CARDS - SHARE))
    await people.view.until(lambda: _promised(people, GREEDY) == 0, PATIENCE, lambda: str(_promised(people, GREEDY)))
    machine.judge("the other tenant's share", machine.seconds, 3 * (UNSEEN + SWEEP))


def _promised(people: People, namespace: str) -> int:
    return sum(entry.namespace == namespace for card in people.cards(POOL) for entry in card.status.reservations)


async def _created(people: People, first: int, end: int) -> None:
    """Create the other tenant's pods of these numbers, however often it takes."""
    deadline = time.monotonic() + PATIENCE
    while first < end:
        assert time.monotonic() < deadline, f"no pod calm-{first} within {PATIENCE} s"
        try:
            await people.pod(f"calm-{first}", CALM, POOL)
        except ApiError as error:
            if names.INSUFFICIENT_CAPACITY not in error.message:
                raise
            await asyncio.sleep(0.05)
        else:
            first += 1
