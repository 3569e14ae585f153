"""The control plane's second backend: the same programs, each in a container (CONTROL_PLANE=testcontainers).

The supervisor stays who runs them: what it starts is then :mod:`sim.controlplane.container`, which lives as long as its
container, prints what that prints and ends with its code. So readiness, restarts, logs and the order of the end are the
same. The image is made here of the programs, which are static, and holds nothing else; containers share the machine's
network, and the control plane's directory under its own path.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.controlplane.components import STAGES
from sim.controlplane.state import write_atomically
from tools.docker_socket import is_listening
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import docker

    from sim.controlplane.layout import Layout
    from sim.controlplane.spec import ProcessSpec

VARIABLE: Final = "CONTROL_PLANE"
PROCESSES: Final = "processes"
CONTAINERS: Final = "testcontainers"
LABEL: Final = "gpu-control-plane.dir"
"""On each container: the directory of its control plane."""
REPOSITORY: Final = "registry.local/gpu-control-plane/control-plane-programs"
_LEAVING: Final = 15.0
"""Seconds that a container is given beyond its program's grace, until it is removed."""


def chosen() -> bool:
    """Whether containers are asked for; UserError where the variable says what nobody knows."""
    backend = os.environ.get(VARIABLE) or PROCESSES
    if backend not in {PROCESSES, CONTAINERS}:
        raise UserError(f"{VARIABLE} is {backend!r}", expected=f"{PROCESSES} or {CONTAINERS}", do=f"unset {VARIABLE}")
    return backend == CONTAINERS


def backend(layout: Layout, programs: Mapping[str, Path]) -> Callable[[ProcessSpec], ProcessSpec]:
    """How a program's description becomes what the supervisor runs; the image is made where it is not there yet."""
    if not chosen():
        return lambda spec: spec
    with closing(connect()) as client:
        image = _image(client, programs)
    # From here on `down` looks for containers.
    write_atomically(layout.containers, image + "\n")
    return lambda spec: wrapped(spec, layout, image)


def connect() -> docker.DockerClient:
    """A client of the daemon that answers; UserError where none does."""
    import docker
    from docker.errors import DockerException

    try:
        if not is_listening():
            raise ConnectionRefusedError("nobody listens at its socket")
        client = docker.from_env()
        client.ping()
    except (DockerException, OSError) as error:
        raise UserError(
            f"{VARIABLE}={CONTAINERS}, and no Docker daemon answers: {error}",
            expected="a daemon at DOCKER_HOST, or at the usual socket",
            do=f"start one (`make images-tools` installs Debian's), or unset {VARIABLE}: then no container is needed",
        ) from error
    return client


def name_of(root: Path, process: str) -> str:
    """The name of a process's container; two directories never share one."""
    return f"gpu-control-plane-{hashlib.sha256(str(root).encode()).hexdigest()[:12]}-{process}"


def wrapped(spec: ProcessSpec, layout: Layout, image: str) -> ProcessSpec:
    """The same process in a container: same name, readiness, stage and ports."""
    program, *flags = spec.argv
    runner = [
        *(sys.executable, "-m", "sim.controlplane.container"),
        *("--name", name_of(layout.root, spec.name), "--image", image, "--dir", str(layout.root)),
        *("--read", str(STAGES), "--grace", str(spec.grace), "--"),
    ]
    return replace(spec, argv=(*runner, f"/bin/{Path(program).name}", *flags), grace=spec.grace + _LEAVING)


def sweep(layout: Layout) -> None:
    """Remove the containers that are left of a directory, where who ran them was killed."""
    if not layout.containers.exists():
        return
    try:
        client = connect()
    except UserError:
        return  # its containers ended with the daemon; what else is in the folder can still be removed
    with closing(client):
        for container in client.containers.list(all=True, filters={"label": f"{LABEL}={layout.root}"}):
            container.remove(force=True)


def _image(client: docker.DockerClient, programs: Mapping[str, Path]) -> str:
    """The tag of the image that holds these programs; it tells one set of them from another."""
    from docker.errors import ImageNotFound

    key = hashlib.sha256()
    for name, path in sorted(programs.items()):
        key.update(f"{name} {path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}\n".encode())
    tag = key.hexdigest()[:16]
    try:
        client.images.get(f"{REPOSITORY}:{tag}")
    except ImageNotFound:
        client.api.import_image_from_data(_archive(programs), repository=REPOSITORY, tag=tag)
    return f"{REPOSITORY}:{tag}"


def _archive(programs: Mapping[str, Path]) -> bytes:
    """The root file system: /bin with the programs, and /tmp."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for path in sorted({path.resolve() for path in programs.values()}):
            tar.add(path, f"bin/{path.name}")
        for name, path in sorted(programs.items()):
            if path.resolve().name != name:  # one program under several names
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, path.resolve().name
                tar.addfile(link)
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
    return content.getvalue()
