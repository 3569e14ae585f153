"""`python -m sim.module.balance --port N --health-port N --backend PORT=READY_URL …`: the balancer as a process.

Runs until SIGTERM. `/readyz` at the health port says whether a replica is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from controllers.api import names
from sim.controlplane import ProcessSpec, Ready
from sim.module.balancer import HOST, Backend, Balancer
from sim.module.processes import ENV, STAGE, Timers, module_process

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "webhook-balancer"


def webhook_processes(
    kubeconfig: Path, port: int, ports: Sequence[int], timers: Timers, *flags: str
) -> list[ProcessSpec]:
    """Replicas of the webhook, and the balancer before them at `port`.

    `ports`: one for the balancer's health, then two for each replica.
    """
    health, pairs = ports[0], list(zip(ports[1::2], ports[2::2], strict=True))
    backends = [Backend(there, f"http://{HOST}:{ready}/readyz") for there, ready in pairs]
    # Whoever is on the machine reaches its port.
    flags = (f"--host={HOST}", "--open-setting=webhook.askedFrom", *flags)
    specs = [
        module_process(names.WEBHOOK, kubeconfig, ready, timers, f"--port={there}", *flags, replica=number)
        for number, (there, ready) in enumerate(pairs, 1)
    ]
    return [balancer_process(port, health, backends), *specs]


def balancer_process(port: int, health: int, backends: Sequence[Backend]) -> ProcessSpec:
    """How it is started; it finds its replicas by itself, whenever they come."""
    chosen = (f"--backend={backend.port}={backend.ready_url}" for backend in backends)
    argv = (sys.executable, "-m", "sim.module.balance", f"--port={port}", f"--health-port={health}", *chosen)
    return ProcessSpec(
        name=NAME,
        argv=argv,
        env=ENV,
        ready=Ready(urls=(f"http://{HOST}:{health}/readyz",)),
        stage=STAGE,
        ports={"https": port, "health": health},
    )


def _backend(text: str) -> Backend:
    port, _, url = text.partition("=")
    if not port.isdigit():
        raise argparse.ArgumentTypeError(f"a backend is PORT=READY_URL, got {text!r}")
    return Backend(int(port), url)


async def _run(args: argparse.Namespace) -> None:
    stop, balancer = asyncio.Event(), Balancer(args.backend)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(status=200 if balancer.ready else 503)

    app = web.Application()
    app.router.add_get("/readyz", readyz)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await balancer.start(args.port)
        await web.TCPSite(runner, HOST, args.health_port).start()
        await stop.wait()
    finally:
        await balancer.stop()
        await runner.cleanup()


def main(argv: list[str] | None = None) -> None:
    """Balance."""
    parser = argparse.ArgumentParser(prog="sim.module.balance", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="connections are taken here")
    parser.add_argument("--health-port", type=int, required=True)
    parser.add_argument("--backend", type=_backend, action="append", required=True, metavar="PORT=READY_URL")
    asyncio.run(_run(parser.parse_args(argv)))


if __name__ == "__main__":
    main()
