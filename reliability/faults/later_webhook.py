"""A mutating webhook of somebody else that the API server asks after ours: it adds a scheduling gate to pods.

Ours has reserved a card by then, for a pod that cannot use it while the gate is there. It is asked for pods with the
label `LABEL` alone. Runs in the event loop of the environment, as long as that.
"""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web

from controllers.api.resources import MUTATING_WEBHOOK

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from reliability.kit.apiserver import Server

NAME: Final = "zz-later.webhook.test"
"""Configurations are asked in the order of their names."""
LABEL: Final = {"test/hold": "later"}
GATE: Final = "test/later"


class LaterWebhook:
    """The server, and its registration."""

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None

    async def start(self, server: Server, client: Client, manager: str) -> None:
        """Listen on loopback, and have the API server ask."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*server.server_files)
        app = web.Application()
        app.router.add_post("/", _gate)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        bundle = base64.b64encode(server.plane.ca.read_bytes()).decode()
        port = self._runner.addresses[0][1]
        await client.apply(MUTATING_WEBHOOK, NAME, _configuration(port, bundle), manager=manager)

    async def stop(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()


def _configuration(port: int, bundle: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "objectSelector": {"matchLabels": LABEL},
        "rules": [rule],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
    }
    return {
        "apiVersion": MUTATING_WEBHOOK.api_version,
        "kind": MUTATING_WEBHOOK.kind,
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }


async def _gate(request: web.Request) -> web.Response:
    review = orjson.loads(await request.read())
    gates = review["request"]["object"]["spec"].get("schedulingGates", [])
    patch = [{"op": "add", "path": "/spec/schedulingGates", "value": [*gates, {"name": GATE}]}]
    answer = {
        "uid": review["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(orjson.dumps(patch)).decode(),
    }
    return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer})
