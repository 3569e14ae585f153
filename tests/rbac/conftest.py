"""Two API servers that write down what is asked of them, with everything played that the module may ever do."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.runtime.client import Client
from sim.cluster import Options
from sim.controlplane.layout import Layout
from sim.module.install import CRD_FOLDERS, Tools, apply_crds, install_chart, make_namespace
from sim.module.processes import Timers
from sim.view import View
from tests.kit import planes
from tests.kit.worker_plane import WorkerPlane
from tests.nodeagent.discover.node import Cluster
from tests.rbac import agents, grants, hooks
from tests.rbac.log import Log
from tests.rbac.story import QUICK, Story, coverage, looked_at
from tests.slice.people import People
from tests.templates import harness
from tools import programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim.controlplane import ControlPlane
    from tests.rbac.audit import Use
    from tests.rbac.grants import Chart

POLICY = Path(__file__).with_name("audit-policy.yaml")
TIMERS = Timers(lease_duration=10.0, renew_deadline=7.0, retry_period=2.0, watch_idle=60.0)
# As in clusters that have it: who makes an object that keeps its owner from going must be allowed to.
OWNERS = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)


@dataclass(frozen=True)
class Played:
    """What was seen, and the cluster of the processes, which is still up."""

    uses: frozenset[Use]
    plane: ControlPlane


@pytest.fixture(scope="module")
def chart() -> Chart:
    """The module's RBAC, as Helm renders it."""
    helm = programs.ensure(["helm"])["helm"]
    rendered = harness.render(helm, harness.DRIVERS, harness.CONSOLE, release_namespace=names.NAMESPACE)
    return grants.read(rendered, names.NAMESPACE)


@pytest.fixture(scope="module")
def played(worker_plane: WorkerPlane) -> Played:
    """The whole story, once."""
    return worker_plane.take("rbac", _played)


@contextmanager
def _played(folder: Path) -> Iterator[Played]:
    of_agents = _agents(folder)
    flags = {"audit_policy": POLICY, "apiserver_flags": OWNERS}
    values = {"gpuControlPlane.console.enabled": "true"}
    options = Options(profile="mixed-2=1,t4-4=1", timers=TIMERS, driver=True, values=values, **flags)
    with planes.module(folder / "module", options) as plane:
        yield Played(of_agents | asyncio.run(_processes(plane)), plane)


async def _processes(plane: ControlPlane) -> frozenset[Use]:
    log = Log(Layout(plane.dir).log("audit"))
    async with View(plane.kubeconfig) as view:
        people = People(plane, view)
        await people.settings(**QUICK)
        await people.ready_nodes(2)
        story, tools = Story(people, log), planes.tools(plane)
        await story.pools_and_pods()
        await story.queue()
        await story.modes()
        await story.hands()
        await story.nodes()
        await story.drivers()
        await story.collisions()
        await story.settings()
        await coverage(plane, tools)
        await looked_at(plane, tools)
        await story.stranger()
        await story.events()
        await story.switched_off()
    return frozenset(log.refresh())


def _agents(folder: Path) -> frozenset[Use]:
    """etcd and an API server, nothing that acts by itself: the real programs of nodes, and those of Helm's hooks."""
    with planes.plane(folder / "agents", audit_policy=POLICY, **planes.ALONE) as plane:
        tools = planes.tools(plane)
        make_namespace(tools)
        asyncio.run(hooks.install(plane, tools, folder))
        apply_crds(tools, *sorted(CRD_FOLDERS[0].glob("nodefeature*.yaml")))
        install_chart(tools, {})
        asyncio.run(_play_agents(plane, tools, folder))
        return frozenset(Log(Layout(plane.dir).log("audit")).refresh())


async def _play_agents(plane: ControlPlane, tools: Tools, folder: Path) -> None:
    client = await Client.connect(plane.kubeconfig, user_agent="test")
    try:
        (folder / "mig").mkdir()
        await agents.play(Cluster(client, plane), folder)
        await hooks.clean_up(plane, tools, client, folder)
    finally:
        await client.close()
