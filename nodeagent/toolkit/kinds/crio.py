"""CRI-O: a drop-in of ours, taken up by a reload, or by a restart where its version knows no reload of runtimes."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import time
import tomllib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nodeagent.toolkit import kubelet
from nodeagent.toolkit.config import crio, effective
from nodeagent.toolkit.config.crio import DROP_IN, DROP_INS, MAIN, CrioNode
from nodeagent.toolkit.config.sources import ByHand, Refused
from nodeagent.toolkit.cri import RuntimeUnavailable
from nodeagent.toolkit.kinds.base import Kind, printed

if TYPE_CHECKING:
    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.disk import WayBack
    from nodeagent.toolkit.host import Server

PRINT_SECONDS: Final = 30.0
CALL_SECONDS: Final = 10.0
RELOAD_SECONDS: Final = 5.0
"""Until a reload shows."""
ANSWER_MAX: Final = 4 * 1024 * 1024
_FILES: Final = {"--config": ("--config", "-c"), "--config-dir": ("--config-dir", "-d")}


class LocalHTTP(http.client.HTTPConnection):
    """HTTP over a socket of the host."""

    def __init__(self, path: Path) -> None:
        """`path`: the socket, as it is seen here."""
        super().__init__("localhost", timeout=CALL_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(CALL_SECONDS)
        self.sock.connect(str(self._path))


def ask(path: Path, what: str) -> bytes:
    """The answer of a program that serves HTTP at a socket; raises RuntimeUnavailable."""
    connection = LocalHTTP(path)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        content = answer.read(ANSWER_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise RuntimeUnavailable(f"{path}: {type(error).__name__}") from None
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeUnavailable(f"{path}: {what} answers with status {answer.status}")
    return content


@dataclass(frozen=True, slots=True)
class Crio(Kind):
    """A node whose runtime is CRI-O."""

    name: ClassVar[str] = "CRI-O"

    def server(self) -> Server:
        """Who listens at the socket; raises Refused."""
        found = self.listener(self.socket)
        if not PurePosixPath(found.program).name.startswith("crio"):
            raise ByHand(f"{found.program} serves {self.socket}, and not CRI-O; configure it by hand")
        return replace(found, main=kubelet.flag(found.words, *_FILES["--config"]) or MAIN)

    def serves(self) -> bool:
        """Whether it says over CRI that it is CRI-O."""
        return self.runtime.version("cri-o") is not None

    def observe(self) -> tuple[Server, CrioNode]:
        """Our drop-in, and what CRI-O makes of all its files."""
        server, release = self.server(), self.runtime.version("cri-o")
        if release is None:
            raise ByHand(f"{server.program} does not say over CRI that it is CRI-O; configure it by hand")
        place = f"{_folder(server)}/{DROP_IN}"
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
        more = [path for path in effective.differences(node.effective, after) if not crio.is_ours(path)]
        if more:
            told = ", ".join(sorted({".".join(path[:4]) for path in more})[:3])
            raise Refused(f"CRI-O would read other settings than ours otherwise: {told}")
        known = crio.programs(after)
        missing = [one.name for one in done.handlers if known.get(one.name) != one.program]
        if missing:
            raise Refused(f"CRI-O would not see {', '.join(missing)}: another file hides it")

    def print(self, server: Server) -> dict[str, Any]:
        """The settings of CRI-O if it started now; raises Refused where it would not start, RuntimeUnavailable."""
        # As it was started: of a file that is named it demands that it is there.
        named = {flag: kubelet.flag(server.words, *flags) for flag, flags in _FILES.items()}
        files = [word for flag, value in named.items() if value for word in (flag, value)]
        text = printed(self.root, [server.program, *files, "config"], PRINT_SECONDS)
        return _parsed(text)

    def runs_with(self, done: Plan) -> bool:
        """By the configuration that the process tells at its socket."""
        known = self.programs()
        return all(known.get(one.name) == one.program for one in done.handlers)

    def programs(self) -> dict[str, str]:
        """By the same configuration."""
        return crio.programs(_parsed(ask(self.at(self.socket), "/config").decode(errors="replace")))

    def reload(self, server: Server, done: Plan) -> bool:
        """By SIGHUP; whether it then runs with the handlers."""
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGHUP)
        return until(lambda: self.runs_with(done))

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


def until(holds: Any, seconds: float = RELOAD_SECONDS) -> bool:
    """Whether something holds within some seconds; a runtime that does not answer meanwhile is asked again."""
    end = time.monotonic() + seconds
    while True:
        with suppress(RuntimeUnavailable):
            if holds():
                return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)


def _folder(server: Server) -> str:
    return kubelet.flag(server.words, *_FILES["--config-dir"]) or DROP_INS


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        raise Refused("what CRI-O prints of its configuration is not TOML") from None
