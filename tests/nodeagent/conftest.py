"""What tests of the agents have: a real API server with the chart, so that RBAC and policies hold, and short paths."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controllers.runtime.client import Client
from tests.kit import planes
from tests.nodeagent.discover.node import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for sockets, whose paths have 107 bytes at most, where those of pytest grow with the tests' names."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)
