"""Fields of a driver, each as the GPUDriver has it that an import makes."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api.gpudriver import GPUDriver
from controllers.api.record import adapter
from tests.gpu_operator.given import config_map, kinds, nvidia_driver, of, policy, remarks

VERSION = "580.105.08"


def spec_of(*objects: dict[str, Any]) -> dict[str, Any]:
    """The spec of the only GPUDriver."""
    (spec,) = kinds(of(*objects), "GPUDriver").values()
    adapter(GPUDriver).validate_python({"metadata": {"name": "x"}, "spec": spec})
    return spec


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({}, {"mode": "Compiled", "version": VERSION, "flavour": "Auto", "type": "Datacenter", "priority": 0}),
        ({"usePrecompiled": True, "version": "580"}, {"mode": "Precompiled", "version": "580"}),
        ({"kernelModuleType": "open"}, {"flavour": "Open"}),
        ({"kernelModuleType": "proprietary"}, {"flavour": "Proprietary"}),
        ({"default": True}, {"priority": -1000}),
        ({"repository": "reg.example.com/x", "image": "drv"},
         {"image": {"repository": "reg.example.com/x", "name": "drv"}}),
        ({"image": "reg.example.com/x/drv"}, {"image": {"repository": "reg.example.com/x", "name": "drv"}}),
        ({"image": "nvcr.io/nvidia/driver"}, {"image": {"repository": "nvcr.io/nvidia", "name": "driver"}}),
        ({"imagePullSecrets": ["a"], "imagePullPolicy": "Always"},
         {"image": {"repository": "nvcr.io/nvidia", "name": "driver", "pullPolicy": "Always", "pullSecrets": ["a"]}}),
        ({"nodeSelector": {"a": "b"}}, {"target": {"nodeSelector": {"matchLabels": {"a": "b"}}}}),
        ({"rdma": {"enabled": True}}, {"rdma": {"enabled": True}}),
        ({"rdma": {"enabled": True, "useHostMofed": True}}, {"rdma": {"enabled": True, "hostMofed": True}}),
        ({"gds": {"enabled": True, "repository": "r.example.com", "image": "fs", "version": "2.1"}},
         {"gds": {"enabled": True, "image": "r.example.com/fs", "version": "2.1"}}),
        ({"gdrcopy": {"enabled": True, "repository": "r.example.com", "image": "gdr", "version": "v2.6"}},
         {"gdrcopy": {"enabled": True, "image": "r.example.com/gdr", "version": "v2.6"}}),
        ({"repoConfig": {"name": "r"}, "certConfig": {"name": "c"}, "secretEnv": "s"},
         {"build": {"repositories": {"configMap": "r"}, "certificates": {"configMap": "c"}, "secretEnv": "s"}}),
        ({"env": [{"name": "https_proxy", "value": "http://p:1"}, {"name": "NO_PROXY", "value": "10.0.0.0/8"}]},
         {"build": {"proxy": {"https": "http://p:1", "no": "10.0.0.0/8"}}}),
        ({"resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": 1}}},
         {"resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1"}}}),
        ({"driverType": "vgpu", "repository": "r.example.com", "licensingConfig": {"secretName": "lic"}},
         {"type": "VGPUGuest", "licensing": {"secretName": "lic"}}),
        ({"upgradePolicy": {"maxParallelUpgrades": 4, "maxUnavailable": "25%"}},
         {"rollout": {"paused": True, "maxUnavailable": {"nodes": "4"}}}),
        ({"upgradePolicy": {"maxParallelUpgrades": 4, "maxUnavailable": 2}},
         {"rollout": {"paused": True, "maxUnavailable": {"nodes": "2"}}}),
        ({"upgradePolicy": {"maxParallelUpgrades": 0, "maxUnavailable": "25%"}},
         {"rollout": {"paused": True, "maxUnavailable": {"nodes": "25%"}}}),
        ({"upgradePolicy": {"maxParallelUpgrades": 0, "maxUnavailable": "0%"}}, {"rollout": {"paused": True}}),
        ({"upgradePolicy": {"drain": {"enable": True, "force": True, "deleteEmptyDir": True, "timeoutSeconds": 60}}},
         {"rollout": {"paused": True, "maxUnavailable": {"nodes": "1"}, "strategy": "Drain",
                      "drain": {"timeout": "60s", "localData": "Evict", "bare": "Evict"}}}),
        ({"upgradePolicy": {"podDeletion": {"timeoutSeconds": 90}, "waitForCompletion": {"timeoutSeconds": 30}}},
         {"rollout": {"paused": True, "maxUnavailable": {"nodes": "1"},
                      "drain": {"timeout": "90s", "waitFor": "30s"}}}),
        ({}, {"rollout": {"paused": True}}),
    ],
)  # fmt: skip
def test_a_field_of_an_nvidiadriver(fields: dict[str, Any], part: dict[str, Any]) -> None:
    made = spec_of(nvidia_driver(**fields))
    assert {key: made.get(key) for key in part} == part


def test_an_affinity_that_says_the_same_as_a_selector_is_one() -> None:
    expressions = [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    made = spec_of(nvidia_driver(nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": required}))
    assert made["target"] == {"nodeSelector": {"matchExpressions": expressions}}


@pytest.mark.parametrize(
    "terms",
    [
        [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}],
        [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchExpressions": []}],
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}],
    ],
)
def test_any_other_is_refused_in_words(terms: Any) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    made = of(nvidia_driver(nodeAffinity={required: {"nodeSelectorTerms": terms}}))
    assert "target" not in kinds(made, "GPUDriver")["main"]
    assert f"nodeAffinity.{required}" in remarks(made, "Refused")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"driverType": "vgpu-host-manager"}, "driverType"),
        ({"version": "580.105.08-ubuntu22.04"}, "version"),
        ({"version": f"sha256:{'0' * 64}"}, "version"),
        ({"version": "580"}, "version"),
        ({"image": "nvcr.io/nvidia/driver:580"}, "image"),
    ],
)
def test_what_no_gpudriver_can_be_is_refused_and_makes_none(fields: dict[str, Any], path: str) -> None:
    made = of(nvidia_driver(**fields))
    assert kinds(made, "GPUDriver") == {}
    assert path in remarks(made, "Refused")


@pytest.mark.parametrize(
    ("fields", "kind", "path"),
    [
        ({"virtualTopologyConfig": {"name": "t"}}, "Refused", "virtualTopologyConfig.name"),
        ({"args": ["--x"]}, "NoCounterpart", "args"),
        ({"env": [{"name": "X", "value": "y"}]}, "NoCounterpart", "env"),
        ({"licensingConfig": {"name": "cm"}}, "Refused", "licensingConfig.name"),
        ({"secretEnv": "s"}, "ToDo", "secretEnv"),
        ({"upgradePolicy": {"autoUpgrade": False}}, "Different", "upgradePolicy.autoUpgrade"),
        ({"upgradePolicy": {"drain": {"podSelector": "a=b"}}}, "NoCounterpart", "upgradePolicy.drain.podSelector"),
        ({"kernelModuleConfig": {"name": "gone"}}, "ToDo", "kernelModuleConfig.name"),
        ({"gds": {"enabled": True, "image": "fs"}}, "Refused", "gds"),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "NoCounterpart", "resources.limits.nvidia.com/gpu"),
        ({"labels": {"a": "b"}}, "NoCounterpart", "labels"),
    ],
)
def test_what_is_otherwise_here_has_a_remark(fields: dict[str, Any], kind: str, path: str) -> None:
    assert path in remarks(of(nvidia_driver(**fields)), kind)


def test_parameters_of_kernel_modules_come_out_of_their_configmap() -> None:
    text = "# a comment\nNVreg_RestrictProfilingToAdminUsers=0 NVreg_EnableGpuFirmware=1\nNVreg_X=2 # more\n"
    named = config_map("params", **{"nvidia.conf": text, "nvidia-uvm.conf": "uvm_x=1", "nouveau.conf": "a=b"})
    made = of(nvidia_driver(kernelModuleConfig={"name": "params"}), named)
    assert kinds(made, "GPUDriver")["main"]["kernelModules"] == {
        "nvidia": {"NVreg_RestrictProfilingToAdminUsers": "0", "NVreg_EnableGpuFirmware": "1", "NVreg_X": "2"},
        "nvidia-uvm": {"uvm_x": "1"},
    }
    assert "nouveau.conf" in str(made.remarks)


def test_a_clusterpolicys_driver_is_for_nodes_that_no_other_has() -> None:
    driver = {"version": VERSION, "repoConfig": {"configMapName": "r"}, "licensingConfig": {"secretName": "lic"}}
    spec = spec_of(policy(driver=driver, gdrcopy={"enabled": True, "repository": "x", "image": "y", "version": "1"}))
    assert (spec["priority"], spec["type"], spec["licensing"]) == (-1000, "VGPUGuest", {"secretName": "lic"})
    assert spec["build"]["repositories"] == {"configMap": "r"}
    assert spec["gdrcopy"]["image"] == "x/y"


@pytest.mark.parametrize("driver", [{"enabled": False}, {"useNvidiaDriverCRD": True, "version": VERSION}])
def test_a_clusterpolicy_that_brings_no_driver_makes_none(driver: dict[str, Any]) -> None:
    made = of(policy(driver={**driver, "hostNetwork": True, "args": ["x"]}))
    assert kinds(made, "GPUDriver") == {}
    assert [path for path in remarks(made) if path.startswith("driver.")] == []
    assert of(policy(driver=driver), nvidia_driver("a"), nvidia_driver("b", default=True)).objects[1:3] == [
        *of(nvidia_driver("a"), nvidia_driver("b", default=True)).objects[1:]
    ]
