"""What the real programs of the node agent are made to do, on an API server of their own where nobody else acts.

The simulated agent speaks under the same ServiceAccounts and asks for other things: only the real programs count.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK, VALIDATING_WEBHOOK
from controllers.domain.mig import CardLayout
from controllers.domain.plugin_settings import PluginSettings
from controllers.runtime.errors import AlreadyExists, NotFound
from nodeagent.toolkit.turn import has_turn
from sim.nodes import names as sim
from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.deviceplugin.conftest import Node
from tests.nodeagent.deviceplugin.kubelet import Kubelet
from tests.nodeagent.deviceplugin.node import SPACE, World
from tests.nodeagent.discover.node import Agent
from tests.nodeagent.mig.drivers import Ground, Real
from tests.nodeagent.validate.machine import machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.nodeagent.discover.node import Cluster

POOL = "alpha"
MIG_SHAPE = "a100-sxm-8"
TIMES = ("--driver-period", "0.5", "--driver-deadline", "20")


async def play(cluster: Cluster, folder: Path) -> None:
    """Each role in turn."""
    for resource in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):  # nobody admits pods here
        with suppress(NotFound):
            await cluster.client.request("DELETE", resource.path(None, names.WEBHOOK_CONFIGURATION))
    with suppress(AlreadyExists):
        path = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
        await cluster.client.request("POST", path, body={"metadata": {"name": "default"}})
    await reports(cluster, folder)
    await plugin(cluster, folder)
    await division(cluster, folder)
    await leaving(cluster, folder)


async def leaving(cluster: Cluster, folder: Path) -> None:
    """`toolkit` asks whether it is its node's turn, and at its end whether it ends for good."""
    name = "left"
    config = await cluster.kubeconfig(name, folder, names.MANAGER_TOOLKIT)
    place = _Machine({"HOST_ROOT": str(folder / "toolkits-host")})
    agent = Agent(name, config, place, ("nodeagent.toolkit",))  # type: ignore[arg-type]

    async def looked() -> bool:
        return "AwaitingToolkit" in agent.log

    await _until(agent, looked, "the first look")
    assert not await has_turn(name, config), "nobody has given it one"
    await asyncio.to_thread(agent.end)
    assert "the toolkit leaves this node" in agent.log, agent.log[-3000:]


async def reports(cluster: Cluster, folder: Path) -> None:
    """`discover` makes the report and `validate` adds to it; both put right what others write, and what they delete."""
    name, at = "looked-at", machine(folder)
    place = _Machine(at.environment | environment(build(), at.nvml))
    configs = [await cluster.kubeconfig(name, folder, who) for who in (names.MANAGER_DISCOVER, names.MANAGER_VALIDATE)]
    programs = (
        ("nodeagent.discover", "--scan-period", "0.2", *TIMES),
        ("nodeagent.validate", "driver", "--period", "0.2", *TIMES),
    )
    pairs = zip(configs, programs, strict=True)
    agents = [Agent(name, config, place, program) for config, program in pairs]  # type: ignore[arg-type]
    try:
        discover, validate = agents

        async def told(wanted: str = "ok") -> bool:
            elements = (await cluster.attributes(name)).get(names.FEATURE_VALIDATION, {})
            return elements.get("driver") == wanted and "driver.bogus" not in elements

        await _until(validate, told, "the check of the driver")
        foreign = {
            names.FEATURE_VALIDATION: {"elements": {"driver": "failed", "driver.bogus": "x"}},
            names.FEATURE_DRIVER: {"elements": {"version": "1", "by_hand": "x"}},
        }
        await cluster.change(name, {"spec": {"features": {"attributes": foreign}}})

        async def mended() -> bool:
            return await told() and "by_hand" not in (await cluster.attributes(name))[names.FEATURE_DRIVER]

        await _until(validate, mended, "the edits to be mended")
        await cluster.delete(name)
        await _until(discover, told, "the report to be made anew")
    finally:
        for agent in agents:
            await asyncio.to_thread(agent.end)


@dataclass(frozen=True)
class _Machine:
    """Where programs find their machine, and the driver's library."""

    environment: dict[str, str]


async def plugin(cluster: Cluster, folder: Path) -> None:
    """`device-plugin` offers a card, takes it back, and reports a pod's."""
    agents: list[Agent] = []
    async with _world(cluster, "plugged", "t4-4") as world, _kubelet() as (kubelet, short):
        node = Node(world, kubelet, short, agents)
        node.folder = folder
        try:
            await world.configure(POOL, PluginSettings(POOL, "Exclusive", 1), 0, 1)
            agent = await node.plugin(POOL, "--report-period=0.5")

            async def here() -> bool:
                return bool(kubelet.registrations)

            await _until(agent, here, "the plugin to register")
            await node.offered(POOL, 2)
            await world.pod("held", POOL)

            async def known() -> bool:
                return await agent.metric('gpu_cached_objects{kind="Pod"}') == 1

            await _until(agent, known, "the pod to be known")
            await kubelet.admit(SPACE, "held", names.resource_name(POOL))
            await world.until(_count(world), 1, PATIENCE)
            await world.configure(POOL, PluginSettings(POOL, "Exclusive", 1), 0)
            await world.until(world.published, {0: (POOL, 1)}, PATIENCE)
        finally:
            for agent in agents:
                await asyncio.to_thread(agent.end)
            await world.delete_pod("held")
            await world.forget(POOL)


async def _until(agent: Agent, check: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait while the agent lives; longer than other tests do, since nothing here is about how fast it is."""
    deadline = time.monotonic() + PATIENCE
    while not await check():
        assert agent.process.poll() is None, agent.log[-3000:]
        assert time.monotonic() < deadline, f"waited {PATIENCE} s for {what}\n{agent.log[-3000:]}"
        await asyncio.sleep(0.05)


def _count(world: World) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return sum(map(len, (await world.allocations()).values()))

    return count


async def division(cluster: Cluster, folder: Path) -> None:
    """`mig-manager` divides a card once the pod that holds it is gone and its gate is closed."""
    async with _world(cluster, "divided", MIG_SHAPE, {sim.SHAPE: MIG_SHAPE}) as world:
        ground = Ground(world)
        real = Real(ground, folder / "mig", MIG_SHAPE)
        try:
            await real.start(POOL)
            version = await ground.want(CardLayout(True, {"1g.5gb": 7}))
            await world.until(ground.phase, (version, "Done"), PATIENCE)
        finally:
            await real.close()
            await ground.close()


@asynccontextmanager
async def _world(
    cluster: Cluster, name: str, shape: str, annotations: dict[str, str] | None = None
) -> AsyncIterator[World]:
    made = World(cluster, name, shape)
    await made.make(annotations)
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def _kubelet() -> AsyncIterator[tuple[Kubelet, Path]]:
    short = Path(tempfile.mkdtemp(prefix="dp"))  # a path that leaves room for a socket's name
    made = Kubelet(short)
    await made.start()
    try:
        yield made, short
    finally:
        await made.stop()
        shutil.rmtree(short, ignore_errors=True)
