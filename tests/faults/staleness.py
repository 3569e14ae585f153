"""A second API server whose etcd falls silent: what it says is old, and it says so to one process only.

etcd is reached through a balancer of ours that can hold what travels. While it is held, that API server goes on
serving watches out of its cache, which knows nothing new; writes and single reads go to the real one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sim import controlplane, programs
from sim.controlplane import components
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.module.balancer import Backend, Balancer

if TYPE_CHECKING:
    from tests.faults.ground import Ground

NAME: Final = "kube-apiserver-stale"
FROZEN: Final = 3.0
START_SECONDS: Final = 60.0


class Stale:
    """The second API server; one for a ground, started when first asked for."""

    def __init__(self) -> None:
        self.url = ""
        self._etcd: Backend | None = None
        self._balancer: Balancer | None = None

    async def start(self, ground: Ground) -> None:
        """Bring it up; nothing where it is up."""
        if self.url:
            return
        plane, (port,) = ground.plane, free_ports(1)
        self._etcd = Backend(plane.ports["etcd"])
        self._balancer = Balancer([self._etcd])
        etcd = await self._balancer.start()
        ports = {**plane.ports, NAME: port}
        paths = programs.ensure(["kube-apiserver"])
        context = components.Context(Layout.of(plane.dir), paths, ports)
        spec = components.apiserver(context, [f"--etcd-servers=http://127.0.0.1:{etcd}"], name=NAME)
        controlplane.add_process(plane.dir, spec)
        await asyncio.to_thread(controlplane.wait_ready, plane.dir, NAME, START_SECONDS)
        self.url = f"https://127.0.0.1:{port}"

    def freeze(self, *, hold: bool) -> None:
        """Let nothing travel between it and etcd."""
        assert self._etcd is not None
        self._etcd.hold(hold=hold)


async def stale(ground: Ground, process: str) -> None:
    """The process's watches are served by an API server that hears nothing for a while."""
    server, tap = ground.stale, ground.taps[process]
    await server.start(ground)
    tap.other = server.url
    tap.cut()
    await asyncio.sleep(0.5)  # it watches there now
    server.freeze(hold=True)
    await asyncio.sleep(FROZEN)
    server.freeze(hold=False)
    await asyncio.sleep(0.5)
    tap.other = ""
    tap.cut()
