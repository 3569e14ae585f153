"""One cluster for all tests of the webhook that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.runtime.client import Client
from tests.webhook import plane as planes
from tests.webhook.plane import Api, Plane, Replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.kit.worker_plane import WorkerPlane


@pytest.fixture(scope="module")
def plane(worker_plane: WorkerPlane) -> Plane:
    """A cluster with the chart, and no webhook."""
    return worker_plane.take("webhook", planes.without_webhook)


@pytest.fixture(scope="module")
def pair(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Replica]]:
    """Two replicas of the webhook."""
    with planes.replicas(plane, tmp_path_factory.mktemp("logs"), 2) as started:
        yield started


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[Api]:
    """The administrator."""
    client = await Client.connect(plane.control.kubeconfig, user_agent="test")
    yield Api(client)
    await client.close()
