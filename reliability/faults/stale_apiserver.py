"""A second API server whose etcd falls silent, so that one process reads stale data.

etcd is reached through a balancer of ours that can hold what travels. While it is held, that API server goes on
serving watches out of its cache, which knows nothing new, and what is to be read from the quorum waits; writes go to
the real one. It is there for one run: nothing else is to share the machine with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sim import controlplane
from sim.controlplane import components
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.module.balancer import Backend, Balancer
from tools import programs

if TYPE_CHECKING:
    from reliability.faults.environment import Environment

NAME: Final = "kube-apiserver-stale"
START_SECONDS: Final = 60.0


class StaleAPIServer:
    """The second API server."""

    def __init__(self) -> None:
        self.url = ""
        self._etcd: Backend | None = None
        self._balancer: Balancer | None = None

    async def start(self, environment: Environment) -> None:
        """Bring it up; nothing where it is up."""
        if self.url:
            return
        plane, (port,) = environment.plane, free_ports(1)
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

    async def stop(self, environment: Environment) -> None:
        """Take it down."""
        if self._etcd is not None:
            self.freeze(hold=False)
        if self.url:
            await asyncio.to_thread(controlplane.remove_process, environment.plane.dir, NAME)
        if self._balancer is not None:
            await self._balancer.stop()
        self.url, self._etcd, self._balancer = "", None, None

    def freeze(self, *, hold: bool) -> None:
        """Let nothing travel between it and etcd."""
        assert self._etcd is not None
        self._etcd.hold(hold=hold)
