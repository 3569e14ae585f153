"""Nodes with cards, a kubelet for each, and plugins as processes of their own."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK, VALIDATING_WEBHOOK
from controllers.runtime.errors import AlreadyExists, NotFound
from sim.hardware import sysfs
from tests.nodeagent.deviceplugin.kubelet import Kubelet
from tests.nodeagent.deviceplugin.node import SPACE, World
from tests.nodeagent.discover.node import Agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sim.hardware.sysfs import Tree
    from tests.nodeagent.discover.node import Cluster


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    folder = Path(tempfile.mkdtemp(prefix="dp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def kubelet(short: Path) -> AsyncIterator[Kubelet]:
    """A kubelet that runs."""
    made = Kubelet(short)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def world(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[World]:
    """A node of its own with four cards (of the shape that the test is parametrised with); nobody admits pods."""
    for resource in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):
        with suppress(NotFound):
            await cluster.client.request("DELETE", resource.path(None, names.WEBHOOK_CONFIGURATION))
    with suppress(AlreadyExists):
        path = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
        await cluster.client.request("POST", path, body={"metadata": {"name": "default"}})
    made = World(cluster, f"n{uuid4().hex[:8]}", getattr(request, "param", "t4-4"))
    await made.make()
    yield made
    await made.close()


class Node:
    """A machine under a world: its files, and the plugins that run on it."""

    def __init__(self, world: World, kubelet: Kubelet, folder: Path, agents: list[Agent]) -> None:
        self.world, self.kubelet, self.folder, self.agents = world, kubelet, folder, agents
        self.tree: Tree = sysfs.write(folder / "machine", world.shape, node=world.name)
        self.dev = folder / "dev"
        self.dev.mkdir()
        self.driver: dict[str, str] = {}
        """What brings the fake driver's library into a program."""

    @property
    def environment(self) -> dict[str, str]:
        """Where a program finds this machine."""
        places = {"HOST_SYS": self.tree.sys, "HOST_PROC": self.tree.proc, "HOST_ROOT": self.tree.root}
        return {name: str(path) for name, path in (places | {"HOST_DEV": self.dev}).items()} | self.driver

    async def plugin(self, pool: str, *flags: str, kubelet: Kubelet | None = None) -> Agent:
        """Start the plugin of a pool."""
        config = await self.world.cluster.kubeconfig(self.world.name, self.folder, names.MANAGER_PLUGIN)
        program = ("nodeagent", "device-plugin", "--pool", pool, *(kubelet or self.kubelet).flags)
        agent = Agent(self.world.name, config, self, (*program, "--check-period=0.1", *flags))  # type: ignore[arg-type]
        self.agents.append(agent)
        return agent

    async def offered(self, pool: str, count: int) -> None:
        """Wait until kubelet could give so many."""
        resource = names.resource_name(pool)

        def enough() -> bool:
            return len(self.kubelet.healthy(resource)) == count

        try:
            await self.kubelet.until(enough, f"{count} of {resource}, has {self.kubelet.listed(resource).keys()}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(agent.log[-3000:] for agent in self.agents)) from error


@pytest.fixture
async def node(world: World, kubelet: Kubelet, short: Path) -> AsyncIterator[Node]:
    """The machine of the world."""
    agents: list[Agent] = []
    yield Node(world, kubelet, short, agents)
    for agent in agents:
        await asyncio.to_thread(agent.end)
