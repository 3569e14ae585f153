"""containerd, the distribution's own or Deckhouse's: its files and imports, its dump, and what it runs with.

One whose configuration another program makes anew at each start (k0s, MicroK8s, Docker's own containerd) is not
changed here, and said so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nodeagent.host import hostfiles
from nodeagent.toolkit import cri, kubelet
from nodeagent.toolkit.config import effective, marks, plan, sources
from nodeagent.toolkit.config.sources import CONF2_D, CONF_D, DECKHOUSE, DROP_IN, FORMER, ByHand, Node
from nodeagent.toolkit.kinds.base import Kind, printed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.disk import WayBack
    from nodeagent.toolkit.host import Server

MADE: Final = ("/var/lib/rancher/", "/var/lib/k0s/", "/run/k0s/", "/etc/k0s/", "/var/snap/", "/run/docker/")
BASHIBLE: Final = "/var/lib/bashible"
OURS: Final = (FORMER, f"{CONF_D}/{DROP_IN}", f"{CONF2_D}/{DROP_IN}")


@dataclass(frozen=True, slots=True)
class Containerd(Kind):
    """A node whose runtime is containerd."""

    name: ClassVar[str] = "containerd"

    def server(self) -> Server:
        """Who listens at the socket; raises Refused."""
        found = self.listening("containerd")
        main = _configuration(found.words)
        if main.startswith(MADE):
            raise ByHand(f"{main} is made anew by the program that starts containerd; configure that one by hand")
        return replace(found, main=main)

    def serves(self) -> bool:
        """Whether it says over CRI that it is containerd."""
        return self.runtime.release() is not None

    def observe(self) -> tuple[Server, Node]:
        """Its files, and what it makes of them."""
        server = self.server()
        node = Node(
            release=self.release(server, "containerd"),
            files=self._files(server.main),
            effective=self.dump(server),
            main=server.main,
            deckhouse=hostfiles.inside(self.root, BASHIBLE) is not None,
            elsewhere=self.has_others_toolkit(),
        )
        return server, node

    def files(self) -> Node:
        """The files that are there."""
        return Node((0, 0), self._files(sources.MAIN), {}, elsewhere=self.has_others_toolkit())

    def install(self, node: Node) -> Plan:
        """As `plan.install`."""
        return plan.install(node)

    def removal(self, node: Node) -> Plan:
        """As `plan.remove`."""
        return plan.remove(node)

    def runs_with(self, done: Plan) -> bool:
        """By the settings that CRI's Status tells."""
        return cri.in_force(self.runtime.settings(), done.handlers, cdi=done.cdi)

    def programs(self) -> dict[str, str]:
        """By the same settings."""
        return cri.programs(self.runtime.settings())

    def prove(self, server: Server, node: Node, done: Plan, back: WayBack) -> None:
        """By its dump: before and after may differ in ours alone."""
        former = FORMER in {change.path for change in done.changes}
        before = self._without_former(server, done, back) if former else node.effective
        after = self.dump(server)
        self.demand_ours_alone(before, after, plan.is_ours)
        self.demand_handlers(done, effective.handlers(after), cdi=effective.cdi(after) is True)

    def _without_former(self, server: Server, done: Plan, back: WayBack) -> Mapping[str, Any]:
        """What containerd read without our former drop-in: that one hid what the other files say."""
        others = [change for change in done.changes if change.path != FORMER]
        for change in others:
            back.put(plan.Change(change.path, change.after, change.before))
        before = self.dump(server)
        for change in others:
            back.put(change)
        return before

    def dump(self, server: Server) -> dict[str, Any]:
        """The settings of containerd if it started now; raises Refused where it would not start, RuntimeUnavailable."""
        there = self.at(server.main).exists()
        arguments = ["--config", server.main, "config", "dump"] if there else ["config", "default"]
        return self.parsed(printed(self.root, [server.program, *arguments]))

    def fingerprint(self) -> tuple[object, ...]:
        """The process, its program, and each file that it reads or may read."""
        server = self.server()
        return server.pid, *self.stamps(*self._paths(server.main), server.program)

    def _files(self, main: str) -> dict[str, bytes]:
        read = ((path, self.read(path)) for path in self._paths(main))
        return {path: content for path, content in read if content is not None}

    def _paths(self, main: str) -> list[str]:
        """The main file, what it imports, and where ours may be."""
        paths, pending = list[str](), [main, *OURS, DECKHOUSE]
        while pending:
            path = pending.pop(0)
            if path in paths:
                continue
            paths.append(path)
            try:
                parsed = marks.parse((self.read(path) or b"").decode(errors="replace"))
            except marks.Unforeseen:
                continue  # the plan says so
            pending += self._found(sources.patterns(path, parsed))
        return paths

    def _found(self, patterns: Iterable[str]) -> Iterator[str]:
        for pattern in patterns:
            folder, name = PurePosixPath(pattern).parent, PurePosixPath(pattern).name
            if "*" in name:
                seen = self.at(str(folder))
                yield from (f"{folder}/{found.name}" for found in sorted(seen.glob(name)) if found.is_file())
            else:
                yield pattern


def _configuration(words: tuple[str, ...]) -> str:
    """The file that containerd was told to read, else the one that it reads by itself."""
    return kubelet.flag(words, "--config", "-config", "-c") or sources.MAIN
