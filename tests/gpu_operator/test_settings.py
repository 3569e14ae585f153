"""Components of a ClusterPolicy, as settings of the module."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api.settings import parse_settings
from tests.gpu_operator.given import kinds, of, policy, remarks, usual

MIRROR = "reg.example.com/nvidia"
NO_DRIVER = {"enabled": False}


def settings_of(**spec: Any) -> dict[str, Any]:
    """The settings, which the module takes."""
    configs = kinds(of(policy(driver=NO_DRIVER, **spec)), "ModuleConfig")
    if not configs:
        return {}
    found: dict[str, Any] = configs["gpu-control-plane"]["settings"]
    parse_settings(found)
    return found


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ({}, {}),
        ({"toolkit": {"enabled": False, "repository": MIRROR}}, {"bootstrap": {"toolkit": {"enabled": False}}}),
        ({"dcgm": {"enabled": False}}, {}),
        ({"toolkit": {"repository": MIRROR, "image": "container-toolkit", "version": "v1.20.0"}},
         {"bootstrap": {"toolkit": {"repository": MIRROR}}}),
        ({"toolkit": {"repository": MIRROR, "image": "toolkit", "version": "v1.21.0"}},
         {"bootstrap": {"toolkit": {"repository": MIRROR, "image": "toolkit", "version": "v1.21.0"}}}),
        ({"toolkit": {"repository": MIRROR, "version": "v1.17.0"}}, {"bootstrap": {"toolkit": {"repository": MIRROR}}}),
        ({"toolkit": {"repository": "nvcr.io/nvidia/k8s", "version": "v1.17.0"}}, {}),
        ({"dcgmExporter": {"env": [{"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"}], "args": ["-f", "x"]}},
         {"bootstrap": {"dcgmExporter": {"env": [{"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"}],
                                         "args": ["-f", "x"]}}}),
        ({"gfd": {"resources": {"limits": {"memory": "256Mi", "nvidia.com/gpu": 1}}}},
         {"bootstrap": {"gfd": {"resources": {"limits": {"memory": "256Mi"}}}}}),
        ({"cdi": {"enabled": False}}, {"deviceStrategy": "DeviceSpecs"}),
        ({"hostPaths": {"driverInstallDir": "/opt/driver"}},
         {"nodeAgent": {"discover": {"driverRoot": "/opt/driver"}}}),
        ({"hostPaths": {"driverInstallDir": "/run/nvidia/driver"}}, {}),
    ],
)  # fmt: skip
def test_a_part_is_a_setting(spec: dict[str, Any], settings: dict[str, Any]) -> None:
    assert settings_of(**spec) == settings


@pytest.mark.parametrize(
    ("spec", "kind", "path"),
    [
        ({"toolkit": {"repository": MIRROR, "version": "v1.17.0"}}, "ToDo", "toolkit.version"),
        ({"toolkit": {"version": "v1.17.0"}}, "Different", "toolkit.version"),
        ({"toolkit": {"env": [{"name": "CONTAINERD_CONFIG", "value": "/x"}]}}, "NoCounterpart", "toolkit.env"),
        ({"toolkit": {"env": [{"name": "ROOT", "value": "/x"}]}}, "NoCounterpart", "toolkit.env"),
        ({"gfd": {"env": [{"name": "A", "valueFrom": {}}]}}, "NoCounterpart", "gfd.env"),
        ({"gfd": {"resources": {"limits": {"x": 1}}}}, "NoCounterpart", "gfd.resources.limits.x"),
        ({"gfd": {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}}, "Refused", "gfd"),
        ({"dcgmExporter": {"config": {"name": "metrics"}}}, "NoCounterpart", "dcgmExporter.config.name"),
        ({"sandboxWorkloads": {"enabled": True}}, "NoCounterpart", "sandboxWorkloads.enabled"),
        ({"kataManager": {"enabled": True}}, "NoCounterpart", "kataManager.enabled"),
        ({"mig": {"strategy": "mixed"}}, "NoCounterpart", "mig.strategy"),
        ({"devicePlugin": {"repository": MIRROR}}, "NoCounterpart", "devicePlugin.repository"),
    ],
)
def test_what_is_otherwise_here_has_a_remark(spec: dict[str, Any], kind: str, path: str) -> None:
    assert path in remarks(of(policy(driver=NO_DRIVER, **spec)), kind)


def test_an_installation_as_the_chart_makes_it_needs_one_setting() -> None:
    made = of(policy(**usual()))
    assert kinds(made, "ModuleConfig")["gpu-control-plane"] == {
        "enabled": True, "version": 2, "settings": {"driver": {"enabled": True}},
    }  # fmt: skip
    assert [*kinds(made, "GPUDriver")] == ["cluster-policy"]
    assert kinds(made, "GPUPool") == {
        "gpu": {"allocation": {"mode": "Exclusive"}, "deviceAssignment": {"requireAnnotation": True}}
    }
    assert made.resources == [("nvidia.com/gpu", "gpu.deckhouse.io/gpu")]
