"""nodeagent mig-manager: flags and wiring only."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.runtime.errors import ConfigurationError
from controllers.runtime.process import Process, arguments, main
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.paths import add_path_flags, host_paths, seconds
from nodeagent.host.program import STALL_INTERVAL, add_pool, need_node
from nodeagent.mig.cluster import Objects
from nodeagent.mig.files import Journal, Lock
from nodeagent.mig.manager import Intervals, Manager
from nodeagent.mig.scanner import HostScanner, library_folder
from nodeagent.mig.tools import Programs
from nodeagent.mig.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = "Divides the node's cards as ConfigMap gpu-mig-layout-NODE says, and tells of each in its migApply."
EPILOG = (
    "Ends with status 0 when told to (SIGTERM), once the work at hand is done; 2 where it cannot work as it was "
    "started; 1 at anything unforeseen."
)
STATE = "/run/gpu-mig-manager"


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = arguments(names.MANAGER_MIG, DESCRIPTION)
    made.epilog = EPILOG
    env, intervals = os.environ, Intervals()
    about = "the GPUPool whose DaemonSet this is; the managers of all pools of a node do the same, one at a time"
    add_pool(made, about)
    group = made.add_argument_group("dividing cards")
    group.add_argument(
        "--state-dir",
        type=Path,
        default=Path(env.get("MIG_STATE_DIR") or STATE),
        help=f"folder of the host that the node's managers share, emptied by a reboot (default: MIG_STATE_DIR, "
        f"else {STATE})",
    )
    group.add_argument(
        "--mig-parted",
        default=env.get("MIG_PARTED") or "nvidia-mig-parted",
        help="the program that divides cards (default: MIG_PARTED, else nvidia-mig-parted)",
    )
    group.add_argument(
        "--nvidia-smi",
        default=env.get("NVIDIA_SMI") or "nvidia-smi",
        help="the program that resets a card (default: NVIDIA_SMI, else nvidia-smi)",
    )
    add_path_flags(made)
    timing = made.add_argument_group("waiting, in seconds")
    about = "between two looks while a card waits for something that no watch tells of"
    timing.add_argument("--check-period", type=seconds, default=intervals.check, help=about)
    about = "for programs that hold a card open which is to be reset; then its work has failed"
    timing.add_argument("--clients-deadline", type=seconds, default=intervals.clients_deadline, help=about)
    timing.add_argument("--program-deadline", type=seconds, default=300.0, help="for one run of a program")
    about = "after which the driver counts as silent"
    timing.add_argument("--driver-deadline", type=seconds, default=Timing().deadline, help=about)
    return made


async def wire(process: Process) -> None:
    """Connect cluster, node and programs, and live."""
    args = process.args
    node = need_node(process)
    try:
        args.state_dir.mkdir(parents=True, exist_ok=True)
        lock = Lock(args.state_dir)
    except OSError as error:
        raise ConfigurationError(f"--state-dir {args.state_dir} cannot be used: {error.strerror or error}") from error
    where = host_paths(args)
    probe = DriverProbe(where.library_roots, Timing(deadline=args.driver_deadline))
    scanner, memory = HostScanner(where, probe), Journal(args.state_dir)
    library = partial(library_folder, where, args.state_dir)
    tools = Programs(args.mig_parted, args.nvidia_smi, lock, args.program_deadline, library)
    objects = Objects(process, node)
    intervals = Intervals(args.check_period, args.clients_deadline)
    manager = Manager(objects, scanner, Work(tools, scanner, memory), memory, lock, intervals)
    objects.subscribe(manager.enqueue)
    process.health.stall_interval = STALL_INTERVAL
    process.health.check("the node's layout is acknowledged", lambda: manager.acknowledged)
    try:
        await process.run(manager.run, lease=None, namespace=names.NAMESPACE)
    finally:
        await probe.close()


def run(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    return main(parser(), names.MANAGER_MIG, wire, list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(run())
