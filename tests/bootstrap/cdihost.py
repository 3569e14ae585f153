"""A host for the script that keeps the CDI specification: its folders, and NVIDIA's real nvidia-ctk if it can be made.

The release of nvidia-ctk is the one that the toolkit's image is of. Its NVML is `sim.nvml`'s: it tells cards and MIG
instances as a driver does, and no card is needed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from controllers.api.components import COMPONENTS, TOOLKIT
from controllers.api.image_reference import split_reference
from controllers.api.settings import Settings
from controllers.components.build import daemonsets
from sim.nvml import VARIABLE, Config, build
from tests.kit.waiting import PATIENCE
from tests.tools.lacking import GO, in_one_line, lacking
from tools.programs.golang import build_env, find_go

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "github.com/NVIDIA/nvidia-container-toolkit"
RELEASE = split_reference(next(one.image for one in COMPONENTS if one.name == TOOLKIT))[1]
POD = daemonsets(Settings().bootstrap)["gpu-toolkit"]["spec"]["template"]["spec"]
KEEPER: dict[str, Any] = POD["containers"][1]
PLACES = {one["name"]: one["value"] for one in KEEPER["env"]}
LIBRARIES = "usr/lib/x86_64-linux-gnu"
ROUND = "sleep 5"
"""In the script: the end of a round."""
FRONTEND = 195
BUILD_SECONDS = 600


@dataclass(frozen=True)
class Host:
    """A host's root below a folder, as a pod sees it."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path) -> Host:
        """With the folders that every host has."""
        made = cls(folder)
        for name in ("run/cdi", "run/nvidia/toolkit", "dev", "etc", PLACES["TOOLKIT"][1:], "proc/driver/nvidia"):
            (folder / name).mkdir(parents=True)
        (folder / "proc/driver/nvidia/version").write_text("NVRM version: 580\n")
        return made

    @property
    def specification(self) -> Path:
        """Where ours is to be."""
        return self.root / "run/cdi/gpu-control-plane.yaml"

    @property
    def management(self) -> Path:
        """Where that for the module's own pods is to be: one name for all that there is."""
        return self.root / "run/cdi/management.nvidia.com-gpu.yaml"

    @property
    def managed(self) -> list[str]:
        """The device nodes that it gives."""
        (device,) = yaml.safe_load(self.management.read_text())["devices"]
        assert device["name"] == "all"
        return sorted(node["path"] for node in device["containerEdits"]["deviceNodes"])

    @property
    def named(self) -> list[str]:
        """What it names."""
        return sorted(device["name"] for device in self.told["devices"])

    @property
    def told(self) -> dict[str, Any]:
        """What it says."""
        made: dict[str, Any] = yaml.safe_load(self.specification.read_text())
        return made

    @contextlib.contextmanager
    def keeper(self) -> Iterator[Keeper]:
        """The script, which goes on by one round each time that it is told to."""
        command = [*KEEPER["command"][:-1], KEEPER["command"][-1].replace(ROUND, "echo ROUND; read -r _ || exit 0")]
        where = {
            "HOST": str(self.root),
            "PROC": str(self.root / "proc"),
            "CDI": str(self.root / "run/cdi"),
            "RUN": str(self.root / "run/nvidia/toolkit"),
        }
        env = {"PATH": os.environ["PATH"]} | PLACES | where | self.variables
        with subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            yield Keeper(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)

    def passes(self, probe: str) -> bool:
        """Whether the container's probe says yes."""
        text = KEEPER[probe]["exec"]["command"][2]
        for key, inside in (("CDI", "run/cdi"), ("RUN", "run/nvidia/toolkit")):
            text = text.replace(PLACES[key], str(self.root / inside))
        return subprocess.run(["sh", "-c", text], check=False).returncode == 0


@dataclass
class Keeper:
    """A running script."""

    process: subprocess.Popen[str]
    begun: bool = False

    def next(self) -> list[str]:
        """What it says in one round; it waits at the end of that."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.begun:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        self.begun = True
        said: list[str] = []
        for line in self.process.stdout:
            if line == "ROUND\n":
                return said
            said.append(line.rstrip())
        raise AssertionError(f"the script has ended: {said}")

    def settle(self) -> list[str]:
        """Rounds until nothing that it does can change what it sees."""
        return [line for _ in range(3) for line in self.next()]


def nvidia_ctk(into: Path) -> str:
    """Build nvidia-ctk there; says why it cannot be done, or nothing."""
    go = find_go()
    if go is None or (why := lacking("cc")):
        return f"nvidia-ctk cannot be built: {GO if go is None else why}"
    env = build_env() | {"CGO_ENABLED": "1", "GOBIN": str(into)}
    package = f"{MODULE}/cmd/nvidia-ctk@{RELEASE}"
    with tempfile.TemporaryDirectory() as nowhere:
        command = [str(go.command), "install", package]
        try:
            done = subprocess.run(
                command, env=env, cwd=nowhere, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS
            )
        except subprocess.TimeoutExpired:
            return f"nvidia-ctk {RELEASE} was not built within {BUILD_SECONDS} s"
    return "" if done.returncode == 0 else f"nvidia-ctk {RELEASE} cannot be built: {in_one_line(done.stderr[-300:])}"


def furnish(host: Host, ctk: Path, config: Config) -> Host:
    """Give the host a driver, its nodes, NVIDIA's program, and what those need of a system."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    nvml = build()
    for program in (ctk, Path(busybox), nvml):
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"/\S+", told):
            copy = host.root / library[1:]
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
    for source, path in ((busybox, "bin/sh"), (ctk, f"{PLACES['TOOLKIT'][1:]}/nvidia-ctk")):
        (host.root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, host.root / path)
    version = next(line.split()[1] for line in config.system if line.startswith("driver_version"))
    libraries = host.root / LIBRARIES
    libraries.mkdir(parents=True, exist_ok=True)
    shutil.copy(nvml, libraries / f"libnvidia-ml.so.{version}")
    (libraries / f"libcuda.so.{version}").write_text("not a library\n")
    for name in ("libnvidia-ml.so", "libcuda.so"):
        (libraries / f"{name}.1").symlink_to(f"{name}.{version}")
    for number, name in ((255, "nvidiactl"), *((n, f"nvidia{n}") for n in range(len(config.cards)))):
        os.mknod(host.root / "dev" / name, 0o20666, os.makedev(FRONTEND, number))
    config.write(host.root / "etc/cards.conf")
    return Host(host.root, {VARIABLE: "/etc/cards.conf"})
