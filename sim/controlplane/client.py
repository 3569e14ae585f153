"""Tells a supervisor what to run, and waits for what it reports.

Everything goes through files (descriptions one way, ``state.json`` the other), so any
number of processes may do this at once, and none of them has to stay.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sim.controlplane.layout import Layout
from sim.controlplane.procfs import Identity
from sim.controlplane.spec import ProcessSpec
from sim.controlplane.state import ProcessState, State, read_state, write_atomically
from tools.errors import UserError

_PERIOD = 0.03
_TAIL = 15
_SUPERVISOR_STARTS = 15.0
_LAST_GRACE = 10.0


def start_supervisor(layout: Layout) -> None:
    """Start the supervisor of a directory, detached, and wait until it listens."""
    layout.processes.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(exist_ok=True)
    source = str(Path(__file__).parents[2])  # where the package `sim` is found
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    argv = [sys.executable, "-m", "sim.controlplane.supervisor", "--dir", str(layout.root)]
    with layout.log("supervisor").open("ab") as log:
        # Not our child but init's: nothing here has to reap it, or outlive it.
        done = subprocess.run(
            ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *argv],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=layout.root,
            start_new_session=True,
            check=True,
        )
    started = Identity.of(int(done.stdout))

    def listens() -> bool:
        if started is None or not started.alive:
            raise _failed("the supervisor ended", layout, "supervisor")
        state = read_state(layout.state)
        return state is not None and state.supervisor == started

    if not _until(listens, _SUPERVISOR_STARTS):
        if started:
            started.signal(signal.SIGKILL)
        raise _failed("the supervisor does not start", layout, "supervisor")


def running(layout: Layout) -> State | None:
    """Return the state where a supervisor is alive."""
    state = read_state(layout.state)
    return state if state and state.supervisor.alive else None


def add_process(folder: Path | str, spec: ProcessSpec) -> None:
    """Have a running supervisor start ``spec``, or restart it where it changed."""
    layout = Layout.of(folder)
    state = _require(layout)
    write_atomically(layout.spec(spec.name), spec.to_json(), mode=0o600)
    state.supervisor.signal(signal.SIGHUP)


def remove_process(folder: Path | str, name: str, timeout: float = 20.0) -> None:
    """Have a running supervisor stop a process and forget it; wait until it has."""
    layout = Layout.of(folder)
    state = _require(layout)
    layout.spec(name).unlink(missing_ok=True)
    state.supervisor.signal(signal.SIGHUP)
    if not _until(lambda: name not in _require(layout).processes, timeout):
        raise _failed(f"{name} does not end", layout, name)


def wait_ready(
    folder: Path | str, name: str, timeout: float = 30.0, *, max_restarts: int | None = None
) -> ProcessState:
    """Wait until the process, as last described, is ready; its log's end is in the error.

    ``max_restarts`` gives up early on a process that ends again and again.
    """
    layout = Layout.of(folder)
    try:
        wanted = ProcessSpec.from_json(layout.spec(name).read_text()).digest
    except FileNotFoundError:
        raise UserError(f"no process {name!r} in {layout.root}") from None
    found: list[ProcessState] = []

    def ready() -> bool:
        process = _require(layout).processes.get(name)
        if process is None or process.digest != wanted:
            return False
        if process.phase == "exited":
            raise _failed(f"{name} ended with {process.exit_code}", layout, name)
        if max_restarts is not None and process.restarts > max_restarts:
            raise _failed(f"{name} ended {process.restarts} times", layout, name)
        found.append(process)
        return process.phase == "ready"

    if not _until(ready, timeout):
        raise _failed(f"{name} is not ready after {timeout:.0f} s", layout, name)
    return found[-1]


def stop_all(layout: Layout) -> None:
    """End the supervisor and every process that it recorded, and nothing else.

    Works too where the supervisor was killed: what it recorded is ended by pid and start
    time, so a process that merely got an old pid is left alone.
    """
    state = read_state(layout.state)
    if state is None:
        return
    try:
        _stop(layout, state)
    except PermissionError as error:
        raise UserError(f"the processes of {layout.root} belong to another user", do="end them as that user") from error


def _stop(layout: Layout, state: State) -> None:
    if state.supervisor.signal(signal.SIGTERM):
        grace = sum(
            max(p.grace for p in state.processes.values() if p.stage == stage)
            for stage in {p.stage for p in state.processes.values()}
        )
        if not _until(lambda: not state.supervisor.alive, grace + _LAST_GRACE):
            state.supervisor.signal(signal.SIGKILL)
            _until(lambda: not state.supervisor.alive, _LAST_GRACE)
    left = read_state(layout.state) or state
    for stage in sorted({p.stage for p in left.processes.values()}, reverse=True):
        _end([p for p in left.processes.values() if p.stage == stage])


def _end(processes: list[ProcessState]) -> None:
    """End processes whose supervisor is gone, and what they started: ask, wait, kill."""
    alive = [p.identity for p in processes if p.identity and p.identity.alive]
    members = [member for leader in alive for member in leader.session()]
    for leader in alive:
        leader.signal(signal.SIGTERM)
    _until(lambda: not any(leader.alive for leader in alive), max((p.grace for p in processes), default=0.0))
    for member in members:
        member.signal(signal.SIGKILL)
    _until(lambda: not any(member.alive for member in members), _LAST_GRACE)


def log_tail(layout: Layout, process: str, lines: int = _TAIL) -> str:
    """Return the end of a process's log."""
    with suppress(OSError):
        return "\n".join(layout.log(process).read_text(errors="replace").splitlines()[-lines:])
    return ""


def _require(layout: Layout) -> State:
    state = running(layout)
    if state is None:
        raise UserError(
            f"no control plane runs in {layout.root}",
            expected="a supervisor that is alive",
            do="start one (`make up`)",
        )
    return state


def _failed(what: str, layout: Layout, process: str) -> UserError:
    log = layout.log(process)
    return UserError(f"{what}; the end of {log}:\n{log_tail(layout, process)}")


def _until(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PERIOD)
    return True
