"""Clusters with the chart, the simulated agent and no nodes: without the module's processes, and with two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.runtime.client import Client
from sim import controlplane, programs
from sim.cluster import Options, bring_up
from sim.module.identities import kubeconfig_for
from sim.module.install import Tools
from sim.module.processes import exporter_url
from tests.bootstrap.fleet import Fleet
from tests.conftest import TIMERS
from tests.inventory.plane import Plane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sim.controlplane import ControlPlane

# The tests put cards into pools by their statuses, which the policies leave to the module's processes.
VALUES = {"gpuControlPlane.policies.statusWriters": "{kubernetes-admin}"}


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Nobody of the module runs; the tests start its processes."""
    plane = bring_up(tmp_path_factory.mktemp("bare"), Options(nodes=0, module=(), values=VALUES))
    yield plane
    controlplane.down(plane.dir)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Inventory and bootstrap run."""
    processes = (names.INVENTORY, names.BOOTSTRAP)
    options = Options(nodes=0, module=processes, timers=TIMERS, values=VALUES)
    plane = bring_up(tmp_path_factory.mktemp("prepared"), options)
    yield plane
    controlplane.down(plane.dir)


@pytest.fixture
async def plane(bare: ControlPlane) -> AsyncIterator[Plane]:
    client = await Client.connect(bare.kubeconfig, user_agent="test")
    yield Plane(client, bare.kubeconfig)
    await client.close()


@pytest.fixture(scope="session")
def flags(bare: ControlPlane) -> dict[str, list[str]]:
    """Flags of the processes that the tests start, by module: their own identities, and where exporters answer."""
    tools = Tools(bare.kubectl, programs.ensure(["helm"])["helm"], bare.kubeconfig)
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
