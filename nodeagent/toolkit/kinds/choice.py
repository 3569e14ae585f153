"""The kind of runtime that a node's pods are made by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent.toolkit import kubelet
from nodeagent.toolkit.config.plan import ByHand
from nodeagent.toolkit.host import SOCKET
from nodeagent.toolkit.kinds.containerd import Containerd
from nodeagent.toolkit.kinds.crio import Crio
from nodeagent.toolkit.kinds.docker import Docker
from nodeagent.toolkit.kinds.rancher import Rancher

if TYPE_CHECKING:
    from nodeagent.toolkit.host import Host
    from nodeagent.toolkit.kinds.base import Kind

KINDS: dict[str, type[Kind]] = {kubelet.CRIO: Crio, kubelet.DOCKER: Docker, kubelet.RANCHER: Rancher}


def of(host: Host) -> Kind:
    """The runtime that kubelet uses; raises ByHand where it is none that is configured here."""
    path = kubelet.used(host)
    if host.at(path) == host.at(host.socket):
        return Containerd(host.root, host.proc, host.socket)
    for known, kind in KINDS.items():
        if host.at(known) == host.at(path):
            return kind(host.root, host.proc, known)
    where = kubelet.named(host, path)
    raise ByHand(f"kubelet uses {where}, and not {host.socket}; configure that runtime by hand")


def all_of(host: Host) -> list[Kind]:
    """Each kind of which something may be left on the node, whatever kubelet uses now."""
    made = [kind(host.root, host.proc, known) for known, kind in KINDS.items()]
    return [Containerd(host.root, host.proc, host.socket or SOCKET), *made]
