"""One supervised process: how it is started, asked to end, seen ended, and started again.

A :class:`Child` belongs to the supervisor's one thread; only its readiness check runs in a
thread of its own, which sets an event and wakes the supervisor.

A child is started behind a gate: as a shell, it waits until its pid is in ``state.json``
and exits where the supervisor died before that, so that no process of ours is ever
unrecorded. The shell then becomes the program: same pid, same start time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from sim.controlplane.procfs import Identity
from sim.controlplane.ready import watch
from sim.controlplane.spec import ProcessSpec
from sim.controlplane.state import Phase, ProcessState

_GATE = 'read -r go && exec "$@" </dev/null'
_BACKOFF_FIRST, _BACKOFF_LAST = 0.2, 5.0
_STABLE_AFTER = 10.0


def backoff(failures: int) -> float:
    """Return the pause before the next start, after ``failures`` ends in a row."""
    return min(_BACKOFF_FIRST * 2.0 ** min(failures - 1, 16), _BACKOFF_LAST)


@dataclass(slots=True)
class Child:
    """One process and what its supervisor remembers of it.

    ``due`` is the monotonic moment to start it (phase "backoff") or to kill it ("stopping").
    Once ``stopped``, it never starts again: whoever wants it anew makes another Child.
    """

    spec: ProcessSpec
    phase: Phase = "backoff"
    process: subprocess.Popen[bytes] | None = None
    identity: Identity | None = None
    started: float = 0.0
    due: float = 0.0
    restarts: int = 0
    exit_code: int | None = None
    stopped: bool = False
    _began: float = 0.0
    _failures: int = 0
    _became_ready: Event = field(default_factory=Event)
    _stop_checking: Event = field(default_factory=Event)

    def start(self, log: Path) -> None:
        """Start it behind its gate; OSError where even that is impossible."""
        self.phase, self.started, self._began = "starting", time.time(), time.monotonic()
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, "sh", *self.spec.argv],
                env={**os.environ, **self.spec.env},
                cwd=self.spec.cwd or None,
                stdin=subprocess.PIPE,
                bufsize=0,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C elsewhere is not for it
            )
        self.identity = Identity.of(self.process.pid)

    def open_gate(self, wake: Callable[[], None]) -> None:
        """Let it run, now that it is recorded, and begin to check whether it is ready."""
        if self.process and self.process.stdin:
            with suppress(BrokenPipeError):
                self.process.stdin.write(b"\n")
                self.process.stdin.close()
        self._became_ready = ready = Event()

        def tell() -> None:
            ready.set()
            wake()

        self._stop_checking = watch(self.spec.ready, tell)

    def notice_ready(self) -> None:
        """Take over what the check found."""
        if self.phase == "starting" and self._became_ready.is_set():
            self.phase = "ready"

    def stop(self) -> None:
        """Ask it to end; :meth:`ended` sees when it has."""
        self.stopped = True
        self._stop_checking.set()
        if self.process is None:
            self.phase = "exited"
        elif self.phase != "stopping":
            self.phase, self.due = "stopping", time.monotonic() + self.spec.grace
            self.process.terminate()

    def kill_if_due(self, now: float) -> bool:
        """Kill it and its group where its grace is over; whether it was."""
        if self.phase != "stopping" or self.process is None or now < self.due:
            return False
        self._kill_group()
        self.due = now + _BACKOFF_LAST
        return True

    def ended(self) -> bool:
        """Whether it has just ended; reaps it, after what is left of its group."""
        if self.process is None:
            return False
        if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self._kill_group()
        self.exit_code = self.process.wait()
        return True

    def after_end(self, now: float) -> None:
        """Decide what follows its end, or a start that failed: nothing, or another start."""
        self.process, self.identity = None, None
        self._stop_checking.set()
        if self.phase == "stopping" or self.spec.restart == "never":
            self.phase = "exited"
            return
        self._failures = 1 if now - self._began > _STABLE_AFTER else self._failures + 1
        self.restarts += 1
        self.phase, self.due = "backoff", now + backoff(self._failures)

    def view(self) -> ProcessState:
        """Return what others may know."""
        return ProcessState(
            name=self.spec.name,
            digest=self.spec.digest,
            phase=self.phase,
            identity=self.identity,
            started=round(self.started, 3),
            restarts=self.restarts,
            exit_code=self.exit_code,
            grace=self.spec.grace,
            stage=self.spec.stage,
            ports=self.spec.ports,
        )

    def _kill_group(self) -> None:
        # The leader is not reaped yet, so that its number cannot be anybody else's.
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
