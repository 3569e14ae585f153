"""Configuration files of container runtimes on the host, and the settings read from them.

containerd's own place, those of K3s and RKE2, CRI-O's, and the folders of drop-ins. A configuration that is made by
flags, held in memory or imported from elsewhere is not seen.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodeagent.host.hostfiles import Reader

CONTAINERD = "etc/containerd/config.toml"
CONFIGURATIONS = (
    CONTAINERD,
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "etc/crio/crio.conf",
)
DROP_INS = ("etc/containerd/conf.d", "etc/containerd/config.d", "etc/crio/crio.conf.d")
CONFIGURATION_MAX = 1024 * 1024


def configurations(host: Reader) -> dict[str, dict[str, Any]]:
    """What each of the files says, by path in the order in which runtimes read them: drop-ins last, by their names."""
    paths = [*CONFIGURATIONS]
    for folder in DROP_INS:
        paths += [f"{folder}/{name}" for name in host.names(folder) if name.endswith((".toml", ".conf"))]
    read = ((path, host.text(path, CONFIGURATION_MAX)) for path in paths)
    return {path: _parsed(text) for path, text in read if text}


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
