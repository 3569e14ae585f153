"""`python -m sim.realnode.runtime --root DIR -- PROGRAM ARGUMENT…`: a container runtime, and the end of what it leaves.

Clears what an earlier run left, runs the program until SIGTERM or its own end, and clears again: no container
outlives the node. Its exit status is the program's.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from sim.controlplane.spec import ProcessSpec, Ready
from sim.module.install import ROOT
from sim.realnode.places import Places
from sim.realnode.sweep import sweep

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

STAGE: Final = 3
GRACE: Final = 30.0


def process(
    places: Places, name: str, command: tuple[str, ...], env: Mapping[str, str] = MappingProxyType({})
) -> ProcessSpec:
    """Return the runtime, which is ready when it listens."""
    argv = (sys.executable, "-m", "sim.realnode.runtime", f"--root={places.root}", "--", *command)
    path = f"{places.programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return ProcessSpec(
        name=name,
        argv=argv,
        env={"PYTHONPATH": str(ROOT), "PATH": path, **env},
        ready=Ready(files=(str(places.socket),)),
        grace=GRACE,
        stage=STAGE,
    )


def main(argv: list[str] | None = None) -> int:
    """Run the container runtime."""
    parser = argparse.ArgumentParser(prog="sim.realnode.runtime", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the node's folder")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args(argv)
    places = Places(args.root)
    sweep(places)
    places.socket.unlink(missing_ok=True)
    child = subprocess.Popen(args.command)

    def stop(_number: int, _frame: FrameType | None) -> None:
        child.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    status = child.wait()
    sweep(places)
    return max(status, 0)


if __name__ == "__main__":
    sys.exit(main())
