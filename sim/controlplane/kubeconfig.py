"""Renders kubeconfigs; JSON, which is YAML. Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any


def render(
    *,
    server: str,
    ca: bytes,
    user: str,
    cert: bytes | None = None,
    key: bytes | None = None,
    token: str = "",
) -> str:
    """Return a kubeconfig that carries all it needs, by client certificate or by token."""
    credentials: dict[str, Any] = {"token": token} if token else {}
    if cert is not None and key is not None:
        credentials = {"client-certificate-data": _b64(cert), "client-key-data": _b64(key)}
    name = "gpu-control-plane"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": _b64(ca)}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return json.dumps(document, indent=1) + "\n"


def _b64(data: bytes) -> str:
    return b64encode(data).decode()
