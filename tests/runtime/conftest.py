"""A real API server, and for each test a namespace, a client and a fault proxy."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from controllers.api.resources import GPUDEVICE, NAMESPACE, Resource
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, NotFound
from reliability.kit.fault_proxy import FaultProxy
from tests.kit import planes
from tests.kit.waiting import PATIENCE
from tests.runtime.helpers import Space

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reliability.kit.apiserver import Server
    from tests.kit.worker_plane import WorkerPlane

CRD = Path(__file__).parents[2] / "crds" / "gpudevice.yaml"


CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)


@pytest.fixture(scope="module")
def server(worker_plane: WorkerPlane) -> Server:
    """One etcd and one kube-apiserver."""
    return worker_plane.take("runtime", planes.server)


@pytest.fixture
async def admin(server: Server, tmp_path: Path) -> AsyncIterator[Client]:
    """Talks to the API server directly: what others do."""
    client = await Client.connect(server.kubeconfig(tmp_path / "admin.kubeconfig"), user_agent="admin")
    yield client
    await client.close()


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[FaultProxy]:
    """What the client under test talks to."""
    started = await FaultProxy(server).start()
    yield started
    await started.close()


@pytest.fixture
def through_proxy(server: Server, proxy: FaultProxy, tmp_path: Path) -> Path:
    """A kubeconfig that leads through the proxy."""
    return server.kubeconfig(tmp_path / "proxy.kubeconfig", url=proxy.url)


@pytest.fixture
async def client(through_proxy: Path) -> AsyncIterator[Client]:
    """The client under test."""
    opened = await Client.connect(through_proxy, user_agent="tested")
    yield opened
    await opened.close()


@pytest.fixture
async def space(admin: Client) -> Space:
    """A namespace of the test's own."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    await admin.create(NAMESPACE, {"metadata": {"name": name}}, manager="test")
    return Space(admin, name)


@pytest.fixture
async def device(admin: Client) -> AsyncIterator[str]:
    """The name of a new GPUDevice; its kind is made known to the API server where it is not yet."""
    with suppress(AlreadyExists):
        await admin.create(CRDS, yaml.safe_load(CRD.read_text()), manager="test")
    name, served = f"d-{uuid.uuid4().hex[:10]}", asyncio.get_running_loop().time() + PATIENCE
    body = {"apiVersion": GPUDEVICE.api_version, "kind": GPUDEVICE.kind, "metadata": {"name": name}}
    while True:
        try:
            await admin.create(GPUDEVICE, body, manager="test")
            break
        except NotFound:  # known, but not served yet
            assert asyncio.get_running_loop().time() < served
            await asyncio.sleep(0.05)
    yield name
    with suppress(NotFound):
        await admin.request("DELETE", GPUDEVICE.path(None, name))
