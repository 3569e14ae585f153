"""nodeagent toolkit: flags and wiring only.

One task looks again and again, in a thread, since files, programs and the runtime are asked one after the other.
SIGTERM: the look under way is awaited, then the API server is asked whether the pod ends for good.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from controllers.api import names
from controllers.api.runtime_state import AWAITING_TURN, READY
from controllers.runtime import logs
from controllers.runtime.errors import ConfigurationError
from controllers.runtime.health import add_ports
from controllers.runtime.scraping import open_ports
from nodeagent.host.paths import seconds
from nodeagent.host.program import STALL_INTERVAL
from nodeagent.toolkit import leaving, turn
from nodeagent.toolkit.host import SOCKET, Host
from nodeagent.toolkit.keeper import Keeper
from nodeagent.toolkit.restart import Timeouts
from nodeagent.toolkit.state import STATE_FILE, State, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = (
    "Tells the node's container runtime of NVIDIA's handlers by the least change, and proves that it took them."
)
EPILOG = (
    "Ends with status 0 when told to (SIGTERM); --once and --remove: 1 where it could not be done, with the reason."
)
TURN_SECONDS = 5.0
"""Between two looks while the node waits for its turn."""
log = structlog.get_logger()


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = argparse.ArgumentParser(prog=names.MANAGER_TOOLKIT, description=DESCRIPTION, epilog=EPILOG)
    env, usual = os.environ, Timeouts()
    made.add_argument("--kubeconfig", type=Path, help="kubeconfig file (default: the pod's own credentials)")
    made.add_argument("--node", default=env.get("NODE_NAME", ""), help="name of this node (default: NODE_NAME)")
    add_ports(made)
    made.add_argument("--log-level", choices=sorted(logs.LEVELS), default="Info")
    once = made.add_mutually_exclusive_group()
    once.add_argument("--once", action="store_true", help="see to it once, say what came of it, and end")
    once.add_argument("--remove", action="store_true", help="take away all that is the module's, and end")
    root, proc = Path(env.get("HOST_ROOT") or "/"), Path(env.get("HOST_PROC") or "/proc")
    made.add_argument("--root", type=Path, default=root, help="the host's root (default: HOST_ROOT, else /)")
    made.add_argument("--proc", type=Path, default=proc, help="procfs of the host (default: HOST_PROC, else /proc)")
    made.add_argument("--socket", default=SOCKET, help=f"containerd's socket on the host (default: {SOCKET})")
    about = "whether the runtime's configuration is the module's to change (default: Auto)"
    made.add_argument("--runtime-config", choices=("Auto", "Never"), default="Auto", help=about)
    timing = made.add_argument_group("timing, in seconds")
    timing.add_argument("--period", type=seconds, default=30.0, help="between two looks")
    about = "without a container in the making, before the runtime is restarted"
    timing.add_argument("--quiet", type=seconds, default=usual.quiet, help=about)
    about = "after which it is restarted though one is in the making"
    timing.add_argument("--busy", type=seconds, default=usual.busy, help=about)
    about = "for a restarted runtime to serve; then the former files are put back"
    timing.add_argument("--serving-deadline", type=seconds, default=usual.serving, help=about)
    return made


def keeper(args: argparse.Namespace) -> Keeper:
    """What keeps the node's runtime."""
    timeouts = Timeouts(args.quiet, args.busy, args.serving_deadline)
    return Keeper(Host(args.root, args.proc, args.socket), timeouts, writes=args.runtime_config == "Auto")


async def live(args: argparse.Namespace) -> None:
    """Look until SIGTERM; raises ConfigurationError."""
    if not args.node:
        raise ConfigurationError("which node is this? Set NODE_NAME, or give --node; --once and --remove need neither")
    stop, keeping, loop = asyncio.Event(), keeper(args), asyncio.get_running_loop()
    # Asked in the thread that looks at the runtime, and answered by this one.
    asked = partial(turn.has_turn, args.node, args.kubeconfig)
    keeping.may_restart = lambda: asyncio.run_coroutine_threadsafe(asked(), loop).result()
    others = partial(turn.is_elsewhere, args.node, args.kubeconfig)
    keeping.is_elsewhere = lambda: asyncio.run_coroutine_threadsafe(others(), loop).result()
    health, scraping = await open_ports(names.MANAGER_TOOLKIT, args)

    def end() -> None:
        stop.set()
        keeping.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    health.stall_interval = STALL_INTERVAL
    health.check("the container runtime knows NVIDIA's handlers", lambda: keeping.state.is_ready)
    health.check("not stopping", lambda: not stop.is_set())
    await health.start()
    log.info("started", health=f"{args.health_host}:{health.port}", pid=os.getpid())
    beside = [asyncio.create_task(health.watch_loop())]
    beside += [asyncio.create_task(scraping.run())] if scraping is not None else []
    told: State | None = None
    try:
        while not stop.is_set():
            state = await asyncio.to_thread(keeping.reconcile)
            if state != told:
                (log.info if state.phase == READY else log.warning)("the runtime", state=state.phase, why=state.reason)
                told = state
            _tell(keeping, state)
            waits = state.phase == AWAITING_TURN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(args.period, TURN_SECONDS) if waits else args.period):
                    await stop.wait()
        if await leaving.for_good(args.node, args.kubeconfig):
            gone = await asyncio.to_thread(keeping.remove)
            _tell(keeping, None)
            log.info("the toolkit leaves this node", state=gone.phase, why=gone.reason)
    finally:
        for task in beside:
            task.cancel()
        await health.stop()
        if scraping is not None:
            await scraping.close()


def _tell(keeping: Keeper, state: State | None) -> None:
    """For the node's report; a host that cannot be written to is told of in the log alone."""
    try:
        tell(keeping.host, state)
    except OSError as error:
        log.warning("what was found cannot be told on the host", path=STATE_FILE, why=str(error))


def run(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    made = parser()
    args = made.parse_args(list(sys.argv[1:] if argv is None else argv))
    logs.configure(made.prog, args.log_level)
    if args.once or args.remove:
        keeping = keeper(args)
        state = keeping.remove() if args.remove else keeping.reconcile()
        sys.stdout.write(f"{state.phase}: {state.reason}\n" if state.reason else f"{state.phase}\n")
        return 0 if state.phase == READY else 1
    try:
        asyncio.run(live(args))
    except (ConfigurationError, OSError) as error:
        sys.stderr.write(f"{made.prog}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
