"""The command line behind the Makefile: `python -m sim up|down|status|demo`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tools.errors import UserError

RUN = Path(".run")
PROFILE_HELP = (
    "their shapes, as h100-sxm-8=2,no-gpu=5; a wrong one lists them; l40s-4@ubuntu24.04+bare is one of that system,"
    " without a driver"
)
_HALF = "half up: a `make up` is at work or did not come to its end; in the latter case `make down` ends what is there"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sim",
        description="A real Kubernetes control plane with simulated GPU nodes, on this machine.",
    )
    parser.add_argument("--dir", type=Path, default=RUN, help="where its data, logs and kubeconfig go (default: .run)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a cluster with the module on it, and leave it running")
    up.add_argument("--nodes", type=_count, default=4, help="simulated GPU nodes (default: 4; 0 to add your own)")
    up.add_argument("--profile", default="", help=PROFILE_HELP)
    up.add_argument("--driver", action="store_true", help="let the module bring drivers onto nodes that have none")
    commands.add_parser("down", help="end the cluster of this directory and remove its data")
    show = commands.add_parser("status", help="what runs in this directory")
    show.add_argument("-o", "--output", choices=("text", "json"), default="text")
    demo = commands.add_parser("demo", help="play the story of one card, from the node to a running pod")
    demo.add_argument("--driver", action="store_true", help="play how a bare node gets its driver")
    demo.add_argument("--keep", action="store_true", help="leave the cluster up afterwards")
    return parser


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"a number of nodes is 0 or more, got {text!r}")
    return int(text)


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit status. A user's mistake is a sentence, not a trace."""
    args = _parser().parse_args(argv)
    try:
        return _run(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; `make down` ends what was started", file=sys.stderr)
        return 130


def _run(args: argparse.Namespace) -> int:
    match args.command:
        case "up":
            return _up(args)
        case "down":
            return _down(args)
        case "status":
            return _status(args)
        case _:
            from sim.demo import story

            return story.play(args.dir, keep=args.keep, driver=args.driver)


def _up(args: argparse.Namespace) -> int:
    from sim import controlplane
    from sim.cluster import Options, bring_up, is_whole
    from sim.nodes.manifests import node_manifests, parse_profile
    from tools import programs

    node_manifests(parse_profile(args.profile, args.nodes))  # a wrong name is told before anything is started
    if is_whole(args.dir):
        print(f"it is up already: export KUBECONFIG={_absolute(args.dir)}/kubeconfig; `make down` ends it")
        return 0
    if controlplane.status(args.dir).up:
        raise UserError(
            f"{_absolute(args.dir)} is only half up: a control plane runs, and not all of the module",
            expected="nothing, or a cluster that came up to its end",
            do="`make down` first, unless another `make up` is at work: then wait for it",
        )
    try:
        options = Options(nodes=args.nodes, profile=args.profile, driver=args.driver)
        plane = bring_up(args.dir, options, programs.for_stream())
    except UserError:
        if controlplane.status(args.dir).up:
            logs = _absolute(args.dir) / "logs"
            print(f"not everything came up; logs are in {logs}, and `make down` ends the rest", file=sys.stderr)
        raise
    print(
        f"\nup: {plane.server}\n"
        f"  export KUBECONFIG={plane.kubeconfig} PATH={plane.kubectl.parent}:$PATH\n"
        "  kubectl get gpudevices,gpunodeinventories\n"
        f"  logs: {plane.dir}/logs/<process>.log\n"
        "  make down   ends it"
    )
    return 0


def _down(args: argparse.Namespace) -> int:
    from sim import controlplane

    was = controlplane.down(args.dir)
    print("down: everything that was started has ended" if was else f"nothing is up in {_absolute(args.dir)}")
    return 0


def _status(args: argparse.Namespace) -> int:
    from sim import controlplane
    from sim.cluster import is_whole

    found, whole = controlplane.status(args.dir), is_whole(args.dir)
    half = found.up and not whole
    rows = [
        {"process": name, "phase": process.phase, "restarts": process.restarts}
        for name, process in sorted(found.processes.items())
    ]
    if args.output == "json":
        server = found.control_plane.server if found.control_plane else None
        print(json.dumps({"up": whole, "half_up": half, "server": server, "processes": rows}, indent=1))
    else:
        nothing = f"nothing is up in {_absolute(args.dir)}; `make up` starts it"
        print("up" if whole else _HALF if half else nothing)
        for row in rows:
            print(f"  {row['process']:28} {row['phase']:10} restarts {row['restarts']}")
    return 0 if whole else 3


def _absolute(path: Path) -> Path:
    return path.resolve()


if __name__ == "__main__":
    sys.exit(main())
