"""Whether a CRI socket is kubelet's own, by the flags of kubelet's process.

A host may have several: containerd of Docker's package beside CRI-O, or beside K3s' own. Kubelet's command line says
which it uses, else its configuration. Only a process whose root is the host's counts, for a container may call its
program what it likes. A kubelet within another program (K3s, MicroK8s) or in a container is not seen.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from nodeagent.host.yamltext import NotYAMLError, parse
from nodeagent.toolkit.config.sources import ByHand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nodeagent.toolkit.host import Host

OTHERS: Final = {
    "/run/k3s/containerd/containerd.sock": "K3s or RKE2, which find the toolkit by themselves when they start anew",
    "/run/k0s/containerd.sock": "k0s",
    "/var/snap/microk8s/common/run/containerd.sock": "MicroK8s",
    "/run/crio/crio.sock": "CRI-O",
    "/run/cri-dockerd.sock": "Docker",
}
"""Sockets of runtimes that this role does not configure, and whose they are."""
DEFAULT: Final = "/run/containerd/containerd.sock"
"""Where a kubelet looks that was told nothing."""
_ENDPOINT: Final = "containerRuntimeEndpoint"


def demand(host: Host) -> None:
    """Raises ByHand where kubelet uses another runtime than the one at the host's socket, or nobody says which."""
    used, ours = {_socket(host, words) for words in _kubelets(host)}, host.at(host.socket)
    if used and all(host.at(path) != ours for path in used):
        named = ", ".join(_named(host, path) for path in sorted(used))
        raise ByHand(f"kubelet uses {named}, and not {host.socket}; configure that runtime by hand")
    there = ", ".join(_named(host, path) for path in OTHERS if host.at(path).exists())
    if there and not used and not ours.exists():
        raise ByHand(f"the node's runtime is none that is configured here: {there}")
    if there and not used:
        raise ByHand(f"beside {host.socket} there is {there}, and no kubelet says which it uses; configure it by hand")


def flag(words: Sequence[str], *names: str) -> str:
    """What a command line says of a flag, the last time that it says so; empty where it does not."""
    told = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in names and following:
            told = following
        elif word.startswith(tuple(f"{name}=" for name in names)):
            told = word.partition("=")[2]
    return told


def _named(host: Host, path: str) -> str:
    whose = next((whose for other, whose in OTHERS.items() if host.at(other) == host.at(path)), "")
    return f"{path} ({whose})" if whose else path


def _socket(host: Host, words: Sequence[str]) -> str:
    """The socket that a kubelet with this command line uses; raises ByHand where its configuration cannot be read."""
    told = flag(words, "--container-runtime-endpoint")
    if not told:
        found = [endpoint for path in _files(host, words) if (endpoint := _endpoint(host, path))]
        told = found[-1] if found else DEFAULT
    return "/" + told.removeprefix("unix:").lstrip("/")


def _files(host: Host, words: Sequence[str]) -> Iterator[str]:
    """The files of its configuration, the one that counts most last: the file, then the drop-ins by their names."""
    file, folder = flag(words, "--config"), flag(words, "--config-dir")
    dropped = sorted(found.name for found in host.at(folder).glob("*.conf")) if folder else []
    yield from (*([file] if file else ()), *(f"{folder}/{name}" for name in dropped))


def _endpoint(host: Host, path: str) -> str:
    """What a file of kubelet's configuration, YAML or JSON, says of the runtime; empty where it says nothing."""
    try:
        found = parse((host.read(path) or b"").decode(errors="replace"))
    except NotYAMLError:
        why = "is no YAML, so nobody knows which runtime kubelet uses; mend it, or configure the runtime by hand"
        raise ByHand(f"{path} {why}") from None
    told = found.get(_ENDPOINT) if isinstance(found, dict) else None
    return told if isinstance(told, str) else ""


def _kubelets(host: Host) -> Iterator[list[str]]:
    """The command lines of the host's kubelets."""
    root = host.root.stat()
    for process in host.proc.iterdir():
        if not process.name.isdecimal():
            continue
        try:
            if (process / "comm").read_text("utf-8", "replace").strip() != "kubelet":
                continue
            if os.path.samestat((process / "root").stat(), root):
                yield (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended meanwhile, or is not ours to look at
