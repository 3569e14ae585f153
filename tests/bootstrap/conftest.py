"""Clusters with the chart, the simulated agent and no nodes: without the module's processes, and with two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.runtime.client import Client
from sim import controlplane
from sim.cluster import Options
from sim.module.identities import kubeconfig_for
from sim.module.processes import exporter_url
from tests.bootstrap.fleet import Fleet
from tests.inventory.plane import Plane
from tests.kit import planes
from tests.kit.worker_plane import WorkerPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sim.controlplane import ControlPlane

# The tests put cards into pools by their statuses, which the policies leave to the module's processes.
VALUES = {"gpuControlPlane.policies.statusWriters": "{kubernetes-admin}"}


@pytest.fixture(scope="module")
def bare(worker_plane: WorkerPlane) -> ControlPlane:
    """Nobody of the module runs; the tests start its processes."""
    options = Options(nodes=0, module=(), values=VALUES)
    return worker_plane.take("without processes", lambda folder: planes.module(folder, options))


@pytest.fixture(scope="module")
def prepared(worker_plane: WorkerPlane) -> ControlPlane:
    """Inventory and bootstrap run."""
    processes = (names.INVENTORY, names.BOOTSTRAP)
    options = Options(nodes=0, module=processes, timers=planes.TIMERS, values=VALUES)
    return worker_plane.take("bootstrap", lambda folder: planes.module(folder, options))


@pytest.fixture
async def plane(bare: ControlPlane) -> AsyncIterator[Plane]:
    client = await Client.connect(bare.kubeconfig, user_agent="test")
    yield Plane(client, bare.kubeconfig)
    await client.close()


@pytest.fixture(scope="module")
def flags(bare: ControlPlane) -> dict[str, list[str]]:
    """Flags of the processes that the tests start, by module: their own identities, and where exporters answer."""
    tools = planes.tools(bare)
    folder = bare.dir / "pki" / "identities"
    port = controlplane.status(bare.dir).processes["simulated-agent"].ports["exporters"]
    accounts = {"controllers.inventory": names.INVENTORY, "controllers.bootstrap": names.BOOTSTRAP}
    made = {
        module: [f"--kubeconfig={kubeconfig_for(bare, tools, account, folder)}"] for module, account in accounts.items()
    }
    made["controllers.bootstrap"].append(f"--exporter-url={exporter_url(port)}")
    return made


@pytest.fixture
async def fleet(prepared: ControlPlane) -> AsyncIterator[Fleet]:
    """Verbs over the cluster where inventory and bootstrap run, with quick timers."""
    client = await Client.connect(prepared.kubeconfig, user_agent="test")
    made = Fleet(Plane(client, prepared.kubeconfig), prepared)
    await made.configure()
    yield made
    await client.close()
