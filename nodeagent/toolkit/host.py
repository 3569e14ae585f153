"""One node's files and processes for role `toolkit`: paths of the host, and the process behind a socket.

Nothing is guessed from names of distributions: kubelet says which socket it uses, the kernel says who listens there,
and that process says by its own command line where its configuration is.
"""

from __future__ import annotations

import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from controllers.api.foreign import TOOLKIT_PID, TOOLKIT_PROGRAMS
from nodeagent.host import hostfiles
from nodeagent.toolkit.config.sources import Refused

SOCKET: Final = "/run/containerd/containerd.sock"
FILE_MAX: Final = 4 * 1024 * 1024
PID_MAX: Final = 64  # bytes
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
    words: tuple[str, ...] = ()
    """Its command line."""

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
    """Of the runtime, on the host."""

    def at(self, path: str) -> Path:
        """Where a path of the host is seen; links of the host are followed within its root."""
        found = hostfiles.inside(self.root, path)
        if found is not None:
            return found
        folder = hostfiles.inside(self.root, str(PurePosixPath(path).parent))
        return (folder or self.root.joinpath(*PurePosixPath(path).parent.parts[1:])) / PurePosixPath(path).name

    def read(self, path: str) -> bytes | None:
        """A file's content; None where there is none. Raises OSError, and Refused where it is no configuration."""
        seen = self.at(path)
        try:
            if seen.stat().st_size > FILE_MAX:
                raise Refused(f"{path} is larger than {FILE_MAX} bytes")
            return seen.read_bytes()
        except FileNotFoundError:
            return None

    def listener(self, path: str) -> Server:
        """The process that listens at a socket, without its configuration's path; raises Refused."""
        return self.process(self._pid(path), f"which serves {path}")

    def process(self, pid: int, doing: str) -> Server:
        """A process by its number, without its configuration's path; raises Refused."""
        try:
            program = str((self.proc / str(pid) / "exe").readlink()).removesuffix(" (deleted)")
            words = (self.proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
            groups = (self.proc / str(pid) / "cgroup").read_text("utf-8")
            parent = _PARENT.search((self.proc / str(pid) / "status").read_text("utf-8", "replace"))
        except OSError as error:
            raise Refused(f"process {pid}, {doing}, cannot be looked at: {error.strerror}") from None
        found = _UNIT.findall(groups)
        systemd = hostfiles.inside(self.root, "/run/systemd/system") is not None
        unit = found[-1] if found and systemd else ""
        return Server(pid, program, "", unit, int(parent[1]) if parent else 0, tuple(words))

    def _pid(self, path: str) -> int:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(CONNECT_SECONDS)
            try:
                client.connect(str(self.at(path)))
            except OSError as error:
                raise Refused(f"nobody serves {path}: {error.strerror}") from None
            pid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        if not pid:
            raise Refused("the process that serves CRI cannot be seen: the pod needs hostPID")
        return int(pid)

    def has_others_toolkit(self) -> bool:
        """Whether the installer of GPU Operator's toolkit runs: its pid file is not ours, nor is the process."""
        try:
            pid = int(hostfiles.content(self.root, TOOLKIT_PID, PID_MAX))
            program = (self.proc / str(pid) / "cmdline").read_bytes().split(b"\0", 1)[0]
        except (OSError, ValueError):
            return False
        return PurePosixPath(program.decode(errors="replace")).name in TOOLKIT_PROGRAMS

    def stamps(self, *paths: str) -> tuple[object, ...]:
        """A value for each path that changes when the file, or the folder that it is in, does."""
        folders = {str(PurePosixPath(path).parent) for path in paths}
        return tuple(_stamp(self.at(path)) for path in sorted({*folders, *paths}))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
