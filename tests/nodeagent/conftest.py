"""A real API server with the module's chart, so that RBAC and policies hold for the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.runtime.client import Client
from tests.kit import planes
from tests.nodeagent.discover.node import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sim.controlplane import ControlPlane
    from tests.kit.worker_plane import WorkerPlane


@pytest.fixture(scope="module")
def agent_plane(worker_plane: WorkerPlane) -> ControlPlane:
    """etcd and an API server, nothing that acts by itself, with CRDs and chart."""
    return worker_plane.take("nodeagent", lambda folder: planes.with_chart(folder, **planes.ALONE))


@pytest.fixture
async def cluster(agent_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """What a test does to it."""
    client = await Client.connect(agent_plane.kubeconfig, user_agent="test")
    yield Cluster(client, agent_plane)
    await client.close()
