"""Whatever is set, an API server takes what Helm renders: every field is known, and nothing is warned of."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.templates import harness

pytestmark = pytest.mark.cluster
APIS = harness.ROOT / "tests" / "templates" / "apis"
DECKHOUSE = harness.ROOT / "tests" / "templates" / "deckhouse.yaml"
ROOT = "gpuControlPlane"
TAKEN: set[str] = set()
"""Objects, as JSON, that the API server would have taken."""
SETTINGS: dict[str, tuple[str, ...]] = {
    "as it comes": (),
    "highly available": (f"{ROOT}.highAvailability=true",),
    "on the nodes' network": (f"{ROOT}.controllers.hostNetwork=true", f"{ROOT}.controllers.listen=::"),
    "highly available on the nodes' network": (
        f"{ROOT}.highAvailability=true",
        f"{ROOT}.controllers.hostNetwork=true",
    ),
    "the webhook by URL": (f"{ROOT}.webhook.url=https://127.0.0.1:9443", f"{ROOT}.webhook.replicas=1"),
    "who may connect": (
        f"{ROOT}.webhook.askedFrom={{10.0.0.1/32}}",
        f"{ROOT}.controllers.scrapedFrom={{monitoring,ops}}",
    ),
    "an API server without its Service": (
        f"{ROOT}.controllers.apiServer.host=192.0.2.1",
        f"{ROOT}.controllers.apiServer.port=6443",
        f"{ROOT}.nodeAgent.apiServer.host=192.0.2.1",
    ),
    "no programs": (
        f"{ROOT}.controllers.deploy=false",
        f"{ROOT}.hooks.crds=false",
        f"{ROOT}.hooks.cleanup=false",
    ),
    "a registry with credentials": (f"{ROOT}.registry.dockercfg=e30=",),
    "chosen nodes": (f"{ROOT}.nodeSelector.role=system", f"{ROOT}.nfdCoverage.suspend=false"),
    "a driver in a container": (f"{ROOT}.nodeAgent.discover.driverRoot=/opt/driver",),
    "no driver in a container": (f"{ROOT}.nodeAgent.discover.driverRoot=/",),
    "presets": (
        f"{ROOT}.presets.operationPolicy.enabled=true",
        f"{ROOT}.presets.quotas[0].namespace=default",
        f"{ROOT}.presets.quotas[0].pools.training=4",
        f"{ROOT}.policies.statusWriters={{somebody}}",
    ),
}


@pytest.fixture(scope="module")
def served(kube: harness.Kube) -> tuple[str, ...]:
    """The optional APIs, by what Helm calls them; all of them are served."""
    found = []
    for path in sorted(APIS.glob("*.yaml")):
        assert kube.kubectl("apply", "--server-side", "-f", str(path)).returncode == 0
        for crd in yaml.safe_load_all(path.read_text()):
            spec = crd["spec"]
            version = f"{spec['group']}/{spec['versions'][0]['name']}"
            plural = f"/apis/{version}/{spec['names']['plural']}"
            harness.eventually(lambda plural=plural: kube.get(plural).code == 200, f"{plural} is not served")
            found.append(f"{version}/{spec['names']['kind']}")
    return tuple(found)


def taken(kube: harness.Kube, text: str) -> list[dict[str, Any]]:
    """An API server would take it; the objects. What it has taken before is not asked again."""
    objects = {json.dumps(item, sort_keys=True): item for item in harness.objects(text)}
    if new := [item for key, item in objects.items() if key not in TAKEN]:
        command = ["apply", "--server-side", "--field-manager=installer", "--dry-run=server", "--validate=strict"]
        done = kube.kubectl(*command, "--filename=-", stdin=yaml.safe_dump_all(new))
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    TAKEN.update(objects)
    return list(objects.values())


@pytest.mark.parametrize("sets", SETTINGS.values(), ids=SETTINGS.keys())
def test_an_api_server_takes_it_with_every_optional_api(
    kube: harness.Kube, served: tuple[str, ...], sets: tuple[str, ...]
) -> None:
    taken(kube, harness.render(kube.binaries["helm"], *sets, apis=served))


@pytest.mark.parametrize("name", ["as it comes", "presets"])
def test_an_api_server_takes_it_without_any_optional_api(kube: harness.Kube, name: str) -> None:
    objects = taken(kube, harness.render(kube.binaries["helm"], *SETTINGS[name], include_crds=True))
    versions = {o["apiVersion"] for o in objects}
    assert not {v for v in versions if v.startswith(("autoscaling", "monitoring", "deckhouse"))}


def test_an_api_server_takes_what_deckhouse_installs(kube: harness.Kube, served: tuple[str, ...]) -> None:
    # Where Deckhouse's Prometheus is.
    kube.create("/api/v1/namespaces", {"metadata": {"name": "d8-monitoring"}})
    text = harness.render(kube.binaries["helm"], apis=served, values=[DECKHOUSE], release_namespace="d8-system")
    objects = taken(kube, text.replace("namespace: d8-system", "namespace: default"))
    deployments = [o for o in objects if o["kind"] == "Deployment"]
    digests = {o["spec"]["template"]["spec"]["containers"][0]["image"].partition("@")[2] for o in deployments}
    assert len(deployments) == 4
    assert digests == {f"sha256:{'0' * 63}1"}
    assert {o["spec"]["replicas"] for o in deployments} == {2}
    pools = next(o for o in deployments if o["metadata"]["name"] == "gpupool-controller")
    (image,) = [a for a in pools["spec"]["template"]["spec"]["containers"][0]["args"] if "--agent-image" in a]
    assert image.endswith(f"@sha256:{'0' * 63}2")
    accounts = [o for o in objects if o["kind"] == "ServiceAccount" and "helm.sh/hook" not in str(o)]
    assert all(o["imagePullSecrets"] == [{"name": "deckhouse-registry"}] for o in accounts)
    assert "kube-rbac-proxy-ca.crt" in {o["metadata"]["name"] for o in objects}


def test_an_optional_object_is_there_only_where_its_api_is(kube: harness.Kube, served: tuple[str, ...]) -> None:
    sets = SETTINGS["presets"]
    objects = harness.objects(harness.render(kube.binaries["helm"], *sets, apis=served))
    kinds = [o["kind"] for o in objects]
    assert kinds.count("OperationPolicy") == 1
    scaled = {
        (o["spec"]["targetRef"]["kind"], o["spec"]["targetRef"]["name"])
        for o in objects
        if o["kind"] == "VerticalPodAutoscaler"
    }
    there = {(o["kind"], o["metadata"]["name"]) for o in objects if o["kind"] in {"Deployment", "DaemonSet"}}
    assert scaled == there
    (quota,) = [o for o in objects if o["kind"] == "ResourceQuota"]
    assert quota["spec"]["hard"] == {"requests.gpu.deckhouse.io/training": "4"}


def test_the_namespace_is_made_where_the_release_lives_elsewhere(kube: harness.Kube) -> None:
    def namespaces(release: str) -> list[str]:
        objects = harness.objects(harness.render(kube.binaries["helm"], release_namespace=release))
        return [o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"]

    assert namespaces("default") == [harness.NAMESPACE]
    assert namespaces(harness.NAMESPACE) == []


def test_a_misspelt_field_would_be_found(kube: harness.Kube, served: tuple[str, ...]) -> None:
    text = harness.render(kube.binaries["helm"], apis=served)
    for right, wrong in (
        ("revisionHistoryLimit:", "revisionHistory:"),
        ("updateMode: Initial", "updateMode: Sometimes"),
    ):
        assert right in text
        with pytest.raises(AssertionError):
            taken(kube, text.replace(right, wrong))
