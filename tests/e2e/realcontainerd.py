"""A real container runtime in a root of its own, which is started again whenever it ends, as systemd would do."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from nodeagent.toolkit.config import sources
from nodeagent.toolkit.config.plan import Refused
from nodeagent.toolkit.cri import RuntimeUnavailable
from nodeagent.toolkit.host import Host
from nodeagent.toolkit.keeper import Keeper
from nodeagent.toolkit.kinds.containerd import Containerd
from nodeagent.toolkit.restart import Timeouts
from tests.nodeagent.toolkit.programs import installed

if TYPE_CHECKING:
    from collections.abc import Mapping


SECONDS = 60.0
# Mounts of a namespace of its own, which goes with the process: its root is no folder of ours, as a host's is none of a
# pod's, so the kernel names its files as they are called there.
START = """
mount --make-rprivate / && mount --bind "$0" "$0" && cd "$0"
mkdir -p proc dev sys tmp run var old && ln -sfn ../run var/run
mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys
pivot_root . old && cd / && exec $1
"""


class RealContainerd:
    """Starts, is started again, and ends with the test."""

    called: ClassVar[str] = "containerd"
    main: ClassVar[str] = sources.MAIN
    kind_of: ClassVar[type[Containerd]] = Containerd
    socket: ClassVar[str] = "/run/containerd/containerd.sock"

    def __init__(self, root: Path, program: Path, files: Mapping[str, str], *, toolkit: bool = True) -> None:
        self.root, self.starts = root, 0
        self.refuses = ""
        """A text with which in its main file it does not start."""
        self.impatient = Timeouts(quiet=0.2, busy=5.0, serving=3.0, poll=0.05)
        self._ending = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._place(program)
        for path, text in files.items():
            self.at(path).parent.mkdir(parents=True, exist_ok=True)
            self.at(path).write_text(text)
        if toolkit:
            installed(root)
        self.kind = self.kind_of(root, socket=self.socket)
        self.host = Host(root)
        self.keeper = Keeper(self.host, Timeouts(quiet=0.2, busy=5.0, serving=20.0, poll=0.05))
        self._supervisor = threading.Thread(target=self._run, daemon=True)
        self._supervisor.start()
        self.served()

    def at(self, path: str) -> Path:
        """Where a path of the root lies."""
        return self.root / path.lstrip("/")

    @property
    def config(self) -> Path:
        """The main file."""
        return self.at(self.main)

    def served(self) -> None:
        """Wait until it answers."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with suppress(Refused, RuntimeUnavailable, OSError):
                if self.kind.server() and self.kind.serves():
                    return
            time.sleep(0.05)
        log = self.at("/log").read_text(errors="replace")[-2000:]
        raise AssertionError(f"{self.called} does not serve: {log}")

    def restart(self) -> None:
        """As an administrator would."""
        assert self._child is not None
        before = self.starts
        self._child.terminate()
        while self.starts == before:
            time.sleep(0.05)
        self.served()

    def end(self) -> None:
        """End it for good."""
        self._ending.set()
        if self._child is not None:
            self._child.terminate()
        self._supervisor.join(SECONDS)

    def configuration(self) -> str:
        """What stands in the files that it reads."""
        return self.config.read_text()

    def _place(self, program: Path) -> None:
        """The program with its libraries, as in an image."""
        target = self.at(f"/usr/bin/{self.called}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program, target)
        self.libraries(program)

    def libraries(self, program: Path) -> None:
        """Those that a program is linked with, where it looks for them."""
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for path in (Path(word) for word in told.split() if word.startswith("/")):
            here = self.root / path.relative_to("/")
            here.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, here)

    def arguments(self) -> str:
        """Of its command line."""
        return f"--config={self.main}" if self.config.exists() else ""

    def _run(self) -> None:
        while not self._ending.is_set():
            if self.refuses and self.refuses in self.configuration():
                self._ending.wait(0.1)
                continue
            line = f"/usr/bin/{self.called} {self.arguments()}"
            command = ["unshare", "--mount", "sh", "-c", START, str(self.root), line]
            with self.at("/log").open("ab") as log:
                self._child = subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})
            self.starts += 1
            self._child.wait()
            self._ending.wait(0.1)
