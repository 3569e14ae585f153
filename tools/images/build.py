"""Builds the images: wheels first, by the machine's own pip, then each Dockerfile without any network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from docker.errors import APIError, BuildError

from tools.errors import UserError
from tools.images.lock import IMAGES, ROOT, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import docker

WHEELS: Final = ROOT / ".run" / "wheels"
TAGS: Final = {
    "control-plane": "registry.local/gpu-control-plane/controllers:dev",
    "node-agent": "registry.local/gpu-control-plane/nodeagent:dev",
}
"""The chart's defaults, so that what was built here runs where the chart is installed as it is."""
PYTHON: Final = "3.11"
_TAIL = 25


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built; its size in bytes, unpacked."""

    image: str
    tag: str
    size: int


def build(client: docker.DockerClient, base: str = "") -> list[Built]:
    """Build every image; `base` empty: as the Dockerfiles name it. Raises UserError."""
    return [build_one(client, image, base) for image in IMAGES]


def fetch(image: str) -> Path:
    """Lay the wheels of an image's lock file into the build's context; returns their folder."""
    folder = WHEELS / image
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    flags = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--only-binary=:all:"]
    command = [sys.executable, "-m", "pip", "download", *flags, "--python-version", PYTHON, "--dest", str(folder)]
    done = subprocess.run([*command, "--requirement", str(path_of(image))], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"the wheels of {image} cannot be fetched:\n{done.stderr.strip()}")
    return folder


def build_one(
    client: docker.DockerClient, image: str, base: str = "", arguments: Mapping[str, str] = MappingProxyType({})
) -> Built:
    """Build one of them, with other arguments of its Dockerfile beside the usual ones. Raises UserError."""
    fetch(image)
    given = {"PIP_NO_INDEX": "1", **_version(), **({"BASE": base} if base else {}), **arguments}
    try:
        made, _ = client.images.build(
            path=str(ROOT),
            dockerfile=f"images/{image}/Dockerfile",
            tag=TAGS[image],
            buildargs=given,
            network_mode="none",
            rm=True,
            forcerm=True,
        )
    except BuildError as error:
        said = "".join(str(line.get("stream") or line.get("error") or "") for line in error.build_log)
        tail = "\n".join(said.splitlines()[-_TAIL:])
        raise UserError(f"building {image} failed:\n{tail}") from error
    except APIError as error:
        raise UserError(
            f"building {image} failed: {error.explanation or error}",
            do="where the base's registry is not reachable, name another base: make images BASE=debian",
        ) from error
    return Built(image, TAGS[image], int(made.attrs["Size"]))


def _version() -> Mapping[str, str]:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {"VERSION": str(version), "REVISION": git.stdout.strip() or "unknown"}
