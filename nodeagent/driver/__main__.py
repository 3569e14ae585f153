"""nodeagent driver: flags and wiring only."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controllers.api.driver_look import DONE
from controllers.domain.driver import files
from nodeagent.driver import decide, looking, message
from nodeagent.driver.kernel import Kernel
from nodeagent.driver.prepare import Clock, Preparation
from nodeagent.host.paths import add_path_flags, host_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.driver_look import Prepared

PROGRAM: Final = "nodeagent driver"
DESCRIPTION: Final = "Looks at a node before a driver comes onto it, and clears the way for it."
EPILOG: Final = (
    "Prints one line of JSON, which is the container's termination message as well. Exit status: 0 done; 20 what is in "
    "the way goes by itself; 30 the node is at fault."
)
LOOK_SECONDS: Final = 120


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION, epilog=EPILOG)
    verbs = made.add_subparsers(dest="verb", required=True)
    look = verbs.add_parser("look", help="say what is on the node; changes nothing", epilog=EPILOG)
    prepare = verbs.add_parser("prepare", help="unload what is in the driver's way, or say why not", epilog=EPILOG)
    for each in (look, prepare):
        add_path_flags(each)
        about = "file that gets the line as well (default: %(default)s, where there is one)"
        each.add_argument("--message", type=Path, default=Path("/dev/termination-log"), help=about)
    prepare.add_argument("--run", type=Path, default=Path(files.RUN), help=f"the host's {files.RUN}")
    prepare.add_argument("--digest", required=True, help="DRIVER_CONFIG_DIGEST of the driver that is to come")
    prepare.add_argument("--mode", choices=("Compiled", "Precompiled"), required=True, help="how its modules come")
    prepare.add_argument("--version", default="", help="its version or branch (default: any)")
    prepare.add_argument("--mofed", choices=("host", "container"), default="", help="whose MOFED is to be loaded first")
    about = "file to write where the node needs a reboot, for programs that read it"
    prepare.add_argument("--reboot-sentinel", type=Path, help=about)
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    args = parser().parse_args(list(sys.argv[1:] if argv is None else argv))
    if args.verb == "look":
        signal.alarm(LOOK_SECONDS)  # a file system that does not answer is no reason to wait for ever
        line = message.line(looking.observe(host_paths(args)))
        signal.alarm(0)
        _emit(args, line)
        return DONE
    said = _prepare(args)
    _emit(args, message.line(said))
    if said.reason == "RebootRequired" and args.reboot_sentinel is not None:
        args.reboot_sentinel.touch()
    return decide.exit_code(said)


def _prepare(args: argparse.Namespace) -> Prepared:
    wanted = decide.Wanted(args.digest, args.mode == "Compiled", args.version, args.mofed)
    return Preparation(host_paths(args), args.run, wanted, Kernel(), Clock(time.monotonic, time.sleep))()


def _emit(args: argparse.Namespace, line: str) -> None:
    sys.stdout.write(f"{line}\n")
    if args.message.exists():
        args.message.write_text(line, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run())
