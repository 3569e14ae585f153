"""What the process looks at when it begins to lead: everything, with the settings that were read before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.foreign import ForeignDaemonSet, ForeignPod
from controllers.api.record import adapter
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap.loops.reconciler import Reconciler
from controllers.bootstrap.records import Operand
from controllers.runtime.settings import LiveSettings
from tests.bootstrap.world import DEVICE, NODE, Cluster

CHANGED = {
    "bootstrap": {"monitoring": {"scrapePeriod": "1s", "missingAfter": "9s"}, "validator": {"enabled": False}},
    "health": {"temperatureFaultC": 90},
}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.prepare()
    return made


def reconciler(cluster: Cluster, settings: LiveSettings[Settings]) -> Reconciler:
    process: Any = SimpleNamespace(
        executor=SimpleNamespace(execute=None),
        recorder=SimpleNamespace(enqueue=None),
        args=SimpleNamespace(
            agent_image="agent",
            agent_api_server_host="192.0.2.1",
            agent_api_server_port=None,
            agent_driver_root="",
            exporter_url="http://{host}/",
        ),
    )
    return Reconciler(process, cluster.view(), settings)


def live() -> LiveSettings[Settings]:
    nobody: Any = None
    return LiveSettings(resources.MODULECONFIG, Settings(), parse_settings, nobody)


async def test_settings_that_were_read_before_we_lead_are_followed(cluster: Cluster) -> None:
    settings = live()
    made = reconciler(cluster, settings)
    read: Any = CHANGED
    settings.changed(None, read)
    made.begin()

    assert (made.monitor.limits.missing_after, made.monitor.limits.temperature_fault) == (9, 90)
    assert made.scraper.period == 1


async def test_a_pool_that_gets_a_card_has_the_exporter_looked_at_and_a_card_that_changes_has_not(
    cluster: Cluster,
) -> None:
    made = reconciler(cluster, live())
    before = cluster.view().devices.get(DEVICE)
    cluster.pooled("a")
    pooled = cluster.view().devices.get(DEVICE)
    made._device_changed(pooled, pooled)
    assert made.components.controller.idle
    made._device_changed(before, pooled)
    assert not made.components.controller.idle


async def test_another_version_in_a_template_has_the_nodes_of_its_pods_looked_at_and_another_argument_has_not(
    cluster: Cluster,
) -> None:
    def operand(image: str, *args: str) -> Operand:
        spec = {"template": {"spec": {"containers": [{"name": "gfd", "image": image, "args": [*args]}]}}}
        meta = {"name": "gpu-gfd", "labels": {names.LABEL_COMPONENT: "gfd"}}
        return adapter(Operand).validate_python({"metadata": meta, "spec": spec})

    cluster.node(on="plain")
    made = reconciler(cluster, live())
    made._operand_changed(operand("gfd:1"), operand("gfd:1", "--verbose"))
    assert made.nodes.controller.idle
    made._operand_changed(operand("gfd:1"), operand("gfd:2"))
    assert made.nodes.controller._queue.take(0) == NODE
    assert made.nodes.controller._queue.take(0) is None


@pytest.mark.parametrize("known", [True, False])
async def test_a_node_whose_gates_are_open_is_looked_at_also_where_inventory_forgot_it(
    cluster: Cluster, known: bool
) -> None:
    if not known:
        cluster.drop(resources.GPUNODEINVENTORY, NODE)
    cluster.node(on="plain")
    made = reconciler(cluster, live())
    made.begin()

    assert not made.nodes.controller.idle
    assert made.nodes.controller._queue.take(0) == NODE
    assert made.nodes.controller._queue.take(0) is None


async def test_a_tenants_daemonset_has_no_node_looked_at(cluster: Cluster) -> None:
    """It may be edited in a loop: it counts only where a pod of such a program was let in with its privileges."""
    selector = {"nvidia.com/gpu.deploy.driver": "true"}
    with cluster.edit("Node", NODE) as node:
        node["metadata"]["labels"].update(selector)
    made = reconciler(cluster, live())
    container = {"name": "driver", "image": "x", "securityContext": {"privileged": True}}
    spec = {"template": {"spec": {"nodeSelector": selector, "containers": [container]}}}
    meta = {"name": "x", "namespace": "team", "labels": {"app.kubernetes.io/component": "nvidia-driver"}}
    theirs = adapter(ForeignDaemonSet).validate_python({"metadata": meta, "spec": spec})
    assert theirs.is_for(selector)
    made.other_drivers.daemonset_changed(None, theirs)
    assert made.nodes.controller.idle


def test_of_what_any_user_may_make_no_annotation_is_kept() -> None:
    meta = {"name": "x", "namespace": "team", "annotations": {"long": "x" * 1000}}
    for kind in (ForeignPod, ForeignDaemonSet):
        assert adapter(kind).validate_python({"metadata": meta}).metadata.annotations == {}


async def test_a_pass_has_the_metric_of_the_fuse_tell_how_many_nodes_it_holds(cluster: Cluster) -> None:
    async def execute(_: Any) -> None:
        pass

    made = reconciler(cluster, live())
    made.nodes._execute = execute
    for held in ({"worker-02", "worker-03"}, set[str]()):
        made.nodes._budget._denied = held
        await made.nodes.controller._reconcile(NODE)
        assert REGISTRY.get_sample_value("gpu_fuse_held", {"kind": "node", "group": "nodes"}) == len(held)
