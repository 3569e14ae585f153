"""The command line of what moves a cluster: `backup`, `restore`, `import`, `images`, `takeover`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, TypeAlias

from kubectl_gpu import completion
from kubectl_gpu.output import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    Add: TypeAlias = Callable[..., argparse.ArgumentParser]
    """Makes a command of its name and what it does."""


def add(commands: Any, make: Add) -> None:
    """Add the commands; `make` makes one."""
    _backup(commands, make)
    _import(commands, make)
    _images(commands, make)
    _takeover(commands, make)


def _backup(commands: Any, make: Add) -> None:
    command = make(commands, "backup", "print pools, drivers, settings, and what people said of cards, as a file")
    command.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="default: yaml")
    command = make(
        commands, "restore", "say what a file of kubectl gpu backup would change here; with --apply change it"
    )
    command.add_argument("-f", "--filename", required=True, metavar="FILE", help="the file; - for standard input")
    _applied(command)
    command.add_argument("-w", "--wait", action="store_true", help="with --apply: until the cards are found, too")
    command.add_argument("--timeout", type=seconds, default=60.0, help="how long to wait, in seconds (60)")


def _applied(command: argparse.ArgumentParser) -> None:
    command.add_argument("--apply", action="store_true", help="write it; without this nothing is written")
    command.add_argument("--overwrite", action="store_true", help="replace what is there and differs")


IMPORT = """Prints GPUDrivers (paused), a ModuleConfig and GPUPools (into which no card goes by itself) that do what
ClusterPolicy and NVIDIADrivers ask for, and on the error stream what has no counterpart, why, and what is to be done.
Files hold objects of GPU Operator's, the ConfigMaps that they name, Nodes, or values of its chart.
"""


def _import(commands: Any, make: Add) -> None:
    command = make(commands, "import", "print, or write, what another operator was asked for", epilog=IMPORT)
    command.add_argument("what", choices=("gpu-operator",), metavar="gpu-operator", help="NVIDIA's GPU Operator")
    about = "a file instead of the cluster, may be given several times; - for standard input"
    command.add_argument("-f", "--filename", action="append", metavar="FILE", help=about)
    command.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json", "report"),
        default="yaml",
        help="default: yaml; report: objects and remarks in one JSON",
    )
    command.add_argument("--operator-namespace", metavar="NAME", help="where the operator runs (its status says it)")
    _applied(command)


def _images(commands: Any, make: Add) -> None:
    command = make(commands, "images", "list the images of the module and of what it runs, for a mirror")
    about = "instead of the cluster: the chart's values, a ModuleConfig, GPUDrivers; may be given several times"
    command.add_argument("-f", "--filename", action="append", metavar="FILE", help=about)
    about = "of drivers: for this system, too, such as ubuntu24.04"
    command.add_argument("--system", action="append", metavar="SYSTEM", help=about)
    about = "of drivers: for this kernel of those systems, too"
    command.add_argument("--kernel", action="append", metavar="RELEASE", help=about)
    command.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="default: text")


TAKEOVER = """takeover [status]                 how far each node is
takeover begin -f saved.yaml      stop GPU Operator, leave its pods where they are, adopt its drivers; saves what goes
takeover nodes [node…]            let nodes go over whose cards no pod has by the operator's plugin; again for others
takeover finish                   take the operator's labels off the nodes
takeover back -f saved.yaml       give the cluster back to the operator

No pod is restarted, and no node drained. See administration.md, Move from GPU Operator.
"""
TAKEOVER_STEPS = ("status", "begin", "nodes", "finish", "back")


def _takeover(commands: Any, make: Add) -> None:
    command = make(commands, "takeover", "go from NVIDIA's GPU Operator to this module", epilog=TAKEOVER)
    command.add_argument("step", nargs="?", choices=TAKEOVER_STEPS, default="status", help="default: status")
    only: Any = command.add_argument("names", nargs="*", metavar="node", help="status, nodes: only these")
    only.completer = completion.nodes
    command.add_argument("-f", "--filename", metavar="FILE", help="begin, back: where the operator's objects are saved")
    command.add_argument("--timeout", type=seconds, default=60.0, help="begin, nodes: seconds to wait for each (60)")
    command.add_argument("-o", "--output", choices=(*TABLES, "json", "yaml"), default="table", help="default: table")


def seconds(text: str) -> float:
    """A time as an option has it; raises ArgumentTypeError."""
    try:
        return max(0.0, float(text.removesuffix("s")))
    except ValueError:
        msg = f"a time is a number of seconds, such as 60, not {text!r}"
        raise argparse.ArgumentTypeError(msg) from None
