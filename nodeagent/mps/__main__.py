"""nodeagent mps: flags and wiring only."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from controllers.runtime import logs
from nodeagent.host import mpsfiles
from nodeagent.host.paths import seconds
from nodeagent.host.program import add_pool
from nodeagent.mps import shm
from nodeagent.mps.programs import Programs
from nodeagent.mps.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "nodeagent mps"
DESCRIPTION: Final = (
    "Runs an MPS control daemon for each card of one pool on this node, as the pool's device plugin asks by a file."
)
EPILOG: Final = (
    "Ends with status 0 when told to (SIGTERM), once its daemons have ended and compute modes are put back; 2 where it "
    "cannot work as it was started, as where another program serves the pool here."
)
log = structlog.get_logger()


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION, epilog=EPILOG)
    add_pool(made, "the GPUPool whose cards have daemons")
    env = os.environ
    made.add_argument(
        "--mps-dir",
        type=Path,
        default=Path(env.get("MPS_DIR") or mpsfiles.ROOT),
        help=f"folder of the host that pods with cards see, too (default: MPS_DIR, else {mpsfiles.ROOT})",
    )
    made.add_argument(
        "--mps-control",
        default=env.get("MPS_CONTROL") or "nvidia-cuda-mps-control",
        help="NVIDIA's control daemon (default: MPS_CONTROL, else nvidia-cuda-mps-control)",
    )
    made.add_argument(
        "--nvidia-smi",
        default=env.get("NVIDIA_SMI") or "nvidia-smi",
        help="the program that sets compute modes (default: NVIDIA_SMI, else nvidia-smi)",
    )
    about = "mount the shared memory of the pool's clients where it is not mounted, and end"
    made.add_argument("--mount-shm", action="store_true", help=about)
    made.add_argument("--log-level", choices=sorted(logs.LEVELS), default="Info")
    timing = made.add_argument_group("timing, in seconds")
    timing.add_argument("--period", type=seconds, default=1.0, help="between two looks at what is wanted")
    timing.add_argument("--program-deadline", type=seconds, default=20.0, help="for one run of a program")
    return made


def live(args: argparse.Namespace) -> int:
    """Keep the daemons until SIGTERM; returns the exit status."""
    folder = mpsfiles.folder(args.mps_dir, args.pool)
    try:
        lock = mpsfiles.claim(folder)
    except OSError as error:
        log.error("--mps-dir cannot be used", path=str(folder), why=error.strerror or str(error))  # noqa: TRY400
        return 2
    if lock is None:
        log.error("another program serves the pool on this node", path=str(folder))
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    keeping = Supervisor(folder, Programs(args.mps_control, args.nvidia_smi, args.program_deadline))
    log.info("started", pool=args.pool, pid=os.getpid())
    while not stop.is_set():
        keeping.round()
        stop.wait(args.period)
    keeping.close()
    shm.unmount(folder)
    os.close(lock)
    return 0


def run(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    args = parser().parse_args(list(sys.argv[1:] if argv is None else argv))
    logs.configure(PROGRAM, args.log_level)
    if not args.mount_shm:
        return live(args)
    try:
        shm.mount(mpsfiles.folder(args.mps_dir, args.pool))
    except OSError as error:
        log.error("the shared memory of MPS is not mounted", why=str(error))  # noqa: TRY400
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
