"""The toolkit's pod: NVIDIA's installer installs, the module's own role tells the runtime, and alone has a token."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap import operands
from controllers.bootstrap.parts import TOOLKIT_ROOT
from controllers.domain.agents import api_server
from nodeagent.toolkit import leaving, plan

IDENTITY = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(**more: Any) -> dict[str, Any]:
    made = operands.daemonsets(Settings().bootstrap, **more)[leaving.OBJECT]["spec"]["template"]["spec"]
    return dict(made)


def container(name: str, **more: Any) -> dict[str, Any]:
    (found,) = [one for one in pod(**more)["containers"] if one["name"] == name]
    return dict(found)


def test_the_installer_leaves_the_runtimes_configuration_alone() -> None:
    """It copied the CRI section with its passwords, and restarted the runtime at each end and start of its pod."""
    told = {one["name"]: one["value"] for one in container("toolkit")["env"]}

    assert told["NO_RUNTIME_CONFIG"] == "true"
    assert [name for name in told if name.startswith(("RUNTIME", "CONTAINERD"))] == []
    mounted = [one["mountPath"] for one in container("toolkit")["volumeMounts"] if not one.get("readOnly")]
    assert sorted(mounted) == ["/run/nvidia/toolkit", "/usr/local/nvidia", "/var/run/cdi"]


def test_no_setting_makes_it_configure_again() -> None:
    told = {"env": [{"name": "NO_RUNTIME_CONFIG", "value": "false"}]}

    with pytest.raises(ValueError, match="NO_RUNTIME_CONFIG is the module's own"):
        parse_settings({"bootstrap": {"toolkit": told}})


def test_our_role_runs_beside_it_with_the_hosts_files_and_processes() -> None:
    role = container("runtime", agent_image="r/agent:v1", agent_env=api_server("192.0.2.1", "6443"))

    assert role["image"] == "r/agent:v1"
    assert role["command"] == ["python3", "-m", "nodeagent.toolkit"]
    assert {"name": "HOST_ROOT", "value": "/host"} in role["env"]
    assert role["env"][-2]["name"] == "KUBERNETES_SERVICE_HOST"
    assert pod()["hostPID"] is True
    (host,) = [one for one in role["volumeMounts"] if one["mountPath"] == "/host"]
    assert host == {"name": "host", "mountPath": "/host", "mountPropagation": "HostToContainer"}


def test_the_token_is_our_roles_alone() -> None:
    made = pod(agent_env=api_server("192.0.2.1", "6443"))

    assert made["serviceAccountName"] == names.MANAGER_TOOLKIT
    assert made["automountServiceAccountToken"] is False
    holders = [
        one["name"] for one in made["containers"] if IDENTITY in {mount["mountPath"] for mount in one["volumeMounts"]}
    ]
    told = [one["name"] for one in made["containers"] if "KUBERNETES_SERVICE_HOST" in str(one["env"])]
    assert holders == told == ["runtime"]


def test_bootstrap_and_the_agent_mean_the_same_things() -> None:
    assert f"{TOOLKIT_ROOT}/toolkit" == plan.FOLDER
    assert tuple(plan.HANDLERS) == names.RUNTIME_CLASSES
    made = operands.daemonsets(Settings().bootstrap)
    assert made[leaving.OBJECT]["spec"]["template"]["spec"]["nodeSelector"] == {
        names.deploy_label(leaving.COMPONENT): "true"
    }
