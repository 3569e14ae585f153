"""The exporters of all simulated nodes behind one HTTP server: `/nodes/<node>/metrics`.

A node answers while its dcgm-exporter pod is ready there and its driver is loaded, else 503; 404 for a node
that is not simulated. A text is made anew when its node or who has its cards has changed, and counts its scrapes. At
`/kube-state-metrics` stands what kube-state-metrics would say of the cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from controllers.runtime.errors import ConfigurationError
from sim.nodes import dcgm, faults, podresources, statemetrics
from tools.errors import UserError

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from sim.nodes.cluster import Cluster
    from sim.nodes.podresources import User
    from sim.nodes.report import Report

log = structlog.get_logger()
PATH = "/nodes/{node}/metrics"
STATE_PATH = "/kube-state-metrics"
HELD_SECONDS = 60.0
"""How long a silent exporter keeps a connection."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GARBAGE = "<html><body><h1>502 Bad Gateway</h1>DCGM_FI_DEV_GPU_TEMP{gpu= is not here</body></html>\n"


@dataclass(slots=True)
class _Exporter:
    """One node's, as long as neither the node nor its report nor its cards' users change."""

    node: Node
    report: Report | None
    users: dict[str, User]
    text: dcgm.Text
    fault: str
    driver: bool
    scrapes: int = 0


class Exporters:
    """The server."""

    def __init__(self, cluster: Cluster, port: int, host: str = "127.0.0.1") -> None:
        """Prepare; port 0 lets the system choose, and `port` is it from `start` on."""
        self._cluster, self._host, self.port = cluster, host, port
        self._known: dict[str, _Exporter] = {}
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Serve until `stop`; raises ConfigurationError where the port is taken."""
        app = web.Application()
        app.router.add_get(PATH, self._scraped)
        app.router.add_get(STATE_PATH, self._state)
        # A scraper that gives up on a silent exporter must not leave its answer behind.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self.port).start()
        except OSError as error:
            msg = f"cannot listen on {self._host}:{self.port}: {error.strerror}. Give --exporter-port another port."
            raise ConfigurationError(msg) from error
        self.port = self._runner.addresses[0][1]
        log.info("exporters", url=f"http://{self._host}:{self.port}{PATH}")

    async def stop(self) -> None:
        """End the server."""
        if self._runner is not None:
            await self._runner.cleanup()

    def forget(self, node: str) -> None:
        """A node that is gone."""
        self._known.pop(node, None)

    async def _state(self, _: web.Request) -> web.Response:
        text = statemetrics.text(self._cluster.nodes, self._cluster.pods)
        return web.Response(text=text, headers={"Content-Type": CONTENT_TYPE})

    async def _scraped(self, request: web.Request) -> web.Response:
        name = request.match_info["node"]
        exporter = self._exporter(name)
        if exporter is None:
            return web.Response(status=404, text=f"there is no simulated node {name}\n")
        if self._cluster.exporter(name) is None or not exporter.driver or exporter.fault == faults.DOWN:
            return web.Response(status=503, text=f"no exporter serves on node {name}\n")
        if exporter.fault == faults.SILENT:
            await asyncio.sleep(HELD_SECONDS)
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=504)
        if exporter.fault == faults.GARBAGE:
            return web.Response(text=GARBAGE, content_type="text/html")
        exporter.scrapes += 1
        body = b"" if exporter.fault == faults.EMPTY else exporter.text.at(exporter.scrapes)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    def _exporter(self, name: str) -> _Exporter | None:
        """The exporter of a node as it is now; None where the node is none of ours."""
        node, report = self._cluster.node(name), self._cluster.agent_report(name)
        if node is None:
            self.forget(name)
            return None
        pod = self._cluster.exporter(name)
        users = self._cluster.users(name, podresources.mapped(pod)) if pod is not None else {}
        known = self._known.get(name)
        if known is not None and known.node is node and known.report is report and known.users == users:
            return known
        try:
            machine = self._cluster.machine(node)
        except UserError:  # a shape that is not in the catalogue; the roles tell it
            return None
        scrapes = known.scrapes if known is not None else 0
        text = dcgm.text(name, machine, users)
        made = _Exporter(node, report, users, text, machine.faults.exporter, machine.driver, scrapes)
        self._known[name] = made
        return made
