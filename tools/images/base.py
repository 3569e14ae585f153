"""A base for the images where no registry is reachable: a root file system of Debian's packages, with Python.

Made by debootstrap from the mirror that the machine itself uses, as root. Python is Debian 12's 3.11, as in the
Dockerfiles' usual base; nothing of it but what `images/rootfs.py` takes reaches an image.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import ImageNotFound

from tools.errors import UserError

if TYPE_CHECKING:
    import docker

SUITE: Final = "bookworm"
NAME: Final = "registry.local/gpu-control-plane/debian-python"
TAG: Final = f"{NAME}:{SUITE}"
PACKAGES: Final = ("python3", "python3-venv")


def has(client: docker.DockerClient, tag: str) -> bool:
    """Whether the daemon has the image."""
    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True


def lacking() -> str:
    """Why it cannot be made here; empty where it can."""
    if os.geteuid() != 0:
        return "debootstrap needs root"
    return "" if shutil.which("debootstrap") else "debootstrap not found"


def debian(client: docker.DockerClient, archive: Path | None = None) -> str:
    """The tag of that base in the daemon, made where it is not there yet: about a minute; UserError.

    `archive`: what `make` has written before.
    """
    if has(client, TAG):
        return TAG
    with tempfile.TemporaryDirectory() as folder:
        if archive is None:
            archive = Path(folder, "root.tar")
            make(archive)
        client.api.import_image_from_file(str(archive), repository=NAME, tag=SUITE)
    return TAG


def make(archive: Path) -> None:
    """Write that root file system as a tar; raises UserError."""
    if why := lacking():
        raise UserError(f"a base image cannot be made of Debian's packages: {why}", do="run: make images-tools")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
            raise UserError(f"debootstrap exited with {done.returncode}:\n{tail}", expected="Debian's packages")
        with tarfile.open(archive, "w") as tar:
            tar.add(root, arcname=".", filter=_kept)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out the archives of packages, and device nodes, which a runtime makes."""
    if entry.isdev() or entry.name.startswith(("./var/cache/apt/archives/", "./var/lib/apt/lists/")):
        return None
    return entry
