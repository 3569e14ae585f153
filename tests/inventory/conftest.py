"""A real API server for the tests of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.runtime.client import Client
from tests.inventory.plane import Plane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def inventory_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """etcd and an API server for one file of tests, nothing that acts by itself; the administrator's kubeconfig."""
    from sim import controlplane

    folder = tmp_path_factory.mktemp("inventory") / "plane"
    plane = controlplane.up(folder, with_controller_manager=False, with_scheduler=False, with_kwok=False)
    yield plane.kubeconfig
    controlplane.down(folder)


@pytest.fixture
async def plane(inventory_plane: Path) -> AsyncIterator[Plane]:
    client = await Client.connect(inventory_plane, user_agent="test")
    made = Plane(client, inventory_plane)
    await made.install()
    yield made
    await client.close()
