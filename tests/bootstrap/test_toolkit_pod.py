"""The toolkit's pod: NVIDIA's installer installs, the module's own role tells the runtime, and alone has a token."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.settings import Settings, parse_settings
from controllers.components import build
from controllers.components.pods import toolkit
from controllers.components.podspec import TOOLKIT_ROOT
from controllers.domain.agents import api_server
from nodeagent.toolkit import leaving
from nodeagent.toolkit.config import plan

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(**more: Any) -> dict[str, Any]:
    made = build.daemonsets(Settings().bootstrap, **more)[leaving.OBJECT]["spec"]["template"]["spec"]
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


class Installer:
    """The installer's container on a host below a folder; its program notes what it is told, and ends."""

    def __init__(self, folder: Path) -> None:
        self.host, self.run = folder / "host", folder / "run"
        self.run.mkdir()
        (folder / "nvidia-toolkit").write_text('#!/bin/sh\nenv | grep -E "_(DRIVER|DEV)_ROOT|ROOT_CTR" >"$RUN/told"\n')
        (folder / "nvidia-toolkit").chmod(0o755)
        self.env = {"HOST": str(self.host), "RUN": str(self.run), "PATH": f"{folder}:{os.environ['PATH']}"}

    def sh(self, command: list[str]) -> bool:
        told = {one["name"]: one["value"] for one in container("toolkit")["env"]} | self.env
        return subprocess.run(command, env=told, check=False).returncode == 0

    def start(self) -> dict[str, str]:
        """What its program is told of where the driver lies, with the host's folder as the pod has it."""
        assert self.sh(container("toolkit")["command"])
        lines = (self.run / "told").read_text().replace(str(self.host), "/host").splitlines()
        return dict(line.split("=", 1) for line in sorted(lines))

    @property
    def current(self) -> bool:
        """Whether it goes on with the driver that it was started for, by the part of its probes that says so."""
        for probe in ("readinessProbe", "livenessProbe"):
            assert container("toolkit")[probe]["exec"]["command"][2].startswith(f"{toolkit.CURRENT} && ")
        return self.sh(["sh", "-c", toolkit.CURRENT])

    def driver(self, root: str, version: str) -> None:
        library = self.host / root / "usr/lib64/libnvidia-ml.so.1"
        library.parent.mkdir(parents=True, exist_ok=True)
        library.unlink(missing_ok=True)
        library.with_name(f"libnvidia-ml.so.{version}").write_text("")
        library.symlink_to(f"libnvidia-ml.so.{version}")


def test_the_installer_is_told_where_the_driver_lies_and_starts_anew_where_that_changes(tmp_path: Path) -> None:
    made = Installer(tmp_path)
    made.driver("", "550.1")
    on_host = {
        "NVIDIA_DRIVER_ROOT": "/", "DRIVER_ROOT_CTR_PATH": "/host", "NVIDIA_DEV_ROOT": "/", "DEV_ROOT_CTR_PATH": "/host"
    }  # fmt: skip
    assert made.start() == on_host
    assert made.current

    made.driver("run/nvidia/driver", "580.1")
    assert not made.current
    root = "/run/nvidia/driver"
    assert made.start() == on_host | {"NVIDIA_DRIVER_ROOT": root, "DRIVER_ROOT_CTR_PATH": f"/host{root}"}
    (made.host / "run/nvidia/driver/dev").mkdir()
    (made.host / "run/nvidia/driver/dev/nvidiactl").write_text("")
    assert made.start()["NVIDIA_DEV_ROOT"] == root
    assert made.start()["DEV_ROOT_CTR_PATH"] == f"/host{root}"
    assert made.current

    made.driver("run/nvidia/driver", "590.2")
    assert not made.current, "the specification that it made mounts files of another version"
    made.start()
    for gone in ("run", "usr"):
        shutil.rmtree(made.host / gone)
        assert made.current == (gone == "usr"), "without any driver, a new start gains nothing"


def test_a_settings_arguments_reach_the_installer(tmp_path: Path) -> None:
    made = Installer(tmp_path)
    (tmp_path / "nvidia-toolkit").write_text('#!/bin/sh\necho "$0|$*" >"$RUN/told"\n')
    settings = parse_settings({"bootstrap": {"toolkit": {"args": ["--debug", "a b"]}}}).bootstrap
    (found, *_) = build.daemonsets(settings)[leaving.OBJECT]["spec"]["template"]["spec"]["containers"]

    assert made.sh([*found["command"], *found["args"]])
    assert (made.run / "told").read_text() == f"{tmp_path}/nvidia-toolkit|--debug a b\n"


@pytest.mark.parametrize("name", ["NVIDIA_DRIVER_ROOT", "NVIDIA_DEV_ROOT", "DRIVER_ROOT_CTR_PATH"])
def test_where_the_driver_lies_is_no_setting_of_the_installer(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is the module's own"):
        parse_settings({"bootstrap": {"toolkit": {"env": [{"name": name, "value": "/"}]}}})


def test_what_is_mounted_on_the_host_later_is_seen() -> None:
    mounts = {one["name"]: one["volumeMounts"] for one in pod()["containers"]}

    for name, found in mounts.items():
        (host,) = [one for one in found if one["mountPath"] == "/host"]
        assert host["mountPropagation"] == "HostToContainer", name


@pytest.mark.parametrize("root", ["", "/opt/driver", "/"])
def test_another_folder_for_a_drivers_container_is_told_to_all(root: str) -> None:
    made = build.daemonsets(Settings().bootstrap, driver_root=root)
    wanted = root or "/run/nvidia/driver"
    told = {
        one["name"]: value["value"]
        for name in ("gpu-toolkit", "gpu-driver-validator")
        for one in made[name]["spec"]["template"]["spec"]["containers"]
        for value in one["env"]
        if value["name"] in ("DRIVER", "HOST_DRIVER_ROOT")
    }
    assert told == {"toolkit": wanted, "cdi": wanted, "driver-validator": wanted}
    checks = made["gpu-driver-validator"]["spec"]["template"]["spec"]
    volumes = [one["hostPath"] for one in checks["volumes"] if one["name"] == "driver"]
    mounts = [one for one in checks["containers"][0]["volumeMounts"] if one["name"] == "driver"]
    if root == "/":
        assert (volumes, mounts) == ([], [])
    else:
        assert volumes == [{"path": wanted, "type": "DirectoryOrCreate"}]
        propagated = {"readOnly": True, "mountPropagation": "HostToContainer"}
        assert mounts == [{"name": "driver", "mountPath": f"/host/root{wanted}", **propagated}]


def test_the_installer_writes_its_specification_where_no_runtime_reads_it() -> None:
    """A name that two files of one folder have is in neither for a runtime; container `cdi` keeps that one, too."""
    told = {one["name"]: one["value"] for one in container("toolkit")["env"]}

    assert (told["CDI_ENABLED"], told["CDI_OUTPUT_DIR"]) == ("true", "/run/nvidia/toolkit/cdi")
    assert "/run/nvidia/toolkit" in [one["mountPath"] for one in container("toolkit")["volumeMounts"]]


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
    made = build.daemonsets(Settings().bootstrap)
    assert made[leaving.OBJECT]["spec"]["template"]["spec"]["nodeSelector"] == {
        names.deploy_label(leaving.COMPONENT): "true"
    }
