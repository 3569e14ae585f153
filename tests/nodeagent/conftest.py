"""A real API server with the module's chart, so that RBAC and policies hold for the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.runtime.client import Client
from tests.nodeagent.discover.node import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sim.controlplane import ControlPlane


@pytest.fixture(scope="session")
def agent_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and an API server, nothing that acts by itself, with CRDs and chart."""
    from sim import controlplane, programs
    from sim.module.install import Tools, install_chart, install_crds

    folder = tmp_path_factory.mktemp("agent") / "plane"
    plane = controlplane.up(folder, with_controller_manager=False, with_scheduler=False, with_kwok=False)
    try:
        tools = Tools(plane.kubectl, programs.ensure(["helm"])["helm"], plane.kubeconfig)
        install_crds(tools)
        install_chart(tools, {})
        yield plane
    finally:
        controlplane.down(folder)


@pytest.fixture
async def cluster(agent_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """What a test does to it."""
    client = await Client.connect(agent_plane.kubeconfig, user_agent="test")
    yield Cluster(client, agent_plane)
    await client.close()
