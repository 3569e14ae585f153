"""Runs one program in a container, for as long as this process lives: `… --name N --image I --dir D -- PROGRAM FLAGS`.

Started by the supervisor in the program's stead (:mod:`sim.controlplane.containers`). It prints what the container
prints and exits with its code; SIGTERM ends the container with its grace and removes it. What is left of an earlier run
that was killed is removed first: a name is one process's.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import docker
from docker.errors import NotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from sim.controlplane.containers import LABEL

if TYPE_CHECKING:
    from types import FrameType


def main() -> int:
    """Run it; the container's exit code."""
    parser = argparse.ArgumentParser(prog="sim.controlplane.container", description="run a program in a container")
    parser.add_argument("--name", required=True, help="the container's name")
    parser.add_argument("--image", required=True)
    parser.add_argument("--dir", required=True, help="the control plane's directory, the same path inside")
    parser.add_argument("--read", required=True, help="a file that it reads beside those, the same path inside")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds from SIGTERM to SIGKILL")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    _leave(args.name, 0.0)
    # Its reaper would have to be pulled from a registry; the supervisor, `_leave` and `down` do that work here.
    testcontainers_config.ryuk_disabled = True
    container = (
        DockerContainer(args.image)
        .with_name(args.name)
        .with_command(args.command)
        .with_volume_mapping(args.dir, args.dir, "rw")
        .with_volume_mapping(args.read, args.read, "ro")
        .with_kwargs(
            network_mode="host",
            user=f"{os.getuid()}:{os.getgid()}",
            labels={LABEL: args.dir},
            read_only=True,
        )
        .with_tmpfs_mount("/tmp")  # noqa: S108 - the container's own
    )
    try:
        container.start()
        running = container.get_wrapped_container()
        for chunk in running.logs(stream=True, follow=True):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        return int(running.wait()["StatusCode"])
    finally:
        _leave(args.name, args.grace)


def _leave(name: str, grace: float) -> None:
    """End and remove the container where it is there; by name, for its start may have failed half-way."""
    with closing(docker.from_env()) as client, suppress(NotFound):
        container = client.containers.get(name)
        container.stop(timeout=math.ceil(grace))
        container.remove(force=True)


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
