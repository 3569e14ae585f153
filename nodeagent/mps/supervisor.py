"""Keeps the daemons of one pool's cards on one node as they are wanted, round after round.

A card's daemon is started behind compute mode EXCLUSIVE_PROCESS, in which the card takes clients of MPS alone, and is
Ready when it has answered with its limits. When it is wanted no more it quits, and compute mode is put back and read
again: until then the card is told as Stopping, and its pool does not let it go. All that is remembered is in the state
file, so a role that was killed goes on where it was.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from nodeagent.host import mpsfiles
from nodeagent.host.mpsfiles import DaemonState
from nodeagent.mps.decide import next_step
from nodeagent.mps.limits import limits
from nodeagent.mps.programs import DEFAULT, EXCLUSIVE, QUESTION, Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nodeagent.host.mpsfiles import WantedDaemon
    from nodeagent.mps.decide import Next
    from nodeagent.mps.programs import Daemon, Tools

log = structlog.get_logger()
PROBE_SECONDS = 10.0
"""Between two questions to a daemon that lives; that it has died is seen at once."""
PAUSE, PAUSE_MAX = 2.0, 60.0
"""Seconds until what failed is tried again: the first pause, and the longest."""
NOT_ANSWERING = "the control daemon does not answer"


@dataclass(slots=True)
class Running:
    """A daemon of this process."""

    daemon: Daemon
    asked: float
    """When it answered last, by the monotonic clock."""


@dataclass(slots=True)
class Supervisor:
    """One pool's cards on one node; used by one thread."""

    path: Path
    """The pool's folder."""
    tools: Tools
    clock: Callable[[], float] = time.monotonic
    _state: dict[str, DaemonState] = field(default_factory=dict)
    _running: dict[str, Running] = field(default_factory=dict)
    _due: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of cards for which something failed: when it is tried again, and the pause before that."""

    def __post_init__(self) -> None:
        """Learn what a former life of the role has said: none of its daemons lives."""
        for uuid, one in mpsfiles.read_state(self.path).cards.items():
            phase = one.phase if one.phase == "Stopping" else "Down"
            self._state[uuid] = replace(one, phase=phase, reason="the role has started anew, and with it the daemon")
        self._tell()

    def round(self) -> None:
        """Bring each card one step nearer; an unreadable wish changes nothing."""
        wanted = mpsfiles.read_wanted(self.path)
        if wanted is None:
            return
        for uuid in sorted({*wanted, *self._state, *self._running}):
            self._card(uuid, wanted.get(uuid))
            self._tell()

    def close(self) -> None:
        """End all daemons and put compute modes back: the role leaves the node."""
        for uuid in sorted({*self._state, *self._running}):
            self._stop(uuid)
        self._tell()

    @property
    def phases(self) -> Mapping[str, DaemonState]:
        """What is said of the cards."""
        return self._state

    def _card(self, uuid: str, wanted: WantedDaemon | None) -> None:
        self._notice_end(uuid)
        step = next_step(wanted, self._state.get(uuid), runs=uuid in self._running)
        if step is None:
            self._due.pop(uuid, None)
        elif step.step == "Probe":
            self._probe(uuid)
        elif self._may_try(uuid):
            self._try(uuid, step)

    def _try(self, uuid: str, step: Next) -> None:
        if step.step == "Start" and step.wanted is not None:
            self._start(uuid, step.wanted)
        else:
            self._stop(uuid)

    def _notice_end(self, uuid: str) -> None:
        """A daemon that has ended by itself."""
        running = self._running.get(uuid)
        if running is None or (how := running.daemon.ended()) is None:
            return
        del self._running[uuid]
        running.daemon.end()
        self._note(uuid, replace(self._state[uuid], phase="Down", reason=f"the control daemon {how}"))

    def _start(self, uuid: str, wanted: WantedDaemon) -> None:
        state = DaemonState("Down", wanted.version, "the control daemon is being started", wanted)
        self._note(uuid, state)
        self._tell()  # before anything is changed: whoever comes after us puts the compute mode back
        folder, daemon = self.path / uuid, None
        try:
            facts = self.tools.facts(uuid)
            limit = limits(wanted, facts.memory_mib)
            self._set_mode(uuid, facts.mode, EXCLUSIVE)
            daemon = self.tools.start(uuid, folder)
            for command in limit.commands:
                self.tools.ask(folder, command)
            self._check(folder, limit.threads)
        except (Failed, ValueError) as error:
            if daemon is not None:
                daemon.end()
            self._failed(uuid, replace(state, reason=f"the control daemon was not started: {error}"))
            return
        self._running[uuid] = Running(daemon, self.clock())
        self._due.pop(uuid, None)
        self._note(uuid, replace(state, phase="Ready", reason=None))

    def _stop(self, uuid: str) -> None:
        known = self._state.get(uuid) or DaemonState("Stopping")
        state = replace(known, phase="Stopping", reason="the control daemon leaves the card")
        self._note(uuid, state)
        self._tell()
        try:
            if (running := self._running.pop(uuid, None)) is not None:
                running.daemon.end()
            self._set_mode(uuid, self.tools.facts(uuid).mode, DEFAULT)
        except Failed as error:
            self._failed(uuid, replace(state, reason=f"compute mode is not put back: {error}"))
            return
        self._due.pop(uuid, None)
        del self._state[uuid]
        log.info("no daemon any more, and the driver's own compute mode", card=uuid)

    def _probe(self, uuid: str) -> None:
        """Whether a daemon that lives answers; one that does not is ended, and started anew in the next round."""
        running = self._running[uuid]
        if self.clock() < running.asked + PROBE_SECONDS:
            return
        try:
            self.tools.ask(self.path / uuid, QUESTION)
            if self.tools.facts(uuid).mode != EXCLUSIVE:
                self.tools.set_mode(uuid, EXCLUSIVE)  # somebody changed it by hand, and let others onto the card
        except Failed as error:
            del self._running[uuid]
            self._note(uuid, replace(self._state[uuid], phase="Down", reason=f"{NOT_ANSWERING}: {error}"))
            self._tell()
            running.daemon.end()
            return
        running.asked = self.clock()

    def _set_mode(self, uuid: str, now: str, mode: str) -> None:
        """Set a compute mode where it differs, and see that it is; raises Failed."""
        if now == mode:
            return
        self.tools.set_mode(uuid, mode)
        if (found := self.tools.facts(uuid).mode) != mode:
            raise Failed(f"compute mode is {found} after it was set to {mode}")

    def _check(self, folder: Path, threads: int) -> None:
        """Whether the daemon has the limits; raises Failed or ValueError."""
        answer = self.tools.ask(folder, QUESTION).strip()
        if round(float(answer)) != threads:
            raise Failed(f"it tells of {answer} percent of threads where {threads} were set")

    def _may_try(self, uuid: str) -> bool:
        due = self._due.get(uuid)
        return due is None or self.clock() >= due[0]

    def _failed(self, uuid: str, state: DaemonState) -> None:
        pause = min(self._due[uuid][1] * 2, PAUSE_MAX) if uuid in self._due else PAUSE
        self._due[uuid] = self.clock() + pause, pause
        self._note(uuid, state)

    def _note(self, uuid: str, state: DaemonState) -> None:
        if self._state.get(uuid) != state:
            (log.info if state.phase == "Ready" else log.warning)(
                "the daemon of a card", card=uuid, phase=state.phase, why=state.reason
            )
        self._state[uuid] = state

    def _tell(self) -> None:
        mpsfiles.write_state(self.path, self._state)
