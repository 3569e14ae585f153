"""From GPU Operator to the module without a restart: its objects stand in a real cluster, its pods are played."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import foreign, names, resources
from controllers.api.conditions import CONFIGURED, find
from controllers.domain.driver.variant import ADOPTED
from controllers.explain.faults import UsageError
from kubectl_gpu import parser, takeover
from kubectl_gpu.cluster import Cluster
from sim import gpu_operator
from sim.nodes import modules
from sim.nodes.names import MODULES
from sim.workload import IMAGE
from tests.kit.waiting import PATIENCE
from tests.slice.drivers import WANTED, Drivers
from tests.slice.fleets import cluster, drivers

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cluster", "drivers"]
pytestmark = [pytest.mark.cluster]
TEAM, POOL = "takeover", "taken"


class Fleet:
    """Nodes that GPU Operator serves, and what a person does to have the module serve them."""

    def __init__(self, made: Drivers, file: Path) -> None:
        self.drivers, self.client, self.view, self.file = made, made.client, made.view, file

    async def installed(self) -> None:
        """The operator with its policy, its DaemonSets and a driver on each node."""
        await self.drivers.people.namespace(gpu_operator.NAMESPACE)
        for crd in gpu_operator.crds():
            await self.client.create(resources.CRD, crd, manager="test")
        about = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
        body = {**about, "spec": {"driver": {"enabled": True}}}
        policy = orjson.loads(await self.drivers.people.eventually(self._create(foreign.CLUSTERPOLICY, body)))
        await self.client.create(
            resources.DEPLOYMENT, gpu_operator.deployment(), gpu_operator.NAMESPACE, manager="test"
        )
        for app in gpu_operator.PROGRAMS:
            made = gpu_operator.daemonset(app, policy)
            await self.client.create(resources.DAEMONSET, made, gpu_operator.NAMESPACE, manager="test")

    def _create(self, kind: resources.Resource, body: dict[str, Any]) -> Any:
        return lambda: self.client.create(kind, body, manager="test")

    async def served(self, node: str) -> None:
        """The operator has the node: labels, and its driver is loaded."""
        body = {"metadata": {"labels": gpu_operator.LABELS}}
        await self.client.merge(resources.NODE, node, body, manager="gpu-operator")
        await self.until(lambda: self.driver_of(node))
        boot = self.drivers.node(node).status.node_info.boot_id
        loaded = modules.text(modules.Loaded(version=WANTED, boot=boot, pod=self.driver_of(node)))
        await self.drivers.mark(node, MODULES, loaded)

    def driver_of(self, node: str) -> str:
        """uid of the operator's driver pod on a node; empty before it is there."""
        there = (pod for pod in self.view.pods if pod.node == node and "nvidia-driver" in pod.name)
        return next((pod.metadata.uid for pod in there if pod.metadata.namespace == gpu_operator.NAMESPACE), "")

    async def pod(self, name: str, node: str) -> None:
        """A pod of a team with a card by the operator's plugin."""
        container = {"name": "main", "image": IMAGE, "resources": {"limits": {gpu_operator.RESOURCE: "1"}}}
        selector = {names.LABEL_HOSTNAME: node}
        spec = {"containers": [container], "nodeSelector": selector, "terminationGracePeriodSeconds": 0}
        await self.client.create(resources.POD, {"metadata": {"name": name}, "spec": spec}, TEAM, manager="test")

    async def kubectl(self, *words: str) -> int:
        """`kubectl gpu takeover` with these words, in this process."""
        args = parser.build().parse_args(["takeover", *words])
        return await takeover.takeover(Cluster(self.client, "default"), args)

    OPERATOR = resources.DEPLOYMENT.path(gpu_operator.NAMESPACE, "gpu-operator")

    async def again(self) -> int:
        """`begin` with the saved file, where the policy is another one meanwhile; takes that one away again."""
        about = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
        await self.client.create(
            foreign.CLUSTERPOLICY, {**about, "spec": {"driver": {"enabled": True}}}, manager="test"
        )
        try:
            return await self.kubectl("begin", "-f", str(self.file))
        finally:
            await self.client.request("DELETE", foreign.CLUSTERPOLICY.path(name="cluster-policy"))

    async def taint(self, node: str) -> None:
        """What a command leaves that is cut off while a node goes over."""
        taints = [{"key": names.TAKEOVER_TAINT, "effect": "NoSchedule"}]
        await self.client.merge(resources.NODE, node, {"spec": {"taints": taints}}, manager="test")

    async def is_tainted(self, node: str) -> bool:
        raw = orjson.loads(await self.client.request("GET", resources.NODE.path(name=node)))
        return any(one["key"] == names.TAKEOVER_TAINT for one in raw["spec"].get("taints") or ())

    def pods(self, *, driver: bool | None = None) -> dict[str, str]:
        """uids of the operator's pods on nodes, and of the team's, by name."""
        found = [pod for pod in self.view.pods if pod.metadata.namespace in (gpu_operator.NAMESPACE, TEAM) and pod.node]
        drives = {pod.name: foreign.part_of(pod.metadata.labels) == "driver" for pod in found}
        return {pod.name: pod.metadata.uid for pod in found if driver in (None, drives[pod.name])}

    def current(self) -> int:
        """Nodes that count as having the driver that is wanted."""
        found = self.drivers.found()
        return found.status.counts.current if found is not None and found.status.counts is not None else 0

    def offered(self, node: str) -> int:
        """Cards of a node that a pool offers."""
        return sum(one.status.node_name == node and one.status.published is not None for one in self.view.devices)

    def told(self) -> str:
        cards = {
            one.name: (said.reason, said.message)
            for one in self.view.devices
            if (said := find(one.status.conditions, CONFIGURED)) is not None
        }
        elsewhere = {one.name: one.status.managed_elsewhere for one in self.view.inventories}
        return f"{cards}\n{elsewhere}\n{self.drivers.told()}\n{sorted(self.pods())}"

    async def until(self, is_so: Any) -> None:
        await self.view.until(is_so, PATIENCE, self.told)


@pytest.fixture
async def fleet(drivers: Drivers, tmp_path: Path) -> Any:
    made = Fleet(drivers, tmp_path / "saved.yaml")
    playing = asyncio.create_task(gpu_operator.Plugin(made.client, made.view).run())
    await drivers.people.namespace(TEAM)
    yield made
    playing.cancel()
    for kind in (foreign.CLUSTERPOLICY, foreign.NVIDIADRIVER):
        await made.client.request("DELETE", resources.CRD.path(None, f"{kind.plural}.nvidia.com"))
    for namespace in (gpu_operator.NAMESPACE, TEAM):
        for kind in (resources.DEPLOYMENT, resources.DAEMONSET, resources.POD):
            await made.client.request("DELETE", kind.path(namespace), body={"gracePeriodSeconds": 0})


async def both_at_once(fleet: Fleet, drivers: Drivers) -> tuple[str, str]:
    """An idle node and a busy one that the operator serves, whose cards are in a pool of the module as well."""
    idle, busy = await drivers.nodes(*["l40s-4@ubuntu24.04+bare"] * 2)
    await fleet.until(lambda: all(drivers.inventory(node) for node in (idle, busy)))
    await fleet.installed()
    for node in (idle, busy):
        await fleet.served(node)
    await fleet.until(lambda: drivers.node(busy).status.allocatable.get(gpu_operator.RESOURCE) == "4")
    await fleet.pod("train", busy)
    await drivers.people.running(TEAM, 1)
    await drivers.driver(rollout={"paused": True})
    await drivers.works(idle, "Blocked", "ManagedElsewhere")
    await fleet.until(lambda: all(drivers.ready(node)[0] == "True" for node in (idle, busy)))
    await drivers.people.pool(POOL)
    for card in [one.name for one in fleet.view.devices if one.status.node_name in (idle, busy)]:
        await drivers.people.annotate(card, POOL)
    return idle, busy


@pytest.mark.slow("a fleet with the operator's programs is made, and goes over node by node")
async def test_a_fleet_goes_over_without_a_restart_and_the_way_back_is_there(
    fleet: Fleet, drivers: Drivers, capsys: pytest.CaptureFixture[str]
) -> None:
    idle, busy = await both_at_once(fleet, drivers)
    await fleet.until(lambda: fleet.told().count("'ManagedElsewhere', 'The card is not offered") == 8)
    assert (fleet.offered(idle), fleet.offered(busy)) == (0, 0), "two plugins never offer one card"
    await drivers.people.settled(POOL, (8, 0, 0, 0))
    before = {name: uid for name, uid in fleet.pods().items() if not name.startswith("gpu-operator-")}

    # The operator stops, its pods stay, and its drivers are the module's.
    with pytest.raises(UsageError, match="Give --filename"):
        await fleet.kubectl("begin")
    assert await fleet.kubectl("begin", "-f", str(fleet.file)) == 0
    await fleet.until(lambda: all(drivers.label(node) == ADOPTED for node in (idle, busy)))
    assert before.items() <= fleet.pods().items()
    await fleet.until(lambda: drivers.work(idle) is None and fleet.current() == 2)
    assert not drivers.pods(idle), "no driver beside theirs"

    # An idle node goes over; the other one when its pod has ended.
    await fleet.kubectl("nodes")
    await fleet.until(lambda: (fleet.offered(idle), fleet.offered(busy)) == (4, 0))
    said = capsys.readouterr()
    assert len(re.findall(r"([0-9.]+) s after the operator's plugin went", said.out)) == 1
    assert f"{busy}: {TEAM}/train have cards by the operator's plugin" in said.err
    assert fleet.pods()["train"] == before["train"]
    assert not any(taint.key == names.TAKEOVER_TAINT for taint in drivers.node(idle).spec.taints)
    await fleet.taint(busy)
    with pytest.raises(UsageError, match="Not yet"):
        await fleet.kubectl("finish")
    assert not await fleet.is_tainted(busy), "a taint that a command left which was cut off goes with the next step"

    await drivers.people.remove(resources.POD, "train", TEAM)
    await fleet.until(lambda: "train" not in fleet.pods())
    await fleet.kubectl("nodes")
    await drivers.people.settled(POOL, (8, 0, 0, 8))
    assert await fleet.kubectl("finish") == 0
    await fleet.until(lambda: not any(key.startswith(foreign.DEPLOY) for key in drivers.node(idle).metadata.labels))
    assert fleet.pods() == {name: uid for name, uid in before.items() if name.startswith("nvidia-driver-daemonset")}

    # The way back: the operator has its policy again.
    with pytest.raises(UsageError, match="does not have the operator as it is"):
        await fleet.again()
    assert await fleet.kubectl("back", "-f", str(fleet.file)) == 0
    with pytest.raises(UsageError, match="GPU Operator runs"):
        await fleet.kubectl("finish")
    made = orjson.loads(await fleet.client.request("GET", fleet.OPERATOR))
    assert made["spec"]["replicas"] == 1
    assert names.TAKEOVER_REPLICAS not in made["metadata"].get("annotations", {})
    path = foreign.CLUSTERPOLICY.path(name="cluster-policy")
    assert orjson.loads(await fleet.client.request("GET", path))["spec"] == {"driver": {"enabled": True}}
    await fleet.until(lambda: drivers.label(idle) is None)
    await drivers.people.retire(POOL)
