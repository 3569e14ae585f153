"""Which CRI socket is kubelet's own, by the flags of kubelet's process.

A host may have several: containerd of Docker's package beside CRI-O, or beside K3s' own. Kubelet's command line says
which it uses, else its configuration. Only a process whose root is the host's counts, for a container may call its
program what it likes. K3s has kubelet within its own process; one within MicroK8s or in a container is not seen.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from nodeagent.host.yamltext import NotYAMLError, parse
from nodeagent.toolkit.config.plan import ByHand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nodeagent.toolkit.host import Host

DEFAULT: Final = "/run/containerd/containerd.sock"
"""Where a kubelet looks that was told nothing."""
CRIO: Final = "/run/crio/crio.sock"
DOCKER: Final = "/run/cri-dockerd.sock"
RANCHER: Final = "/run/k3s/containerd/containerd.sock"
OTHERS: Final = {
    RANCHER: "K3s or RKE2",
    CRIO: "CRI-O",
    DOCKER: "Docker",
    "/run/k0s/containerd.sock": "k0s",
    "/var/snap/microk8s/common/run/containerd.sock": "MicroK8s",
}
"""Sockets of runtimes beside containerd's usual one, and whose they are."""
K3S: Final = ("k3s-server", "k3s-agent")
"""What K3s calls its processes, which have kubelet within."""
_ENDPOINT: Final = "containerRuntimeEndpoint"


def used(host: Host) -> str:
    """The socket of the runtime that kubelet uses; raises ByHand where nobody says which of several that is."""
    told, ours = {_socket(host, words) for _, words in processes(host, "kubelet")}, host.at(host.socket)
    if told:
        return host.socket if any(host.at(path) == ours for path in told) else min(told)
    there = [path for path in OTHERS if host.at(path).exists()]
    if RANCHER in there and any(processes(host, *K3S)):
        return RANCHER
    if not there or (len(there) == 1 and not ours.exists()):
        return there[0] if there else host.socket
    named_all = ", ".join(named(host, path) for path in there)
    raise ByHand(f"beside {host.socket} there is {named_all}, and no kubelet says which it uses; configure it by hand")


def flag(words: Sequence[str], *names: str) -> str:
    """What a command line says of a flag, the last time that it says so; empty where it does not."""
    told = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in names and following:
            told = following
        elif word.startswith(tuple(f"{name}=" for name in names)):
            told = word.partition("=")[2]
    return told


def named(host: Host, path: str) -> str:
    """A socket, and whose it is where that is known."""
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


def processes(host: Host, *called: str) -> Iterator[tuple[int, list[str]]]:
    """Pid and command line of each process of one of these names whose root is the host's."""
    root = host.root.stat()
    for process in host.proc.iterdir():
        if not process.name.isdecimal():
            continue
        try:
            if (process / "comm").read_text("utf-8", "replace").strip() not in called:
                continue
            if os.path.samestat((process / "root").stat(), root):
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                yield int(process.name), words
        except OSError:
            continue  # it has ended meanwhile, or is not ours to look at
