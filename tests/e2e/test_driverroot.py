"""A driver's container that comes after the pod: what the real kubelet and containerd let the pod see of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from controllers.api import resources
from controllers.api.settings import Settings
from controllers.components import build, podspec
from nodeagent.host.driverroot import DriverRoot
from nodeagent.host.paths import HostPaths
from sim.realnode.image import SHOW
from tests.e2e.admin import NAMESPACE, Admin

pytestmark = pytest.mark.e2e
POD = build.daemonsets(Settings().bootstrap)["gpu-driver-validator"]["spec"]["template"]["spec"]
DRIVER = Path(podspec.DRIVER_ROOT)
LIBRARY = "usr/lib64/libnvidia-ml.so.1"


@pytest.fixture
def container() -> Iterator[None]:
    """No driver's container when the test begins, and none when it ends."""
    if (DRIVER / LIBRARY).exists():
        pytest.skip(f"this machine has a driver in {DRIVER}")
    yield
    while DRIVER.is_mount():
        end()


def begin(version: str) -> None:
    """A container mounts its root, as GPU Operator's does when its driver is loaded."""
    subprocess.run(["mount", "-t", "tmpfs", "driver", DRIVER], check=True)
    (DRIVER / LIBRARY).parent.mkdir(parents=True)
    (DRIVER / LIBRARY).with_name(f"libnvidia-ml.so.{version}").write_text("")
    (DRIVER / LIBRARY).symlink_to(f"libnvidia-ml.so.{version}")


def end() -> None:
    subprocess.run(["umount", "--lazy", DRIVER], check=True)


def root_of(container_id: str) -> Path:
    """A container's root, with the mounts that its processes see."""
    name = container_id.rpartition("/")[2]
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if name in (folder / "cgroup").read_text():
                return folder / "root"
    raise AssertionError(f"no process of {container_id}")


async def test_a_driver_that_comes_goes_and_is_replaced_is_seen_in_a_pod_that_runs(
    admin: Admin, container: None
) -> None:
    (check,) = POD["containers"]
    one = {"name": "main", "image": SHOW, "imagePullPolicy": "Never", "securityContext": check["securityContext"]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "look"},
        "spec": {
            "containers": [one | {"volumeMounts": check["volumeMounts"]}],
            "volumes": POD["volumes"],
            "securityContext": POD["securityContext"],
            "terminationGracePeriodSeconds": 0,
        },
    }
    await admin.client.create(resources.POD, body, NAMESPACE, manager="test")
    await admin.runs("look")
    name, restarts = await admin.container("look")
    root = root_of(name) / "host/root"
    variables = {one["name"]: one.get("value", "") for one in check["env"]}
    assert root.parts[-2:] == Path(variables["HOST_ROOT"]).parts[-2:]

    def found() -> DriverRoot:
        """By the role's own rule, in the pod's files."""
        return HostPaths(root=root, driver_root=Path(variables["HOST_DRIVER_ROOT"])).driver()

    there = sorted(path.name for path in (root / "run/nvidia").iterdir())
    assert there == ["driver", "gpu-control-plane"], "and the notes of the agent; nothing else of what lies beside"
    before = found().name
    seen = []
    for version in ("580.1", "590.2"):
        begin(version)
        seen.append((found().name, found().library.rpartition(".so.")[2]))
        end()
        seen.append((found().name, ""))

    assert before == "/"
    assert seen == [(str(DRIVER), "580.1"), ("/", ""), (str(DRIVER), "590.2"), ("/", "")]
    assert await admin.container("look") == (name, restarts)
    await admin.gone("look")
