"""A real node without the module's processes, on which driver pods run, and what the tests see of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from controllers.api import names
from controllers.api.record import adapter
from controllers.domain.driver import files
from controllers.driver.records import ContainerStatus, Pod
from sim import controlplane
from sim.realnode.node import Setup
from tests.e2e import images
from tests.e2e.bed import NODE, Bed
from tools import programs
from tools.programs import Progress

RUN: Final = Path(files.RUN)
MADE: Final = ("gpu-control-plane", "validations", "driver", "nvidia-driver.pid", "nvidia-driver.state")
"""What driver pods leave in /run/nvidia; a reboot takes it off a real node."""


class DriverBed(Bed):
    """A bare control plane and a node that has the images."""

    def __init__(self, folder: Path, archive: Path, progress: Progress) -> None:
        images.write(archive)
        paths = programs.ensure((*programs.PROGRAMS, *programs.NODE_PROGRAMS), progress=progress)
        plane = controlplane.up(folder, progress=progress)
        super().__init__(plane, paths["helm"], Setup(archives=(archive,)), progress)
        self.tools.run("create", "namespace", names.NAMESPACE)
        self.modules = self.node.tree.sys / "module"
        self.other = self.node.places.root / "other"
        """Folders of the host that driver pods mount and that are not the machine's here."""
        self.host = Path("/")
        """The host's root, as the agent's containers see it."""
        shutil.rmtree(self.modules, ignore_errors=True)  # the machine of these tests has cards and no driver
        for path in ("module/firmware_class/parameters", "devices/system"):
            (self.node.tree.sys / path).mkdir(parents=True, exist_ok=True)
        (self.modules / "firmware_class/parameters/path").write_text("\n")
        for name in ("var/log", "dev/log", "run", "etc"):
            (self.other / name).mkdir(parents=True)
        shutil.copy("/etc/os-release", self.other / "etc/os-release")

    # --- pods -----------------------------------------------------------------------------------

    def here(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with this node's machine, which is made of files, in place of the host's, and no long first pause."""
        made: dict[str, Any] = json.loads(json.dumps(pod))
        for volume in made["volumes"]:
            if (host := volume.get("hostPath")) is not None:
                host["path"] = self._place(host["path"])
        made["volumes"].append({"name": "modules", "hostPath": {"path": str(self.modules)}})
        for container in (*made.get("initContainers", ()), *made["containers"]):
            for mount in container["volumeMounts"]:
                if mount["name"] != "run-nvidia":
                    mount.pop("mountPropagation", None)  # a node shares all its mounts; this machine, /run/nvidia
            if "startupProbe" in container:
                container["startupProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
                container["volumeMounts"].append({"name": "modules", "mountPath": "/sys/module"})
        return made

    def _place(self, path: str) -> str:
        if path == "/":
            return str(self.host)
        if path.startswith("/sys"):
            return str(self.node.tree.sys) + path.removeprefix("/sys")
        return path if path.startswith(f"{files.RUN}/") or path == files.RUN else f"{self.other}{path}"

    def apply(self, body: dict[str, Any]) -> None:
        """As a person who may do all."""
        self.tools.run("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=json.dumps(body))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and wait until it is gone."""
        self.tools.run("delete", kind, name, f"--namespace={names.NAMESPACE}", "--ignore-not-found", "--timeout=120s")

    def label(self, variant: str | None) -> None:
        """The variant that the node is to have."""
        told = f"{names.DRIVER_VARIANT}={variant}" if variant else f"{names.DRIVER_VARIANT}-"
        self.tools.run("label", "node", NODE, told, "--overwrite")

    def pods(self, variant: str) -> list[Pod]:
        """Pods of a variant, as gpu-driver-controller reads them."""
        found = json.loads(
            self.tools.run(
                "get",
                "pods",
                f"--namespace={names.NAMESPACE}",
                f"--selector={names.DRIVER_VARIANT}={variant}",
                "--output=json",
            )
        )
        return [adapter(Pod).validate_python(one) for one in found["items"]]

    def raw(self, name: str, container: str) -> dict[str, Any]:
        """A container's status, whole."""
        pod = json.loads(self.tools.run("get", "pod", name, f"--namespace={names.NAMESPACE}", "--output=json"))
        found = [one for one in pod["status"].get("containerStatuses", ()) if one["name"] == container]
        return found[0] if found else {}

    # --- the node -------------------------------------------------------------------------------

    def module(self, name: str, uses: int = 0) -> None:
        """A module that is loaded, with its number of uses."""
        (self.modules / name).mkdir(exist_ok=True)
        (self.modules / name / "refcnt").write_text(f"{uses}\n")

    def reboot(self) -> None:
        """What a reboot takes: modules, and all of /run/nvidia."""
        for path in self.modules.iterdir():
            if path.name != "firmware_class":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.sweep()

    @staticmethod
    def sweep() -> None:
        """Leave nothing of a driver in /run/nvidia."""
        while (RUN / "driver").is_mount():
            subprocess.run(["umount", "--lazy", RUN / "driver"], check=True)
        for name in MADE:
            with suppress(FileNotFoundError):
                path = RUN / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def started(self) -> list[str]:
        """Digests with which the driver's program was started, one after the other."""
        file = self.modules / "started"
        return file.read_text().split() if file.exists() else []


def end_of(container: ContainerStatus | None) -> tuple[int, str] | None:
    """How a container ended last: exit code and message."""
    if container is None:
        return None
    ended = container.state.terminated or container.last_state.terminated
    return (ended.exit_code, ended.message) if ended is not None else None
