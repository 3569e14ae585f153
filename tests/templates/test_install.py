"""The chart renders, and a real API server takes it without a warning."""

from __future__ import annotations

import base64
import re
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.templates import harness
from tests.templates.conftest import Installed
from tests.templates.containers import the_container
from tests.templates.harness import eventually, install

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cluster
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-control-plane"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
CLUSTER_SCOPED = {
    "Namespace", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "FlowSchema",
    "PriorityLevelConfiguration", "CustomResourceDefinition",
}  # fmt: skip
OWN_ROLES = ("d8:gpu-control-plane:",)
PEOPLES_ROLES = ("d8:user-authz:gpu-control-plane:", "d8:manage:permission:module:gpu-control-plane:")


@pytest.fixture(scope="session")
def chart() -> list[dict[str, Any]]:
    """The objects of the chart with its own defaults."""
    return harness.objects(harness.render(harness.programs()["helm"]))


def is_hook(item: dict[str, Any]) -> bool:
    """Whether Helm makes it for a program that runs before an install, an upgrade or an uninstall."""
    return "helm.sh/hook" in item["metadata"].get("annotations", {})


def of_kind(chart: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The objects of a kind."""
    return [o for o in chart if o["kind"] == kind]


def test_every_object_says_whose_it_is(chart: list[dict[str, Any]]) -> None:
    for item in chart:
        labels = item["metadata"].get("labels", {})
        assert labels.get("heritage") == "deckhouse", item["metadata"]["name"]
        assert labels.get("module") == "gpu-control-plane", item["metadata"]["name"]
        if item["kind"] not in CLUSTER_SCOPED and not is_hook(item):
            assert item["metadata"].get("namespace") == harness.NAMESPACE, item["metadata"]["name"]


def test_no_name_twice(chart: list[dict[str, Any]]) -> None:
    keys = [(o["kind"], o["metadata"]["name"]) for o in chart]
    assert len(keys) == len(set(keys))


def test_the_namespace_outlives_the_release_that_made_it(chart: list[dict[str, Any]]) -> None:
    (made,) = of_kind(chart, "Namespace")
    assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    inside = harness.render(harness.programs()["helm"], release_namespace=harness.NAMESPACE)
    assert of_kind(harness.objects(inside), "Namespace") == []


def test_every_program_has_time_to_start(chart: list[dict[str, Any]]) -> None:
    made = {o["metadata"]["name"]: the_container(o) for o in chart if o["kind"] in ("Deployment", "DaemonSet")}
    assert len(made) == 5
    for name, container in made.items():
        probe = container["startupProbe"]
        assert probe["httpGet"] == container["livenessProbe"]["httpGet"], name
        assert probe["periodSeconds"] * probe["failureThreshold"] == 180, name


def test_a_role_gives_nothing_by_wildcard(chart: list[dict[str, Any]]) -> None:
    roles = of_kind(chart, "ClusterRole") + of_kind(chart, "Role")
    assert len(roles) > 8
    for role in roles:
        assert role["kind"] == "Role" or role["metadata"]["name"].startswith(OWN_ROLES + PEOPLES_ROLES)
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], role["metadata"]["name"]


def test_every_account_is_bound_to_a_role_of_its_name(chart: list[dict[str, Any]]) -> None:
    roles = {o["metadata"]["name"] for o in of_kind(chart, "ClusterRole")}
    roles = {name for name in roles if not name.startswith(PEOPLES_ROLES)}
    bound = {o["subjects"][0]["name"]: o["roleRef"]["name"] for o in of_kind(chart, "ClusterRoleBinding")}
    accounts = {o["metadata"]["name"] for o in of_kind(chart, "ServiceAccount")}
    in_namespace = {o["subjects"][0]["name"]: o["roleRef"]["name"] for o in of_kind(chart, "RoleBinding")}
    # The node's report is all that these two touch, and that is in our namespace.
    namespaced = {"gpu-nodeagent-discover", "gpu-nodeagent-validate"}
    assert bound == {name: f"d8:gpu-control-plane:{name}" for name in accounts - namespaced}
    assert set(bound.values()) == roles
    assert all(in_namespace[name] == name for name in namespaced)


def test_the_webhook_is_reached_by_service_or_by_url() -> None:
    helm = harness.programs()["helm"]
    service = {"name": "gpu-admission-webhook", "namespace": harness.NAMESPACE, "port": 443, "path": "/mutate-pods"}
    for sets, expected, services in (
        ([], {"service": service}, 1),
        (["gpuControlPlane.webhook.url=https://127.0.0.1:9443/"], {"url": "https://127.0.0.1:9443/mutate-pods"}, 0),
    ):
        rendered = harness.objects(harness.render(helm, *sets))
        (configuration,) = of_kind(rendered, "MutatingWebhookConfiguration")
        assert configuration["webhooks"][0]["clientConfig"] == expected
        (validating,) = of_kind(rendered, "ValidatingWebhookConfiguration")
        there = str(expected).replace("/mutate-pods", "/validate")
        assert {str(webhook["clientConfig"]) for webhook in validating["webhooks"]} == {there}
        assert len(of_kind(rendered, "Service")) == services


def test_only_the_api_servers_addresses_may_ask_the_webhook_where_they_are_given() -> None:
    value = "gpuControlPlane.webhook.askedFrom={10.0.0.1/32,fd00::/64}"
    policies = of_kind(harness.objects(harness.render(harness.programs()["helm"], value)), "NetworkPolicy")
    rules = [rule for policy in policies for rule in policy["spec"]["ingress"]]
    (asked,) = [rule for rule in rules if rule["ports"][0]["port"] == "https"]
    assert asked["from"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}, {"ipBlock": {"cidr": "fd00::/64"}}]


def test_only_what_can_be_refused_waits_for_us(chart: list[dict[str, Any]]) -> None:
    (validating,) = of_kind(chart, "ValidatingWebhookConfiguration")
    webhooks = {webhook["name"]: webhook for webhook in validating["webhooks"]}
    failing = {name for name, webhook in webhooks.items() if webhook["failurePolicy"] == "Fail"}
    assert failing == {f"{what}.gpu.deckhouse.io" for what in ("gpudevices", "gpupools", "pod-gates", "bindings")}
    assert len(webhooks) == 9
    for name, webhook in webhooks.items():
        assert (webhook["sideEffects"], webhook["timeoutSeconds"]) == ("None", 5), name
        assert "caBundle" not in webhook["clientConfig"], name
        assert webhook["matchConditions"], name
        assert all("/status" not in resource for rule in webhook["rules"] for resource in rule["resources"]), name


def test_the_chart_is_small_and_brings_the_crds_alone(tmp_path: Path) -> None:
    helm = harness.programs()["helm"]
    subprocess.run([helm, "package", harness.ROOT, "--destination", tmp_path], check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as chart:
        files = [name.removeprefix("gpu-control-plane/") for name in chart.getnames()]
    allowed = {"Chart.yaml", "values.yaml", "templates", "crds", "charts", "monitoring"}
    assert {name.partition("/")[0] for name in files} <= allowed
    crds = {name for name in files if name.startswith("crds/")}
    assert crds == {f"crds/{kind}.yaml" for kind in ("gpudevice", "gpudriver", "gpunodeinventory", "gpupool")}


def test_names_are_those_of_the_contract(chart: list[dict[str, Any]]) -> None:
    from controllers.api import gangs, names

    accounts = {o["metadata"]["name"] for o in of_kind(chart, "ServiceAccount")}
    managers = {
        names.MANAGER_DISCOVER,
        names.MANAGER_VALIDATE,
        names.MANAGER_PLUGIN,
        names.MANAGER_MIG,
        names.MANAGER_TOOLKIT,
    }
    processes = {names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.WEBHOOK, names.COVERAGE}
    assert accounts == processes | managers | {names.MANAGER_CRDS, names.MANAGER_CLEANUP}
    assert harness.NAMESPACE == names.NAMESPACE == of_kind(chart, "Namespace")[0]["metadata"]["name"]
    (daemonset,) = of_kind(chart, "DaemonSet")
    assert daemonset["metadata"]["name"] == names.DISCOVER_DAEMONSET
    text = str(chart)
    for name in (names.WEBHOOK_SECRET, names.WEBHOOK_CONFIGURATION, names.LABEL_PRESENT, names.NFD_NODE_NAME,
                 names.REQUEST_ID, names.DEVICES, names.LABEL_POOL):  # fmt: skip
        assert name in text, name
    written = set(re.findall(r"gpu\.deckhouse\.io/[a-z-]+", text))
    known = {value for value in vars(names).values() if isinstance(value, str) and value.startswith(names.PREFIX)}
    known |= gangs.KEYS
    assert written <= known | {"gpu.deckhouse.io/v", names.deploy_label("").removesuffix(".")}, written - known


def test_installs_without_a_warning(installed: Installed) -> None:
    first_install = installed.first_install
    assert first_install.returncode == 0, first_install.stderr
    assert first_install.stderr == ""
    assert "serverside-applied" in first_install.stdout


def test_installing_again_keeps_the_certificate_of_the_process(kube: harness.Kube) -> None:
    pem = base64.b64encode(kube.ca.read_bytes()).decode()
    process = kube.account("gpu-admission-webhook")
    patch = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "gpu-control-plane"},
        "webhooks": [{"name": "pods.gpu.deckhouse.io", "clientConfig": {"caBundle": pem}}],
    }
    answer = process.apply(WEBHOOKS, patch, "gpu-admission")
    assert answer.code == 200, answer.message
    assert answer.warnings == []
    again = install(kube)
    assert (again.returncode, again.stderr) == (0, "")
    client = kube.get(WEBHOOKS).body["webhooks"][0]["clientConfig"]
    assert client == {"caBundle": pem, "url": "https://127.0.0.1:1/mutate-pods"}
    # The process applies to what is installed; it never makes a configuration of its own.
    other = {**patch, "metadata": {"name": "another"}}
    assert process.apply(WEBHOOKS.replace("gpu-control-plane", "another"), other, "gpu-admission").code == 403


def test_policies_pass_the_api_servers_type_check(kube: harness.Kube, tmp_path: Path) -> None:
    def unchecked() -> list[str]:
        items = kube.get(POLICIES).body["items"]
        return [o["metadata"]["name"] for o in items if "typeChecking" not in o.get("status", {})]

    with harness.type_checker(kube, tmp_path):
        eventually(lambda: not unchecked(), "the type checker did not answer")
    found = {
        (o["metadata"]["name"], w["fieldRef"], w["warning"])
        for o in kube.get(POLICIES).body["items"]
        for w in o["status"]["typeChecking"].get("expressionWarnings", [])
    }
    assert not found


def test_the_webhooks_writes_have_a_level_of_their_own(kube: harness.Kube) -> None:
    flows = "/apis/flowcontrol.apiserver.k8s.io/v1"
    uid = kube.get(f"{flows}/flowschemas/gpu-admission-webhook").body["metadata"]["uid"]
    level = kube.get(f"{flows}/prioritylevelconfigurations/gpu-admission-webhook").body["metadata"]["uid"]
    process = kube.account("gpu-admission-webhook")

    def served() -> bool:
        headers = process.get("/apis/gpu.deckhouse.io/v1alpha1/gpudevices").headers
        got = (headers.get("X-Kubernetes-PF-FlowSchema-UID"), headers.get("X-Kubernetes-PF-PriorityLevel-UID"))
        return got == (uid, level)

    eventually(served, "the webhook's requests go through another flow schema")
    other = kube.account("gpupool-controller").get("/apis/gpu.deckhouse.io/v1alpha1/gpudevices").headers
    assert other.get("X-Kubernetes-PF-FlowSchema-UID") not in {uid, None}
