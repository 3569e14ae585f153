"""The DaemonSet: it reads the host and can do nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.components import podspec
from nodeagent.discover.__main__ import parser
from tests.templates import harness

pytestmark = pytest.mark.cluster
DISCOVER = "gpuControlPlane.nodeAgent.discover"


SEEN = ("usr", "etc", "run/gpu-control-plane")
"""What the program sees of the host's root: the last is what the toolkit's role says of the container runtime."""


def pod(*sets: str) -> dict[str, Any]:
    objects = harness.objects(harness.render(harness.programs()["helm"], *sets))
    found = next(o for o in objects if o["kind"] == "DaemonSet" and o["metadata"]["name"] == "gpu-nodeagent-discover")
    return found["spec"]["template"]["spec"]


def test_it_has_no_privileges_and_writes_nowhere() -> None:
    spec = pod()
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC", "runtimeClassName"))
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert {volume["hostPath"]["path"]: volume["hostPath"]["type"] for volume in spec["volumes"]} == {
        "/sys": "Directory", "/usr": "Directory", "/etc": "Directory", "/run/nvidia/driver": "DirectoryOrCreate",
        "/run/gpu-control-plane": "DirectoryOrCreate",
    }  # fmt: skip


@pytest.mark.parametrize("root", ["/run/nvidia/driver", "/opt/driver", "/"])
def test_the_program_takes_its_flags_and_finds_the_mounts(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    told = [] if root == podspec.DRIVER_ROOT else [f"{DISCOVER}.driverRoot={root}"]
    spec = pod(*told)
    (container,) = spec["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable.get("value", "worker-01"))
    args = parser().parse_args(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"health": args.health_port, "https-metrics": args.metrics_port}
    assert (args.node, args.health_host, args.health_port) == ("worker-01", "0.0.0.0", 8080)  # noqa: S104
    mounts = {mount["mountPath"]: mount.get("mountPropagation") for mount in container["volumeMounts"]}
    assert str(args.driver_root) == root
    later = {f"{args.root}{root}": "HostToContainer"} if root != "/" else {}
    assert mounts == dict.fromkeys((str(args.sys), *(f"{args.root}/{name}" for name in SEEN))) | later


def test_nvidias_runtime_is_not_asked_for_anything() -> None:
    """Where its driver is missing it makes no container, and nobody would report that."""
    (container,) = pod()["containers"]
    assert [variable["name"] for variable in container["env"] if variable["name"].startswith("NVIDIA_")] == []
