"""`kubectl gpu import gpu-operator`: out of files without a cluster, and out of a real one into the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import resources
from controllers.api.foreign import CLUSTERPOLICY, NVIDIADRIVER
from controllers.api.resources import Resource
from controllers.gpu_operator.configurations import MIG_LABEL, PLUGIN_LABEL
from kubectl_gpu.main import main
from tests.gpu_operator.given import config_map, node, nvidia_driver, policy, usual
from tests.kubectl_gpu.conftest import Here, Kubectl
from tests.slice.people import People

NAMESPACE = "gpu-operator"


def divided(profiles: dict[str, int]) -> dict[str, Any]:
    """An entry of mig-parted's that divides all cards so."""
    return {"devices": "all", "mig-enabled": True, "mig-devices": profiles}


SHARES = yaml.safe_dump({"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}})
CLIENTS = yaml.safe_dump({"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 6}]}}})
PARTED = yaml.safe_dump(
    {
        "version": "v1",
        "mig-configs": {"sevenths": [divided({"1g.10gb": 7})], "uneven": [divided({"1g.10gb": 2, "3g.40gb": 1})]},
    }
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
        config_map("shares", quarters=SHARES, clients=CLIENTS),
        config_map("parted", **{"config.yaml": PARTED}),
    ]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with all of it, where no cluster is."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    path = tmp_path / "operator.yaml"
    upgraded = {"nvidia.com/gpu-driver-upgrade-state": "drain-required", MIG_LABEL: "sevenths"}
    nodes = [node("n1", upgraded), node("n2", {MIG_LABEL: "uneven"}), node("n3", {PLUGIN_LABEL: "clients"})]
    path.write_text(yaml.safe_dump_all([*given(), *nodes]))
    return str(path)


def names_of(listed: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["kind"], one["metadata"]["name"]) for one in listed["items"]]


POOLS = ("gpu", "clients", "sevenths", "uneven")
WANTED = [("ModuleConfig", "gpu-control-plane"), ("GPUDriver", "fallback"), *(("GPUPool", name) for name in POOLS)]


def test_files_need_no_cluster_and_objects_stand_alone_on_the_output(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "gpu-operator", "-f", file]) == 0
    printed = capsys.readouterr()
    assert names_of(yaml.safe_load(printed.out)) == WANTED
    assert "unknown: ClusterPolicy cluster-policy: fancy.new: GPU Operator 26.7 has no such field" in printed.err
    assert "no counterpart: ClusterPolicy cluster-policy: mig.strategy (mixed)" in printed.err
    assert "resource: pods that ask for nvidia.com/mig-1g.10gb ask for gpu.deckhouse.io/sevenths" in printed.err
    assert "pods that ask for nvidia.com/mig-3g.40gb ask for gpu.deckhouse.io/uneven.3g.40gb" in printed.err
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
    definitions = [definition(CLUSTERPOLICY), definition(NVIDIADRIVER)]
    await people.namespace(NAMESPACE)
    apply(kubectl, *definitions)
    for one in definitions:
        kubectl.run("wait", "--for=condition=Established", f"crd/{one['metadata']['name']}", "--timeout=60s")
    placed = [one | {"metadata": one["metadata"] | {"namespace": NAMESPACE}} if one["kind"] == "ConfigMap" else one
              for one in given()]  # fmt: skip
    apply(kubectl, *placed)
    labelled = {"gpu-1": (f"{MIG_LABEL}=sevenths", f"{PLUGIN_LABEL}=clients"), "gpu-2": (f"{MIG_LABEL}=uneven",)}
    for name, labels in labelled.items():
        assert kubectl.run("label", "node", name, *labels).returncode == 0
    try:
        printed = json.loads((await here("import", "gpu-operator", "-o", "json")).out)
        assert names_of(printed) == WANTED
        assert kubectl.run("get", "gpupool", "sevenths").returncode != 0

        first = (await here("import", "gpu-operator", "--apply")).out
        assert first.splitlines()[1:] == [
            "GPUDriver fallback: created", *(f"GPUPool {name}: created" for name in POOLS),
        ]  # fmt: skip
        kept = {name: json.loads(kubectl.run("get", "gpupool", name, "-o", "json").stdout)["spec"] for name in POOLS}
        assert kept["clients"]["allocation"]["mps"] == {"clients": 6, "memory": "Equal", "threads": "Equal"}
        uneven = [{"profile": "1g.10gb", "count": 2}, {"profile": "3g.40gb", "count": 1}]
        assert kept["uneven"]["allocation"]["migLayout"] == uneven
        before = versions(kubectl)
        again = (await here("import", "gpu-operator", "--apply")).out
        assert [line.rpartition(": ")[2] for line in again.splitlines()] == ["as it is"] * len(WANTED)
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
        kubectl.run("label", "node", *labelled, f"{MIG_LABEL}-", f"{PLUGIN_LABEL}-")
        kubectl.run("delete", "crd", *(one["metadata"]["name"] for one in definitions))
        kubectl.run("delete", "gpudriver", "fallback", "--wait=false")
        for pool in POOLS:
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
