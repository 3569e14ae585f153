"""One scratch API server with the chart in force, for all tests of this folder that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from tests.security.someone import Someone
from tests.templates.conftest import installed, kube
from tests.templates.harness import NAMESPACE, eventually

if TYPE_CHECKING:
    from tests.templates import harness

__all__ = ["installed", "kube"]
NODE_A = "/api/v1/nodes/node-a"
OURS = "/apis/admissionregistration.k8s.io/v1/{}/gpu-control-plane"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@pytest.fixture(scope="module")
def guarded(kube: harness.Kube) -> harness.Kube:
    """The API server once it refuses what the policies of this folder's tests refuse."""
    kubelet, webhook = Someone.kubelet(kube, "node-a"), kube.account(names.WEBHOOK)
    label = {"metadata": {"labels": {names.pool_node_label("probe"): ""}}}
    secret = {"metadata": {"name": "probe"}}
    marked = {"metadata": {"labels": {"probe": ""}}}
    probes = (
        lambda: kubelet.merge(f"{NODE_A}?dryRun=All", label),
        lambda: webhook.create(f"/api/v1/namespaces/{NAMESPACE}/secrets?dryRun=All", secret),
        *(lambda kind=kind: webhook.merge(f"{OURS.format(kind)}?dryRun=All", marked) for kind in KINDS),
    )
    for probe in probes:
        eventually(lambda probe=probe: probe().code == 403, f"a policy is not in force: {probe().code}")
    return kube
