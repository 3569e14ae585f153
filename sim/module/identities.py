"""A kubeconfig for each process of the module, with its own ServiceAccount's token.

The processes run outside pods here, so nobody projects a token for them; it is asked for
with a TokenRequest, as kubelet would, and is valid for a month.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.api import names
from sim.controlplane import ControlPlane

if TYPE_CHECKING:
    from sim.module.install import Tools

MONTH = 30 * 24 * 3600


def kubeconfig_for(
    plane: ControlPlane, tools: Tools, account: str, folder: Path, node: tuple[str, str] | None = None
) -> Path:
    """Write the kubeconfig of a ServiceAccount of the module; returns its path.

    `node`: name and uid of the Node that the token names, as that of a pod there does.
    """
    spec: dict[str, Any] = {"expirationSeconds": MONTH}
    if node is not None:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node[0], "uid": node[1]}
    request = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    path = f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts/{account}/token"
    answer = tools.run("create", "--raw", path, "--filename=-", stdin=request)
    token = json.loads(answer)["status"]["token"]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sim", "cluster": {"server": plane.server, "certificate-authority": str(plane.ca)}}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": account}}],
        "current-context": "sim",
    }
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{account}.kubeconfig"
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(config, file)
    return target
