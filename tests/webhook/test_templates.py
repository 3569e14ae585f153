"""What the chart says of the webhook's pods fits the process, and an API server takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import NODE
from controllers.runtime.errors import ApiError
from tests.kit.waiting import until
from tests.templates import harness
from webhook import server
from webhook.__main__ import parser

if TYPE_CHECKING:
    from tests.webhook.plane import Api, Plane

pytestmark = pytest.mark.cluster
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{names.NAMESPACE}/deployments"
PODS = f"/api/v1/namespaces/{names.NAMESPACE}/pods"
NEW_NODE: list[dict[str, Any]] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
ONLY = "test.example/only"
POLICY = f"/apis/policy/v1/namespaces/{names.NAMESPACE}/poddisruptionbudgets/{names.WEBHOOK}"
NETWORK = f"/apis/networking.k8s.io/v1/namespaces/{names.NAMESPACE}/networkpolicies/{names.WEBHOOK}"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-control-plane"


def deployment(node: str) -> dict[str, Any]:
    """The chart's own, whose pods go to that node alone, new as it is."""
    rendered = harness.objects(harness.render(harness.programs()["helm"]))
    (found,) = [o for o in rendered if (o["kind"], o["metadata"]["name"]) == ("Deployment", names.WEBHOOK)]
    spec = found["spec"]["template"]["spec"]
    spec["tolerations"] += NEW_NODE
    spec["nodeSelector"] = {ONLY: node}
    return found


async def test_of_two_replicas_one_may_be_evicted(plane: Plane, api: Api) -> None:
    node = plane.unique("node")
    await api.node(node, plane.unique("pool"), 0)
    await api.client.merge(NODE, node, {"metadata": {"labels": {ONLY: node}}}, manager="test")
    await api.create(DEPLOYMENTS, deployment(node))

    async def counted() -> bool:
        status = (await api.get(POLICY)).get("status", {})
        return (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (2, 1)

    async def evict(name: str) -> str:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        try:
            await api.create(f"{PODS}/{name}/eviction", body)
        except ApiError as error:
            return error.message
        return "evicted"

    try:
        await until(counted, "the budget to know both replicas")
        # As `kubectl drain` does: no new replica comes up here, and none may go elsewhere.
        await api.client.merge(NODE, node, {"spec": {"unschedulable": True}}, manager="test")
        pods = (await api.get(f"{PODS}?labelSelector={names.LABEL_APP}%3D{names.WEBHOOK}"))["items"]
        assert len(pods) == 2, "other tests' pods, which no budget protects, are left out"
        told = [await evict(item["metadata"]["name"]) for item in pods]
        assert told[0] == "evicted"
        assert "would violate the pod's disruption budget" in told[1]
    finally:
        await api.client.request("DELETE", f"{DEPLOYMENTS}/{names.WEBHOOK}")
        await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def test_only_two_ports_are_open(plane: Plane, api: Api) -> None:
    del plane
    spec = (await api.get(NETWORK))["spec"]
    assert spec["podSelector"] == {"matchLabels": {names.LABEL_APP: names.WEBHOOK}}
    assert spec["policyTypes"] == ["Ingress"]
    ports = {port["port"]: rule.get("from") for rule in spec["ingress"] for port in rule["ports"]}
    assert ports == {"https": None, "https-metrics": [{"namespaceSelector": {}}]}


async def test_the_api_server_waits_longer_than_the_webhook_takes(plane: Plane, api: Api) -> None:
    del plane
    (hook,) = (await api.get(CONFIGURATION))["webhooks"]
    assert hook["timeoutSeconds"] == 5 > server.DEADLINE
    assert (hook["failurePolicy"], hook["reinvocationPolicy"]) == ("Fail", "Never")
    assert [condition["name"] for condition in hook["matchConditions"]] == ["asks-for-a-pool"]


def test_the_port_is_that_of_the_service_and_the_address_can_be_every_one() -> None:
    flags = parser().parse_args(["--host=0.0.0.0"])
    assert (flags.host, flags.port) == ("0.0.0.0", 9443)  # noqa: S104 - a pod's only address is its own
    assert "0.0.0.0 or :: in a pod" in " ".join(parser().format_help().split())
