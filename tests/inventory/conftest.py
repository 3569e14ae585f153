"""A real API server for the tests of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.runtime.client import Client
from tests.inventory.plane import Plane
from tests.kit import planes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.kit.worker_plane import WorkerPlane


@pytest.fixture(scope="module")
def inventory_plane(worker_plane: WorkerPlane, request: pytest.FixtureRequest) -> Path:
    """etcd and an API server for one file of tests, nothing that acts by itself; the administrator's kubeconfig."""
    return worker_plane.take(request.node.nodeid, lambda folder: planes.plane(folder, **planes.ALONE)).kubeconfig


@pytest.fixture
async def plane(inventory_plane: Path) -> AsyncIterator[Plane]:
    client = await Client.connect(inventory_plane, user_agent="test")
    made = Plane(client, inventory_plane)
    await made.install()
    yield made
    await client.close()
