"""Scans the node for role `toolkit`: the process that serves CRI, its configuration file and the imports.

Nothing is guessed from names of distributions: kubelet says whether it uses containerd's socket, the kernel says who
listens there, and that process says by its own command line where its configuration is. One that another program makes
anew at each start (K3s, RKE2, k0s, MicroK8s, Docker's own containerd) is not ours to change, and said so.
"""

from __future__ import annotations

import re
import socket
import struct
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from nodeagent.host import hostfiles
from nodeagent.toolkit import inside, kubelet
from nodeagent.toolkit.config import marks, sources
from nodeagent.toolkit.config.sources import CONF2_D, CONF_D, DECKHOUSE, DROP_IN, FORMER, ByHand, Node, Refused
from nodeagent.toolkit.cri import Runtime, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOCKET: Final = "/run/containerd/containerd.sock"
MADE: Final = ("/var/lib/rancher/", "/var/lib/k0s/", "/run/k0s/", "/etc/k0s/", "/var/snap/", "/run/docker/")
BASHIBLE: Final = "/var/lib/bashible"
OURS: Final = (FORMER, f"{CONF_D}/{DROP_IN}", f"{CONF2_D}/{DROP_IN}")
DUMP_SECONDS: Final = 30.0
FILE_MAX: Final = 4 * 1024 * 1024
CONNECT_SECONDS: Final = 2.0
_PARENT: Final = re.compile(r"^PPid:\s*(\d+)", re.MULTILINE)
_UNIT: Final = re.compile(r"/([^/\n]+\.service)(?:/|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Server:
    """The process that serves CRI."""

    pid: int
    program: str
    """Its path on the host."""
    main: str
    """Its configuration's path on the host."""
    unit: str
    """systemd's unit that it runs in; empty without one."""
    parent: int = 0
    """The process that started it, and is still there; 0 where that cannot be seen."""

    @property
    def is_supervised(self) -> bool:
        """Whether anything may start it again once it ends: a child of the first process, in no unit, is nobody's."""
        return bool(self.unit) or self.parent != 1


@dataclass(frozen=True, slots=True)
class Host:
    """One node, as its files and processes tell."""

    root: Path
    proc: Path = Path("/proc")
    socket: str = SOCKET

    @property
    def runtime(self) -> Runtime:
        """The runtime behind the socket."""
        return Runtime(self.at(self.socket))

    def at(self, path: str) -> Path:
        """Where a path of the host is seen; links of the host are followed within its root."""
        found = hostfiles.inside(self.root, path)
        if found is not None:
            return found
        folder = hostfiles.inside(self.root, str(PurePosixPath(path).parent))
        return (folder or self.root.joinpath(*PurePosixPath(path).parent.parts[1:])) / PurePosixPath(path).name

    def server(self) -> Server:
        """Who listens at the socket; raises Refused."""
        pid = self._listener()
        try:
            program = str((self.proc / str(pid) / "exe").readlink()).removesuffix(" (deleted)")
            words = (self.proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
            groups = (self.proc / str(pid) / "cgroup").read_text("utf-8")
            parent = _PARENT.search((self.proc / str(pid) / "status").read_text("utf-8", "replace"))
        except OSError as error:
            raise Refused(f"process {pid}, which serves {self.socket}, cannot be looked at: {error.strerror}") from None
        if not PurePosixPath(program).name.startswith("containerd"):
            raise ByHand(f"{program} serves {self.socket}, and not containerd; configure it by hand")
        main = _configuration(words)
        if main.startswith(MADE):
            raise ByHand(f"{main} is made anew by the program that starts containerd; configure that one by hand")
        found = _UNIT.findall(groups)
        systemd = hostfiles.inside(self.root, "/run/systemd/system") is not None
        return Server(pid, program, main, found[-1] if found and systemd else "", int(parent[1]) if parent else 0)

    def observe(self, *, of_kubelet: bool = True) -> tuple[Server, Node]:
        """Everything that a plan depends on; raises Refused, RuntimeUnavailable, OSError.

        `of_kubelet`: only of the runtime that kubelet uses. To take ours away it does not matter whose it is now.
        """
        if of_kubelet:
            kubelet.demand(self)
        server, release = self.server(), self.runtime.release()
        if release is None:
            raise ByHand(f"{server.program} does not say over CRI that it is containerd; configure it by hand")
        node = Node(
            release=release,
            files=self._files(server.main),
            effective=self.dump(server),
            main=server.main,
            deckhouse=hostfiles.inside(self.root, BASHIBLE) is not None,
        )
        return server, node

    def files(self) -> Node:
        """What there is of files where no runtime answers: enough to take ours away. Raises OSError, Refused."""
        return Node((0, 0), self._files(sources.MAIN), {})

    def dump(self, server: Server) -> dict[str, Any]:
        """The settings of containerd if it started now; raises Refused where it would not start, RuntimeUnavailable."""
        there = self.at(server.main).exists()
        arguments = ["--config", server.main, "config", "dump"] if there else ["config", "default"]
        try:
            printed = inside.run(self.root, [server.program, *arguments], DUMP_SECONDS)
        except TimeoutError as error:
            raise RuntimeUnavailable(str(error)) from None  # a node that is busy has refused nothing
        if printed is None:
            told = " ".join([server.program, *arguments])
            raise Refused(f"containerd cannot read its own configuration: run `{told}` on the node to see why")
        try:
            return tomllib.loads(printed)
        except (tomllib.TOMLDecodeError, RecursionError):
            raise Refused("what containerd prints of its configuration is not TOML") from None

    def fingerprint(self) -> tuple[object, ...]:
        """Changes when another process serves, or a file that was read, or may be, is another. Raises Refused."""
        kubelet.demand(self)
        server = self.server()
        paths = {*self._paths(server.main), server.program}
        folders = {str(PurePosixPath(path).parent) for path in (*paths, *OURS)}
        return server.pid, *(_stamp(self.at(path)) for path in sorted({*folders, *paths}))

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

    def read(self, path: str) -> bytes | None:
        """A file's content; None where there is none. Raises OSError, and Refused where it is no configuration."""
        seen = self.at(path)
        try:
            if seen.stat().st_size > FILE_MAX:
                raise Refused(f"{path} is larger than {FILE_MAX} bytes")
            return seen.read_bytes()
        except FileNotFoundError:
            return None

    def _listener(self) -> int:
        seen = self.at(self.socket)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(CONNECT_SECONDS)
            try:
                client.connect(str(seen))
            except OSError as error:
                raise Refused(f"nobody serves {self.socket}: {error.strerror}") from None
            pid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        if not pid:
            raise Refused("the process that serves CRI cannot be seen: the pod needs hostPID")
        return int(pid)


def _configuration(words: list[str]) -> str:
    """The file that containerd was told to read, else the one that it reads by itself."""
    return kubelet.flag(words, "--config", "-config", "-c") or sources.MAIN


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
