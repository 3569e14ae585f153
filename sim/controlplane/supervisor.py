"""Keeps processes running: ``python -m sim.controlplane.supervisor --dir D``.

Lifetime: started detached by :func:`sim.controlplane.client.start_supervisor`, lives until
SIGTERM, then stops its processes, the highest stage first, and exits; where SIM_OWNER names
a process (tests set it to their own), it does so as well when that one is gone. It follows the
descriptions in ``D/processes/``: a new file is started, a changed one restarted, a removed
one stopped; SIGHUP makes it look at once. One supervisor for a directory (``flock``).

Concurrency: one thread owns all state and sleeps until a signal, a process that became
ready, or the next moment that is due.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from sim.controlplane.child import Child
from sim.controlplane.layout import Layout
from sim.controlplane.procfs import Identity
from sim.controlplane.spec import ProcessSpec
from sim.controlplane.state import State, write_atomically

OWNER = "SIM_OWNER"
_LOOK_PERIOD = 1.0

# Tells whether a file changed: modification time, inode, size.
_Version = tuple[int, int, int]

_log = logging.getLogger("supervisor")


class Supervisor:
    """The loop; see the module's text."""

    def __init__(self, layout: Layout) -> None:
        me = Identity.of(os.getpid())
        assert me is not None  # noqa: S101 - a running process has a start time
        self._me = me
        self._layout = layout
        self._owner = Identity.of(int(said)) if (said := os.environ.get(OWNER)) else me
        self._children: dict[str, Child] = {}
        self._stopping = False
        self._written = ""
        self._specs: dict[str, tuple[_Version, ProcessSpec | None]] = {}
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)

    def run(self) -> None:
        """Supervise until SIGTERM."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        for number in (signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # wakes the loop, nothing more
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # the shell that started us ignored it
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        while not self._stopping and self._owner is not None and self._owner.alive:
            self._follow()
            self._step()
            self._sleep()
        self._stopping = True
        self._stop_all()

    def _follow(self) -> None:
        """Bring the children in line with the descriptions."""
        wanted = self._read_specs()
        for name, child in self._children.items():
            if wanted.get(name) != child.spec:
                child.stop()
        for name, spec in wanted.items():
            known = self._children.get(name)
            if known is None or (known.stopped and known.process is None):
                self._children[name] = Child(spec)
        for name in [n for n, c in self._children.items() if n not in wanted and not c.process]:
            del self._children[name]

    def _read_specs(self) -> dict[str, ProcessSpec]:
        """Read the descriptions that changed; one that is not readable keeps its last form."""
        seen: dict[str, tuple[_Version, ProcessSpec | None]] = {}
        for path in sorted(self._layout.processes.glob("[!.]*.json")):
            with suppress(FileNotFoundError):
                stat = path.stat()
                version = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
                known_version, known = self._specs.get(path.stem, (None, None))
                if version != known_version:
                    known = _read_spec(path) or known
                seen[path.stem] = (version, known)
        self._specs = seen
        return {name: spec for name, (_, spec) in seen.items() if spec}

    def _step(self) -> None:
        """Take each child one step further, then tell the world."""
        now = time.monotonic()
        for name, child in self._children.items():
            if child.ended():
                _log.info("%s ended with %s", name, child.exit_code)
                child.after_end(now)
            child.notice_ready()
            if child.kill_if_due(now):
                _log.warning("%s outlived its grace: killed", name)
            if child.phase == "backoff" and now >= child.due and not self._stopping:
                self._start(child)
        self._publish()

    def _start(self, child: Child) -> None:
        name = child.spec.name
        try:
            child.start(self._layout.log(name))
        except OSError:
            _log.exception("cannot start %s", name)
            child.after_end(time.monotonic())
            return
        self._publish()
        child.open_gate(self._wake)
        _log.info("started %s, pid %d", name, child.identity.pid if child.identity else 0)

    def _stop_all(self) -> None:
        for stage in sorted({c.spec.stage for c in self._children.values()}, reverse=True):
            members = [c for c in self._children.values() if c.spec.stage == stage]
            for child in members:
                child.stop()
            self._step()
            while any(child.process for child in members):
                self._sleep()
                self._step()
        self._publish()

    def _publish(self) -> None:
        text = State(self._me, {n: c.view() for n, c in self._children.items()}).to_json()
        if text != self._written:
            write_atomically(self._layout.state, text)
            self._written = text

    def _sleep(self) -> None:
        """Wait for a signal, a ready process, or the next thing that is due."""
        now = time.monotonic()
        due = [
            c.due
            for c in self._children.values()
            if (c.phase == "backoff" and not self._stopping) or (c.phase == "stopping" and c.process)
        ]
        timeout = min([_LOOK_PERIOD, *(max(0.0, moment - now) for moment in due)])
        if not self._stopping and any(c.stopped and not c.process for c in self._children.values()):
            timeout = 0.0  # it ended to be started anew, or to be forgotten: look at once
        select.select([self._wake_read], [], [], timeout)
        with suppress(BlockingIOError):
            while self._wake_read.recv(4096):
                pass

    def _wake(self) -> None:
        with suppress(OSError):  # full: the loop is about to wake anyway
            self._wake_write.send(b"\0")

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True


def _read_spec(path: Path) -> ProcessSpec | None:
    try:
        spec = ProcessSpec.from_json(path.read_text())
    except (ValueError, KeyError, TypeError, AttributeError):
        _log.exception("%s describes no process", path)
        return None
    if spec.name != path.stem:
        _log.error("%s describes %s: not started", path, spec.name)
        return None
    return spec


def main(argv: list[str] | None = None) -> int:
    """Run the supervisor of a directory; 3 where it has one."""
    parser = argparse.ArgumentParser(prog="sim.controlplane.supervisor", description=__doc__)
    parser.add_argument("--dir", required=True, help="the directory of the control plane")
    layout = Layout.of(parser.parse_args(argv).dir)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    lock = os.open(layout.processes, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.error("%s has a supervisor", layout.root)
        return 3
    Supervisor(layout).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
