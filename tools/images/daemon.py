"""A Docker daemon: the one that answers here, or one of our own for as long as it is needed.

Our own is Debian's `dockerd` with its data in a folder, without a network of its own, so that it changes nothing of the
machine's: no bridge, no firewall rule. Root on Linux. It ends with the context that started it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import docker
from docker.errors import DockerException

from tools.docker_socket import is_listening
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT: Final = 600
"""Seconds for one answer: a step of a build may take minutes and say nothing."""
INSTALL: Final = "make images-tools"
_STARTS, _ENDS, _POLL = 30.0, 20.0, 0.1


@contextmanager
def connected(folder: Path) -> Iterator[docker.DockerClient]:
    """A client of the daemon that answers (DOCKER_HOST, else the usual socket), or of one started in `folder`.

    UserError where there is neither; its text says what to do.
    """
    if (client := _ask()) is not None:
        with closing(client):
            yield client
        return
    if why := lacking():
        raise UserError(f"no Docker daemon answers, and none can be started: {why}", do=f"start one, or run: {INSTALL}")
    with _own(folder) as client:
        yield client


def lacking() -> str:
    """Why no daemon of our own can be started here; empty where one can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "that needs root"
    absent = [name for name in ("dockerd", "containerd", "runc") if shutil.which(name) is None]
    return f"{', '.join(absent)} not found" if absent else ""


def _ask(**where: str) -> docker.DockerClient | None:
    if not is_listening(where.get("base_url")):
        return None
    with suppress(DockerException, OSError):
        client = docker.DockerClient(**where, timeout=TIMEOUT) if where else docker.from_env(timeout=TIMEOUT)
        try:
            client.ping()
        except BaseException:
            client.close()
            raise
        return client
    return None


@contextmanager
def _own(folder: Path) -> Iterator[docker.DockerClient]:
    folder.mkdir(parents=True, exist_ok=True)
    # Short, since sockets lie in it: the path of one is limited to 107 characters.
    short = Path(tempfile.mkdtemp(prefix="dockerd-"))
    address = f"unix://{short}/docker.sock"
    (folder / "docker.sock").symlink_to(short / "docker.sock")  # where another client of ours finds it
    flags = [
        f"--host={address}",
        f"--data-root={folder / 'data'}",
        f"--exec-root={short / 'exec'}",
        f"--pidfile={short / 'docker.pid'}",
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
    ]
    log = folder / "dockerd.log"
    with log.open("wb") as out:
        process = subprocess.Popen(["dockerd", *flags], stdout=out, stderr=out, start_new_session=True)
    try:
        with closing(_started(process, address, log)) as client:
            yield client
    finally:
        process.terminate()
        try:
            process.wait(_ENDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for place in (folder, short):
            _unmount(place)
        shutil.rmtree(short, ignore_errors=True)
        (folder / "docker.sock").unlink()


def _unmount(folder: Path) -> None:
    """Take away what dockerd leaves mounted, such as the file that holds the machine's network for its containers."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split(" ")[4].encode().decode("unicode_escape") for line in lines]
    for point in sorted((p for p in points if Path(p).is_relative_to(folder.resolve())), reverse=True):
        subprocess.run(["umount", point], check=False, capture_output=True)


def _started(process: subprocess.Popen[bytes], address: str, log: Path) -> docker.DockerClient:
    deadline = time.monotonic() + _STARTS
    while (client := _ask(base_url=address)) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise UserError(f"dockerd does not start; the end of {log}:\n{tail}")
        time.sleep(_POLL)
    return client
