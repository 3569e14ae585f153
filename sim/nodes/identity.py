"""The node agents' identities: ServiceAccount tokens bound to a Node, as a pod's projected token names it.

One `Identities` for the process. All tokens share the connections of one client without
credentials; a token is asked for when it is first needed, kept, and asked for anew when four
fifths of its life are over. Concurrent users of one token wait for one request.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names as api
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.runtime.client import Client

LIFETIME = 3600  # seconds; the API server gives no less than 600
_RENEW = 0.8


@dataclass
class _Token:
    """One identity: its token and the client that uses it."""

    client: Client
    text: str = ""
    renew_at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Identities:
    """Clients under the ServiceAccounts of node agents, one for each account and node."""

    def __init__(self, admin: Client) -> None:
        """Prepare; `admin` asks for the tokens."""
        self._admin, self._base = admin, admin.anonymous()
        self._tokens: dict[tuple[str, str, str], _Token] = {}

    def client(self, account: str, node: Node) -> Client:
        """The API server as that ServiceAccount on that node; a node made anew is another one."""
        key = (account, node.name, node.metadata.uid)
        if key not in self._tokens:
            self._tokens[key] = _Token(self._base.with_token(partial(self._text, key)))
        return self._tokens[key].client

    def forget(self, node: str) -> None:
        """Drop the tokens of a node: it is gone, or the API server refused one."""
        for key in [key for key in self._tokens if key[1] == node]:
            del self._tokens[key]

    async def close(self) -> None:
        """End the connections."""
        await self._base.close()

    async def _text(self, key: tuple[str, str, str]) -> str:
        token = self._tokens.get(key)
        if token is None:  # forgotten while a request with it was on its way
            token = self._tokens[key] = _Token(self._base.with_token(partial(self._text, key)))
        async with token.lock:
            if time.time() >= token.renew_at:
                status = await self._request(*key)
                now, expires = time.time(), seconds(status["expirationTimestamp"])
                token.text, token.renew_at = status["token"], now + _RENEW * (expires - now)
            return token.text

    async def _request(self, account: str, node: str, uid: str) -> dict[str, Any]:
        spec = {
            "audiences": [],
            "expirationSeconds": LIFETIME,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid},
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{api.NAMESPACE}/serviceaccounts/{account}/token"
        answer: dict[str, Any] = orjson.loads(await self._admin.request("POST", path, body=body))["status"]
        return answer
