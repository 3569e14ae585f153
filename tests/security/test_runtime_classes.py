"""RuntimeClasses under which a container may see every card of its node: kept from tenants where one wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from tests.templates import harness
from tests.templates.harness import DEAD_WEBHOOK, NAMESPACE, eventually, install, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE = "gpuControlPlane.policies.reserveRuntimeClasses=true"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"
POLICY = "gpu-control-plane-runtime-classes"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def test_without_being_asked_the_chart_reserves_none() -> None:
    found = harness.objects(harness.render(harness.programs()["helm"]))
    assert POLICY not in {one["metadata"]["name"] for one in found}


@pytest.fixture
def reserved(guarded: harness.Kube) -> Iterator[harness.Kube]:
    """The API server with the chart installed so, and the classes."""
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    for name in (*names.RUNTIME_CLASSES, "gvisor"):
        assert guarded.create(classes, {"metadata": {"name": name}, "handler": name}).code in {201, 409}
    text = harness.render(
        guarded.binaries["helm"], f"gpuControlPlane.webhook.url={DEAD_WEBHOOK}", VALUE, include_crds=True, hooks=False
    )
    done = guarded.kubectl("apply", "--server-side", "--field-manager=installer", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    probe = pod("probe", runtimeClassName="nvidia")
    eventually(lambda: guarded.create(PODS, probe).code == 403, "the policy is not in force")
    yield guarded
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        guarded.delete(f"{ADMISSION}/{kind}/{POLICY}")
    eventually(lambda: guarded.create(PODS, probe).code == 201, "the policy is still in force")
    assert install(guarded).returncode == 0


@pytest.mark.cluster
def test_a_tenants_pod_does_not_run_where_an_image_may_ask_for_every_card(reserved: harness.Kube) -> None:
    for name in names.RUNTIME_CLASSES:
        answer = reserved.create(PODS, pod("x", runtimeClassName=name))
        assert answer.code == 403, answer.message
        assert "are for the pods of gpu-control-plane alone" in answer.message
    for other in ({}, {"runtimeClassName": "gvisor"}):
        assert reserved.create(PODS, pod("x", **other)).code == 201
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    reserved.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    ours = reserved.create(
        f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod("x", namespace=NAMESPACE, runtimeClassName="nvidia")
    )
    assert ours.code == 201, ours.message
