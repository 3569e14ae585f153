"""A real etcd and kube-apiserver, which can be killed, stopped and compacted.

`sim.controlplane` runs it and starts a killed
API server anew by itself; this adds what faults need and an administrator with a token, so
that the same identity works through a proxy that ends TLS.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from sim import controlplane

APISERVER = "kube-apiserver"
START_SECONDS = 180.0
"""Until a killed API server is taken for one that does not come back, on a machine that does other work."""
_POLL_SECONDS = 0.03

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "{url}", certificate-authority: "{ca}"}}}}]
users: [{{name: test, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
"""


@dataclass(frozen=True)
class Server:
    """A control plane of etcd and an API server."""

    plane: controlplane.ControlPlane
    token: str
    """Of an administrator."""

    @property
    def url(self) -> str:
        """The API server's URL."""
        return self.plane.server

    @property
    def server_files(self) -> tuple[Path, Path]:
        """Certificate and key of a server on loopback, for proxies."""
        return self.plane.ca.with_name("server.crt"), self.plane.ca.with_name("server.key")

    def trust(self) -> ssl.SSLContext:
        """Verifies the API server."""
        return ssl.create_default_context(cafile=str(self.plane.ca))

    def kubeconfig(self, path: Path, *, url: str | None = None, token: str | None = None) -> Path:
        """Write a kubeconfig for this server or a proxy before it."""
        path.write_text(KUBECONFIG.format(url=url or self.url, ca=self.plane.ca, token=token or self.token))
        return path

    def pid(self, process: str = APISERVER) -> int:
        """The process's id now; 0 while it is down."""
        state = controlplane.status(self.plane.dir).processes.get(process)
        return state.pid if state else 0

    def send(self, number: signal.Signals, process: str = APISERVER) -> None:
        """Send a signal to the API server."""
        os.kill(self.pid(process), number)

    async def restart(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the API server and wait until its successor is ready."""
        old = self.pid()
        os.kill(old, number)
        await self.replaced(old)

    async def replaced(self, old: int) -> None:
        """Wait until the API server is ready as another process than `old`; raises TimeoutError or UserError."""
        async with asyncio.timeout(START_SECONDS):
            while self.pid() in {0, old}:  # noqa: ASYNC110 - what another process does is polled
                await asyncio.sleep(_POLL_SECONDS)
        await asyncio.to_thread(controlplane.wait_ready, self.plane.dir, APISERVER, START_SECONDS)

    async def compact(self) -> int:
        """Make etcd forget all history; returns the revision that is left."""
        etcd = f"http://127.0.0.1:{self.plane.ports['etcd']}/v3/kv"
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{etcd}/range", json={"key": "AA=="}) as answer:
                revision = int((await answer.json())["header"]["revision"])
            compaction = {"revision": revision, "physical": True}
            async with session.post(f"{etcd}/compaction", json=compaction) as answer:
                assert answer.status == 200, await answer.text()
        return revision
