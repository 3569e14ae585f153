"""CRI-O: a drop-in of ours, taken up by a reload, or by a restart where its version knows no reload of runtimes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nodeagent.toolkit import kubelet, local_http
from nodeagent.toolkit.config import crio
from nodeagent.toolkit.config.crio import DROP_IN, DROP_INS, MAIN, CrioNode
from nodeagent.toolkit.kinds.base import Kind, missing, printed
from nodeagent.toolkit.restart import reload_by_signal

if TYPE_CHECKING:
    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.disk import WayBack
    from nodeagent.toolkit.host import Server

CRI_NAME: Final = "cri-o"
_FILES: Final = {"--config": ("--config", "-c"), "--config-dir": ("--config-dir", "-d")}


@dataclass(frozen=True, slots=True)
class Crio(Kind):
    """A node whose runtime is CRI-O."""

    name: ClassVar[str] = "CRI-O"

    def server(self) -> Server:
        """Who listens at the socket; raises Refused."""
        found = self.listening("crio")
        return replace(found, main=kubelet.flag(found.words, *_FILES["--config"]) or MAIN)

    def serves(self) -> bool:
        """Whether it says over CRI that it is CRI-O."""
        return self.runtime.version(CRI_NAME) is not None

    def observe(self) -> tuple[Server, CrioNode]:
        """Our drop-in, and what CRI-O makes of all its files."""
        server = self.server()
        release, place = self.release(server, CRI_NAME), f"{_folder(server)}/{DROP_IN}"
        return server, CrioNode(release, self._files(place), self.print(server), place)

    def files(self) -> CrioNode:
        """Our drop-in at its usual place."""
        place = f"{DROP_INS}/{DROP_IN}"
        return CrioNode((0, 0), self._files(place), {}, place)

    def install(self, node: CrioNode) -> Plan:
        """As `crio.install`."""
        return crio.install(node)

    def removal(self, node: CrioNode) -> Plan:
        """As `crio.remove`."""
        return crio.remove(node)

    def prove(self, server: Server, node: CrioNode, done: Plan, back: WayBack) -> None:  # noqa: ARG002
        """By what it prints of its files: before and after may differ in ours alone."""
        after = self.print(server)
        self.demand_ours_alone(node.effective, after, crio.is_ours)
        self.demand_handlers(done, crio.programs(after))

    def print(self, server: Server) -> dict[str, Any]:
        """The settings of CRI-O if it started now; raises Refused where it would not start, RuntimeUnavailable."""
        # As it was started: of a file that is named it demands that it is there.
        named = {flag: kubelet.flag(server.words, *flags) for flag, flags in _FILES.items()}
        files = [word for flag, value in named.items() if value for word in (flag, value)]
        return self.parsed(printed(self.root, [server.program, *files, "config"]))

    def runs_with(self, done: Plan) -> bool:
        """By the configuration that the process tells at its socket."""
        return not missing(done, self.programs())

    def programs(self) -> dict[str, str]:
        """By the same configuration."""
        return crio.programs(self.parsed(local_http.get(self.at(self.socket), "/config").decode(errors="replace")))

    def reload(self, server: Server, done: Plan) -> bool:
        """By SIGHUP; whether it then runs with the handlers."""
        return reload_by_signal(server, lambda: self.runs_with(done))

    def fingerprint(self) -> tuple[object, ...]:
        """The process, its program, and each file that it reads."""
        server = self.server()
        folder = _folder(server)
        seen = self.at(folder)
        names = sorted(path.name for path in seen.glob("*")) if seen.is_dir() else []
        paths = [server.program, server.main, f"{folder}/{DROP_IN}", *(f"{folder}/{name}" for name in names)]
        return server.pid, *self.stamps(*paths)

    def _files(self, place: str) -> dict[str, bytes]:
        content = self.read(place)
        return {} if content is None else {place: content}


def _folder(server: Server) -> str:
    return kubelet.flag(server.words, *_FILES["--config-dir"]) or DROP_INS
