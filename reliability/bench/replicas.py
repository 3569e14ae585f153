"""Two replicas of the webhook behind the balancer, on a pool of free cards, and teams that create pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.runtime.client import Client
from reliability.bench.creators import CARD, TEAMS, Creators
from reliability.bench.environment import MANAGER, Environment
from reliability.bench.fleet import CARDS, fleet
from reliability.bench.gpu_pool import cards, fill, free
from reliability.bench.subject import Subject
from reliability.kit.actors import configure
from reliability.kit.process import total
from reliability.kit.progress import show_progress
from sim import controlplane
from sim.controlplane.ports import free_ports
from sim.module.balance import webhook_processes
from sim.module.processes import Timers
from tools.errors import UserError

if TYPE_CHECKING:
    from tools.programs import Progress

REPLICAS = 2
KNOWN_SECONDS = 30.0


@dataclass
class WebhookReplicas:
    """Everybody who takes part."""

    environment: Environment
    admin: Client
    gpupool: Client
    creators: Creators
    webhooks: list[Subject]
    ports: list[int]
    """Where each of the webhooks serves."""

    async def clear(self) -> None:
        """Free every card and remove every pod; wait until the replicas know."""
        await free(self.gpupool, await cards(self.admin))
        await self.creators.clear()

    async def sum(self, metric: str) -> list[float]:
        """A metric of each replica."""
        return [total(await webhook.metrics(), metric) for webhook in self.webhooks]


@asynccontextmanager
async def webhook_replicas(
    made: Environment, nodes: int, admission: dict[str, Any], progress: Progress
) -> AsyncIterator[WebhookReplicas]:
    """Bring them up, with a pool of so many nodes, and settings of admission; until the end of the block."""
    admin = await Client.connect(made.plane.kubeconfig, user_agent=MANAGER)
    gpupool = await Client.connect(made.kubeconfig(names.POOL_CONTROLLER), user_agent=MANAGER)
    subjects: list[Subject] = []
    ports = free_ports(1 + 2 * REPLICAS)
    try:
        await fill(made, admin, fleet(nodes), progress)
        if admission:
            await configure(admin, {"admission": admission}, manager=MANAGER)
        async with show_progress(progress, f"starting {REPLICAS} replicas of the webhook and the balancer"):
            subjects += await asyncio.to_thread(_start, made, ports)
        async with Creators(made.plane, admin) as creators:
            replicas = WebhookReplicas(made, admin, gpupool, creators, subjects[1:], ports[1::2])
            await _known(replicas, nodes * CARDS)
            yield replicas
    finally:
        for subject in reversed(subjects):
            await asyncio.to_thread(subject.stop)
        await gpupool.close()
        await admin.close()


def _start(made: Environment, ports: list[int]) -> list[Subject]:
    """The balancer, then the replicas. Blocks."""
    account = made.kubeconfig(names.WEBHOOK)
    balancer, *webhooks = webhook_processes(account, made.webhook_port, ports, Timers())
    started = [Subject.start(made.plane.dir, balancer, wait=False)]
    started += [Subject.start(made.plane.dir, spec, wait=True) for spec in webhooks]
    controlplane.wait_ready(made.plane.dir, balancer.name)
    return started


async def _known(replicas: WebhookReplicas, free_cards: int) -> None:
    """Wait until pods are admitted; raises UserError."""
    limit = time.monotonic() + KNOWN_SECONDS
    while not (made := await replicas.creators.create(TEAMS[0], CARD)).pod:
        if time.monotonic() > limit:
            raise UserError(f"no pod is admitted to a pool of {free_cards} cards: {made.refusal}")
        await asyncio.sleep(0.2)
    await replicas.creators.several(4 * REPLICAS, CARD, 4)
    await replicas.clear()
