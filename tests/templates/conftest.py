"""One API server with the chart in force, for all tests of the chart."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.kit.versions import HAS_RESIZE
from tests.templates import harness
from tests.templates.harness import FEATURES, GROUP, asking, eventually, install, node_feature_crd, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.worker_plane import WorkerPlane


PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class Installed:
    """The API server with the chart in force, and how kubectl fared with it."""

    kube: harness.Kube
    first_install: CompletedProcess[str]


@pytest.fixture(scope="module")
def installed(worker_plane: WorkerPlane) -> Installed:
    """One for the tests of the chart and of its security."""
    return worker_plane.take("chart", _installed)


@pytest.fixture(scope="module")
def kube(installed: Installed) -> harness.Kube:
    """The API server with the chart in force: one GPUDevice for each node, a node's inventory and a pool."""
    return installed.kube


@contextmanager
def _installed(folder: Path) -> Iterator[Installed]:
    with harness.scratch(folder) as kube:
        _others(kube)
        first_install = install(kube)
        assert first_install.returncode == 0, first_install.stderr
        _ours(kube)
        yield Installed(kube, first_install)


def _others(kube: harness.Kube) -> None:
    """The CRDs of others, and two nodes."""
    answer = kube.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", node_feature_crd())
    assert answer.code == 201, answer.message
    for node in ("node-a", "node-b"):
        assert kube.create("/api/v1/nodes", {"metadata": {"name": node}}).code == 201
    # No controller manager makes it here, and a pod needs one.
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    assert kube.create("/api/v1/namespaces/default/serviceaccounts", account).code == 201


def _ours(kube: harness.Kube) -> None:
    """The objects that tests ask for by name; returns when every policy is in force."""
    for plural in ("gpudevices", "gpunodeinventories", "gpupools", "gpudrivers"):
        eventually(lambda plural=plural: kube.get(f"{GROUP}/{plural}").code == 200, f"{plural} are not served")
    eventually(lambda: kube.get(FEATURES).code == 200, "nodefeatures are not served")
    made = [
        ("gpudevices", "GPUDevice", "card-a", {}),
        ("gpudevices", "GPUDevice", "card-b", {}),
        ("gpudevices", "GPUDevice", "card-full", {}),
        ("gpunodeinventories", "GPUNodeInventory", "node-a", {"spec": {"nodeName": "node-a"}}),
        ("gpunodeinventories", "GPUNodeInventory", "node-full", {"spec": {"nodeName": "node-full"}}),
        ("gpupools", "GPUPool", "pool-a", {"spec": {}}),
        ("gpupools", "GPUPool", "pool-full", {"spec": {}}),
        ("gpudrivers", "GPUDriver", "driver-a", {"spec": {"version": "580.178.04"}}),
        ("gpudrivers", "GPUDriver", "driver-full", {"spec": {"version": "580.178.04"}}),
    ]
    for plural, kind, name, rest in made:
        body = {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": kind, "metadata": {"name": name}, **rest}
        answer = kube.create(f"{GROUP}/{plural}", body)
        assert answer.code == 201, answer.message
    assert kube.create(PODS, pod("resized")).code == 201
    eventually(lambda: all(_in_force(kube)), f"policies are not in force: {_in_force(kube)}")
    kube.delete(f"{PODS}/resized?gracePeriodSeconds=0")
    inventory = kube.account("gpu-inventory-controller")
    for card, node in (("card-a", "node-a"), ("card-b", "node-b"), ("card-full", "node-a")):
        answer = inventory.merge(f"{GROUP}/gpudevices/{card}/status", {"status": {"nodeName": node}})
        assert answer.code == 200, answer.message


def _in_force(kube: harness.Kube) -> list[bool]:
    """Whether each policy and the webhook refuse what they must; nothing is changed."""
    dry = "dryRun=All"
    agent = kube.account("gpu-nodeagent-discover")
    feature = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "metadata": {"name": "gpu-probe"}}
    gpu = pod("probe", containers=[{"name": "main", "image": "none", "resources": asking()}])
    resize = {"spec": {"containers": gpu["spec"]["containers"]}}
    return [
        kube.merge(f"{GROUP}/gpudevices/card-a/status?{dry}", {"status": {"managed": True}}).code == 403,
        agent.create(f"{FEATURES}?{dry}", feature).code == 403,
        kube.create(f"{PODS}?{dry}", pod("probe", marks=True)).code == 403,
        kube.create(f"{PODS}?{dry}", gpu).code == 500,
        not HAS_RESIZE or kube.merge(f"{PODS}/resized/resize?{dry}", resize).code == 403,
    ]
