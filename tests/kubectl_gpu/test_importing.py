"""`kubectl gpu import gpu-operator`: out of files without a cluster, and out of a real one into the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import resources
from controllers.api.resources import Resource
from kubectl_gpu.importing import CLUSTER_POLICY, NVIDIA_DRIVER
from kubectl_gpu.main import main
from tests.gpu_operator.given import config_map, node, nvidia_driver, policy, usual
from tests.kubectl_gpu.conftest import Here, Kubectl
from tests.slice.people import People

NAMESPACE = "gpu-operator"
SHARES = yaml.safe_dump({"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}})
PARTED = yaml.safe_dump(
    {"mig-configs": {"sevenths": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]}}
)


def given() -> list[dict[str, Any]]:
    """An operator with shares, instances, a driver of its own objects, and a field that nobody knows."""
    spec = usual() | {"fancy": {"new": True}, "mig": {"strategy": "mixed"}}
    spec["driver"] |= {"useNvidiaDriverCRD": True}
    spec["devicePlugin"] |= {"config": {"name": "shares", "default": "quarters"}}
    spec["migManager"]["config"] = {"name": "parted", "default": "all-disabled"}
    driver = nvidia_driver("fallback", default=True, upgradePolicy={"maxParallelUpgrades": 2})
    return [
        policy(**spec),
        driver,
        config_map("shares", quarters=SHARES),
        config_map("parted", **{"config.yaml": PARTED}),
    ]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with all of it, where no cluster is."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    path = tmp_path / "operator.yaml"
    path.write_text(yaml.safe_dump_all([*given(), node("n1", {"nvidia.com/gpu-driver-upgrade-state": "drain-required",
                                                              "nvidia.com/mig.config": "sevenths"})]))  # fmt: skip
    return str(path)


def names_of(listed: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["kind"], one["metadata"]["name"]) for one in listed["items"]]


WANTED = [("ModuleConfig", "gpu-control-plane"), ("GPUDriver", "fallback"), ("GPUPool", "gpu"), ("GPUPool", "sevenths")]


def test_files_need_no_cluster_and_objects_stand_alone_on_the_output(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "gpu-operator", "-f", file]) == 0
    printed = capsys.readouterr()
    assert names_of(yaml.safe_load(printed.out)) == WANTED
    assert "unknown: ClusterPolicy cluster-policy: fancy.new: GPU Operator 26.7 has no such field" in printed.err
    assert "no counterpart: ClusterPolicy cluster-policy: mig.strategy (mixed)" in printed.err
    assert "resource: pods that ask for nvidia.com/mig-1g.10gb ask for gpu.deckhouse.io/sevenths." in printed.err
    assert "first: GPU Operator upgrades the driver (drain-required) of n1" in printed.err


def test_a_program_gets_all_of_it_in_one(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "gpu-operator", "-f", file, "-o", "report"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert (names_of({"items": report["objects"]}), printed.err) == (WANTED, "")
    assert {"kind": "Unknown", "about": "ClusterPolicy cluster-policy: fancy.new", "value": ""}.items() <= next(
        one for one in report["remarks"] if one["kind"] == "Unknown"
    ).items()
    assert {"there": "nvidia.com/gpu", "here": "gpu.deckhouse.io/gpu"} in report["resources"]
    assert len(report["preconditions"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is no YAML"), ("kind: List\nitems: []\n", "there is nothing to import"), (None, "cannot be read")],
)
def test_other_files_are_mistakes_in_words(
    tmp_path: Path, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    if text is not None:
        path.write_text(text)
    assert main(["import", "gpu-operator", "-f", str(path)]) == 1
    assert message in capsys.readouterr().err


def definition(resource: Resource) -> dict[str, Any]:
    """A definition by which the API server keeps such objects as they are."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    named = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {"group": resource.group, "scope": "Cluster", "names": named, "versions": [version]},
    }


@pytest.mark.cluster
@pytest.mark.slow("an operator's definitions come and go, and a pool of instances with them")
async def test_an_operator_in_the_cluster_is_imported_twice_and_changes_once(
    people: People, kubectl: Kubectl, here: Here
) -> None:
    definitions = [definition(CLUSTER_POLICY), definition(NVIDIA_DRIVER)]
    await people.namespace(NAMESPACE)
    apply(kubectl, *definitions)
    for one in definitions:
        kubectl.run("wait", "--for=condition=Established", f"crd/{one['metadata']['name']}", "--timeout=60s")
    placed = [one | {"metadata": one["metadata"] | {"namespace": NAMESPACE}} if one["kind"] == "ConfigMap" else one
              for one in given()]  # fmt: skip
    apply(kubectl, *placed)
    kubectl.run("label", "node", "gpu-1", "nvidia.com/mig.config=sevenths")
    try:
        printed = json.loads((await here("import", "gpu-operator", "-o", "json")).out)
        assert names_of(printed) == WANTED
        assert kubectl.run("get", "gpupool", "sevenths").returncode != 0

        first = (await here("import", "gpu-operator", "--apply")).out
        assert first.splitlines()[1:] == [
            "GPUDriver fallback: created", "GPUPool gpu: created", "GPUPool sevenths: created",
        ]  # fmt: skip
        before = versions(kubectl)
        again = (await here("import", "gpu-operator", "--apply")).out
        assert [line.rpartition(": ")[2] for line in again.splitlines()] == ["as it is"] * 4
        assert versions(kubectl) == before

        driver = json.loads(kubectl.run("get", "gpudriver", "fallback", "-o", "json").stdout)["spec"]
        assert (driver["priority"], driver["rollout"]["paused"]) == (-1000, True)
        resumed = '{"spec": {"rollout": {"paused": false}}}'
        assert kubectl.run("patch", "gpudriver", "fallback", "--type=merge", "-p", resumed).returncode == 0
        left = await here("import", "gpu-operator", "--apply")
        assert left.status == 1
        assert "GPUDriver fallback: left (spec.rollout.paused): it is there and differs; --overwrite" in left.out
        replaced = await here("import", "gpu-operator", "--apply", "--overwrite")
        assert "GPUDriver fallback: replaced (spec.rollout.paused)" in replaced.out
    finally:
        kubectl.run("label", "node", "gpu-1", "nvidia.com/mig.config-")
        kubectl.run("delete", "crd", *(one["metadata"]["name"] for one in definitions))
        kubectl.run("delete", "gpudriver", "fallback", "--wait=false")
        for pool in ("gpu", "sevenths"):
            if people.view.pools.get(pool) is not None:
                await people.retire(pool)
        await people.no_settings()
        await people.remove(resources.NAMESPACE, NAMESPACE)


def apply(kubectl: Kubectl, *objects: dict[str, Any]) -> None:
    """`kubectl apply` of objects."""
    done = kubectl.run("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr


def versions(kubectl: Kubectl) -> list[str]:
    """Generations of what an import writes: each change of a spec is one more."""
    columns = "custom-columns=N:.metadata.name,G:.metadata.generation,S:.spec"
    found = [kubectl.run("get", kind, "-o", columns).stdout for kind in ("gpudrivers", "gpupools", "moduleconfigs")]
    assert all(found)
    return found
