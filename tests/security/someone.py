"""Anybody at the scratch API server: an administrator who speaks in another's name."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.kit.waiting import PATIENCE
from tests.templates.harness import Answer

if TYPE_CHECKING:
    from tests.templates import harness


@dataclass(frozen=True)
class Someone:
    """A user and groups, as the API server would have found them by a certificate or a token."""

    kube: harness.Kube
    user: str
    groups: tuple[str, ...] = ("system:authenticated",)

    @classmethod
    def kubelet(cls, kube: harness.Kube, node: str) -> Someone:
        """Whoever has the client certificate of a node's kubelet."""
        return cls(kube, f"system:node:{node}", ("system:nodes", "system:authenticated"))

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Answer:
        """One request; refusals are answers, not exceptions."""
        where = urlsplit(self.kube.server)
        tls = ssl.create_default_context(cafile=str(self.kube.ca))
        connection = http.client.HTTPSConnection(str(where.hostname), where.port, timeout=PATIENCE, context=tls)
        try:
            connection.putrequest(method, path)
            data = b"" if body is None else json.dumps(body).encode()
            for key, value in (
                ("Authorization", f"Bearer {self.kube.token}"),
                ("Content-Type", kind),
                ("Content-Length", str(len(data))),
                ("Impersonate-User", self.user),
                *(("Impersonate-Group", group) for group in self.groups),
            ):
                connection.putheader(key, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            text = answer.read()
            try:
                return Answer(answer.status, json.loads(text), answer.headers)
            except ValueError:
                return Answer(answer.status, {"message": text.decode()}, answer.headers)
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        """Read."""
        return self.call("GET", path)

    def create(self, path: str, body: object) -> Answer:
        """Create."""
        return self.call("POST", path, body)

    def merge(self, path: str, body: object) -> Answer:
        """JSON merge patch."""
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> Answer:
        """Delete."""
        return self.call("DELETE", path)
