"""Docker behind cri-dockerd: a merge into `daemon.json`, taken up by a reload, or by a restart where CDI was off.

A restart ends the node's containers unless Docker's `live-restore` is on: without it only a person restarts it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nodeagent.toolkit import kubelet, local_http
from nodeagent.toolkit.config import docker
from nodeagent.toolkit.config.docker import MAIN, DockerNode
from nodeagent.toolkit.config.sources import Refused
from nodeagent.toolkit.cri import RuntimeUnavailable
from nodeagent.toolkit.kinds.base import Kind, missing, printed
from nodeagent.toolkit.restart import reload_by_signal

if TYPE_CHECKING:
    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.disk import WayBack
    from nodeagent.toolkit.host import Server

API: Final = "/run/docker.sock"
VALIDATES_FROM: Final = 23
"""The first major release of dockerd that knows `--validate`."""
_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)\.")
_FLAGS: Final = {"--add-runtime": "runtimes", "--feature": "features"}


@dataclass(frozen=True, slots=True)
class Docker(Kind):
    """A node whose runtime is Docker, with cri-dockerd between it and kubelet."""

    name: ClassVar[str] = "Docker"

    def server(self) -> Server:
        """The process dockerd: its socket is systemd's, so that the kernel does not say who serves it."""
        found = sorted(kubelet.processes(self, "dockerd"))
        if len(found) != 1:
            raise Refused(f"there are {len(found)} processes dockerd, and one was expected")
        pid, words = found[0]
        return replace(self.process(pid, "dockerd"), main=kubelet.flag(words, "--config-file") or MAIN)

    def serves(self) -> bool:
        """Whether its API answers."""
        return _release(self._info()) is not None

    def observe(self) -> tuple[Server, DockerNode]:
        """Its file, and what the daemon tells of itself."""
        server, info = self.server(), self._info()
        release = _release(info)
        if release is None:
            raise RuntimeUnavailable(f"{API}: it does not tell its version")
        told = [name for word in server.words for flag, name in _FLAGS.items() if word.partition("=")[0] == flag]
        content, cdi = self.read(server.main), bool(info.get("CDISpecDirs"))
        return server, DockerNode(release, content, _programs(info), cdi, server.main, frozenset(told))

    def files(self) -> DockerNode:
        """Its file at its usual place."""
        return DockerNode((0, 0), self.read(MAIN), {}, cdi=True)

    def install(self, node: DockerNode) -> Plan:
        """As `docker.install`."""
        return docker.install(node)

    def removal(self, node: DockerNode) -> Plan:
        """As `docker.remove`."""
        return docker.remove(node)

    def prove(self, server: Server, node: DockerNode, done: Plan, back: WayBack) -> None:  # noqa: ARG002
        """By dockerd itself where it can; that no other setting differs the plan has compared."""
        if node.release[0] < VALIDATES_FROM:
            return
        printed(self.root, [server.program, "--validate", "--config-file", server.main], "would not start with it")

    def runs_with(self, done: Plan) -> bool:
        """By the daemon's own word."""
        info = self._info()
        return not missing(done, _programs(info)) and (not done.cdi or bool(info.get("CDISpecDirs")))

    def programs(self) -> dict[str, str]:
        """By the daemon's own word."""
        return _programs(self._info())

    def reload(self, server: Server, done: Plan) -> bool:
        """By SIGHUP, which brings handlers and not CDI; whether all of the plan is then in force."""
        if missing(done, self.programs()):
            reload_by_signal(server, lambda: not missing(done, self.programs()))
        return self.runs_with(done)

    def why_not_restarted(self, server: Server) -> str:
        """Also where its restart would end the node's containers."""
        if self._info().get("LiveRestoreEnabled") is not True:
            return (
                "Docker takes CDI up at its start alone, and its restart ends the node's containers, since "
                "live-restore is off: drain the node and restart Docker, or switch live-restore on"
            )
        return super(Docker, self).why_not_restarted(server)

    def making(self) -> int:
        """How many containers are created and not started."""
        filters = "%7B%22status%22%3A%5B%22created%22%5D%7D"
        found = _json(local_http.get(self.at(API), f"/containers/json?all=true&filters={filters}"))
        return len(found) if isinstance(found, list) else 0

    def fingerprint(self) -> tuple[object, ...]:
        """The process, its program, and its file."""
        server = self.server()
        return server.pid, *self.stamps(server.program, server.main)

    def _info(self) -> dict[str, Any]:
        found = _json(local_http.get(self.at(API), "/info"))
        return found if isinstance(found, dict) else {}


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise RuntimeUnavailable(f"{API}: its answer is not JSON") from None


def _release(info: dict[str, Any]) -> tuple[int, int] | None:
    found = _RELEASE.match(str(info.get("ServerVersion", "")))
    return (int(found[1]), int(found[2])) if found else None


def _programs(info: dict[str, Any]) -> dict[str, str]:
    runtimes = info.get("Runtimes")
    entries = runtimes.items() if isinstance(runtimes, dict) else ()
    return {name: str(entry.get("path", "")) for name, entry in entries if isinstance(entry, dict)}
