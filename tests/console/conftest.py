"""A real API server without the module's processes: what the console shows is written by the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controllers.runtime.client import Client
from reliability.kit.apiserver import Server
from reliability.kit.fault_proxy import FaultProxy
from sim.module.install import install_crds
from tests.console.clusters import Admin
from tests.kit import planes
from tests.kit.worker_plane import WorkerPlane


@contextmanager
def _plane(folder: Path) -> Iterator[Server]:
    with planes.server(folder) as made:
        install_crds(planes.tools(made.plane))
        yield made


@pytest.fixture(scope="module")
def server(worker_plane: WorkerPlane) -> Server:
    return worker_plane.take("console", _plane)


@pytest.fixture
async def admin(server: Server, tmp_path: Path) -> AsyncIterator[Admin]:
    client = await Client.connect(server.kubeconfig(tmp_path / "admin.kubeconfig"), user_agent="admin")
    yield Admin(client)
    await client.close()


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[FaultProxy]:
    """Between a console and the API server."""
    started = await FaultProxy(server).start()
    yield started
    await started.close()
