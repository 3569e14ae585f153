"""What the API server makes of a GPUDriver: bad input is refused in a sentence that says what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controllers.api.gpudriver import GPUDriver
from controllers.api.record import adapter
from tests.kit.waiting import eventually
from tests.templates import harness
from tests.templates.harness import GROUP, ROOT

if TYPE_CHECKING:
    from tests.kit.worker_plane import WorkerPlane

pytestmark = pytest.mark.cluster
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRIVERS = f"{GROUP}/gpudrivers"
DIGEST = "@sha256:" + "a" * 64


def override(number: int = 0, **fields: str) -> dict[str, str]:
    return {"system": "ubuntu24.04", "kernel": f"6.8.0-{number}-generic", "image": "r.example/driver:1"} | fields


def rollout(**fields: Any) -> dict[str, Any]:
    return {"rollout": fields}


WHOLE: dict[str, Any] = {
    "priority": 10,
    "target": {
        "nodeSelector": {"matchLabels": {"zone": "a"}},
        "devices": {"families": ["hopper"], "pciIDs": ["10de:2330"], "products": ["NVIDIA H100 80GB HBM3"]},
    },
    "mode": "Compiled",
    "version": "580.178.04",
    "flavour": "Open",
    "image": {
        "repository": "registry.example.com:5000/nvidia",
        "overrides": [override(), override(1, image=f"r.example/driver{DIGEST}"), override(kernel="6.8.0-*-generic")],
        "pullSecrets": ["registry"],
    },
    "build": {
        "repositories": {"configMap": "apt"},
        "certificates": {"configMap": "ca"},
        "useClusterProxy": False,
        "proxy": {"http": "http://p:3128", "https": "http://p:3128", "no": "10.0.0.0/8"},
        "secretEnv": "tokens",
    },
    "kernelModules": {"nvidia": {"NVreg_RestrictProfilingToAdminUsers": "0"}, "nvidia-uvm": {}},
    "rdma": {"enabled": True, "hostMofed": True},
    "gds": {"enabled": True, "image": "nvcr.io/nvidia/cloud-native/nvidia-fs", "version": "2.26.6"},
    "gdrcopy": {"enabled": True, "image": f"nvcr.io/nvidia/cloud-native/gdrdrv{DIGEST}"},
    "fabricManager": {"config": {"LOG_LEVEL": "4"}},
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
    "rolloutNonce": "again",
    "rollout": {
        "strategy": "Drain",
        "waves": [5, 50, 100],
        "windows": [{"days": ["Tue"], "from": "06:00", "to": "08:00"}],
        "maxUnavailable": {"nodes": "3", "perPool": "25%"},
    },
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no version": ({"version": "latest"}, "spec.version in body should match '^[0-9]{3,4}"),
    "a version with v": ({"version": "v580.178.04"}, "spec.version in body should match"),
    "a branch that compiles": (
        {"version": "580", "mode": "Compiled"},
        "spec.version is a branch, and mode Compiled needs a whole version such as 580.178.04: write one, or set",
    ),
    "a mode that is none": ({"mode": "Precompile"}, 'supported values: "Auto", "Host", "Precompiled", "Compiled"'),
    "65 overrides": (
        {"image": {"overrides": [override(number) for number in range(65)]}},
        "spec.image.overrides: Too many: 65: must have at most 64 items",
    ),
    "an override twice": (
        {"image": {"overrides": [override(), override(image="r.example/other:1")]}},
        "two overrides are for the same system and kernel: the second would never be taken",
    ),
    "an override without a tag": (
        {"image": {"overrides": [override(image="r.example/driver")]}},
        "spec.image.overrides[0].image in body should match",
    ),
    "a repository with a scheme": (
        {"image": {"repository": "https://nvcr.io/nvidia"}},
        "spec.image.repository in body should match",
    ),
    "GDS with proprietary modules": (
        {"flavour": "Proprietary", "gds": {"enabled": True, "image": "r.example/nvidia-fs", "version": "2"}},
        "spec.gds needs the open modules: set spec.flavour to Open or Auto",
    ),
    "GDS without an image": ({"gds": {"enabled": True}}, "where it is enabled it needs an image and a version"),
    "GDRCopy without a version": (
        {"gdrcopy": {"enabled": True, "image": "r.example/gdrdrv"}},
        "where it is enabled it needs an image and a version",
    ),
    "a module that takes nothing": ({"kernelModules": {"nvidia-drm": {"modeset": "1"}}}, "no other module takes any"),
    "a parameter in two words": (
        {"kernelModules": {"nvidia": {"NVreg_X": "1 NVreg_Y=2"}}},
        "in body should match",
    ),
    "a parameter's name in two words": (
        {"kernelModules": {"nvidia": {"NVreg_X=1 NVreg_Y": "2"}}},
        "a parameter's name has letters, digits and underscores",
    ),
    "fabric manager's setting": ({"fabricManager": {"config": {"log-level": "4"}}}, "has capitals, digits and"),
    "a licence without vGPU": ({"licensing": {"secretName": "grid"}}, "spec.licensing is for a vGPU guest: set spec."),
    "vGPU from NVIDIA's registry": ({"type": "VGPUGuest"}, "a vGPU guest's driver is not in nvcr.io/nvidia: set"),
    "waves that fall": (rollout(waves=[30, 10, 100]), "waves are shares that grow, and the last is 100"),
    "waves that stand": (rollout(waves=[10, 10, 100]), "waves are shares that grow, and the last is 100"),
    "waves that end early": (rollout(waves=[10, 30]), "waves are shares that grow, and the last is 100"),
    "no waves": (rollout(waves=[]), "waves are shares that grow, and the last is 100"),
    "a window across midnight": (
        rollout(windows=[{"from": "22:00", "to": "06:00"}]),
        "a window ends later than it begins, on the same day in UTC: make one across midnight of two",
    ),
    "an empty window": (rollout(windows=[{"from": "06:00", "to": "06:00"}]), "a window ends later than it begins"),
    "nobody unavailable": (rollout(maxUnavailable={"nodes": "0"}), "maxUnavailable.nodes in body should match"),
    "a card without a vendor": ({"target": {"devices": {"pciIDs": ["2330"]}}}, "should match '^[0-9a-f]{4}:"),
    "resources of cards": ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "quantities are of cpu, memory"),
    "a proxy without a scheme": (
        {"build": {"proxy": {"http": "p:3128"}}},
        "spec.build.proxy.http in body should match",
    ),
    "a Secret's name": ({"build": {"secretEnv": "My Secret"}}, "spec.build.secretEnv in body should match"),
    "a priority out of range": ({"priority": 1001}, "should be less than or equal to 1000"),
}


@pytest.fixture(scope="module")
def kube(worker_plane: WorkerPlane) -> harness.Kube:
    """An API server with the definition of GPUDriver."""
    made = worker_plane.take("gpudriver", harness.scratch)
    answer = made.create(CRDS, yaml.safe_load((ROOT / "crds" / "gpudriver.yaml").read_text("utf-8")))
    assert answer.code == 201, answer.message
    eventually(lambda: made.get(DRIVERS).code == 200, "gpudrivers are not served")
    return made


def create(kube: harness.Kube, name: str, spec: dict[str, Any]) -> harness.Answer:
    body = {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": "GPUDriver", "metadata": {"name": name}, "spec": spec}
    return kube.create(f"{DRIVERS}?fieldValidation=Strict", body)


def test_every_field_is_taken_and_read(kube: harness.Kube) -> None:
    answer = create(kube, "whole", WHOLE)
    assert answer.code == 201, answer.message
    read = adapter(GPUDriver).validate_python(answer.body)

    assert read.spec.image.overrides[1].image == f"r.example/driver{DIGEST}"
    assert read.spec.build.proxy is not None
    assert read.spec.build.proxy.no == "10.0.0.0/8"
    assert read.spec.kernel_modules["nvidia"] == {"NVreg_RestrictProfilingToAdminUsers": "0"}
    assert read.spec.rollout.waves == (5, 50, 100)
    assert read.spec.rollout.windows[0].from_ == "06:00"


def test_a_version_is_enough(kube: harness.Kube) -> None:
    answer = create(kube, "least", {"version": "580"})
    assert answer.code == 201, answer.message
    spec = adapter(GPUDriver).validate_python(answer.body).spec

    assert (spec.mode, spec.flavour, spec.priority, spec.image.repository) == ("Auto", "Auto", 0, "nvcr.io/nvidia")
    assert (spec.rollout.strategy, spec.rollout.max_unavailable.nodes) == ("WhenIdle", "10%")


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_refused_in_a_sentence(kube: harness.Kube, what: str) -> None:
    spec, sentence = REFUSED[what]
    answer = create(kube, "bad", {"version": "580.178.04"} | spec)

    assert answer.code == 422, answer.body
    assert sentence in answer.message


def test_a_driver_without_a_version_is_none(kube: harness.Kube) -> None:
    answer = create(kube, "bad", {})

    assert answer.code == 422, answer.body
    assert "spec.version: Required value" in answer.message


def test_each_field_can_be_changed(kube: harness.Kube) -> None:
    """As a move between two drivers of a node is a change of its label, nothing has to stay as it was."""
    assert create(kube, "moving", {"version": "580.178.04", "mode": "Compiled"}).code == 201
    changed = {"spec": {"mode": "Precompiled", "version": "595", "flavour": "Open", "target": {"nodeSelector": {}}}}

    assert kube.merge(f"{DRIVERS}/moving", changed).code == 200


def test_people_see_its_columns(kube: harness.Kube) -> None:
    if kube.get(f"{DRIVERS}/shown").code != 200:
        assert create(kube, "shown", {"version": "580.178.04"}).code == 201
    counts = {"nodes": 4, "current": 2, "busy": 1, "failed": 1}
    status = {"status": {"state": "Installing", "counts": counts, "target": "0123456789"}}
    assert kube.merge(f"{DRIVERS}/shown/status", status).code == 200

    wide = kube.kubectl("get", "gpudrv", "shown", "-o", "wide").stdout.splitlines()
    assert wide[0].split()[:8] == ["NAME", "VERSION", "MODE", "NODES", "CURRENT", "BUSY", "FAILED", "STATE"]
    assert wide[1].split()[:8] == ["shown", "580.178.04", "Auto", "4", "2", "1", "1", "Installing"]
    assert "0123456789" in wide[1]
