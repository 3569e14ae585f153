"""Keeps the daemons of one pool's cards on one node as they are wanted, round after round.

A card's daemon is started behind compute mode EXCLUSIVE_PROCESS, in which the card takes clients of MPS alone, and is
Ready when it has answered with its limits. When it is wanted no more it quits, and compute mode is put back and read
again: until then the card is told as Stopping, and its pool does not let it go. All that is remembered is in the state
file, so a role that was killed goes on where it was. A daemon that does not even end by force is held in memory, and
its end is tried again: no other is started beside it, and compute mode is not put back under it.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from nodeagent.host import mpsfiles
from nodeagent.host.mpsfiles import DaemonState
from nodeagent.mps.decide import next_step
from nodeagent.mps.limits import MEMORY, THREADS, limits
from nodeagent.mps.programs import DEFAULT, EXCLUSIVE, Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nodeagent.host.mpsfiles import WantedDaemon
    from nodeagent.mps.decide import Next
    from nodeagent.mps.limits import Limits
    from nodeagent.mps.programs import Daemon, Tools

log = structlog.get_logger()
PROBE_SECONDS = 10.0
"""Between two questions to a daemon that lives; that it has died is seen at once."""
UNANSWERED_MAX = 2
"""Questions in a row without the right answer after which a daemon is ended, and its clients with it."""
PAUSE, PAUSE_MAX = 2.0, 60.0
"""Seconds until what failed is tried again: the first pause, and the longest."""
LIVED_SECONDS = 60.0
"""Of life after which a daemon's end has nothing to do with how it was started."""
NOT_ANSWERING = "the control daemon does not answer"
STARTING, LEAVING = "the control daemon is being started", "the control daemon leaves the card"
ANEW = "the role has started anew, and with it the daemon"


@dataclass(slots=True)
class Running:
    """A control daemon that this process started, and how it has answered."""

    daemon: Daemon
    born: float
    """When it was started, by the monotonic clock."""
    asked: float
    """When it was asked last."""
    limits: Limits
    unanswered: int = 0
    """Questions in a row without the right answer."""
    ending: bool = False
    """Whether it is to go, whatever is wanted of the card."""
    remark: str = ""
    """What nvidia-smi has failed with, that is logged already."""


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
    _number: int = 0
    """Of the last wish that was read."""
    _write_error: str = ""
    """Why the state file cannot be written, as it is logged already."""

    def __post_init__(self) -> None:
        """Learn what a former life of the role has said: none of its daemons lives."""
        if (stored := mpsfiles.read_role_state(self.path)) is None:
            log.error("the state file cannot be read; every card that has had a daemon is put back")
            known = {uuid: DaemonState("Stopping", reason=ANEW) for uuid in mpsfiles.card_folders(self.path)}
            stored = mpsfiles.RoleState(cards=known)
        self._number = stored.number
        for uuid, one in stored.cards.items():
            phase = one.phase if one.phase == "Stopping" else "Down"
            self._state[uuid] = replace(one, phase=phase, reason=ANEW, runs=False)
        self._tell()

    def round(self) -> None:
        """Bring each card one step nearer; an unreadable wish changes nothing.

        The wish is read before each card: one card may take a minute, and the others' wishes change meanwhile.
        """
        done: set[str] = set()
        while (desired := mpsfiles.read_desired(self.path)) is not None:
            self._number = max(self._number, desired.number)
            left = {*desired.cards, *self._state, *self._running} - done
            if not left:
                self._tell()
                return
            uuid = min(left)
            done.add(uuid)
            self._card(uuid, desired.cards.get(uuid))
            self._tell()

    def close(self) -> None:
        """End all daemons and put compute modes back: the role leaves the node."""
        for uuid in sorted({*self._state, *self._running}):
            self._stop(uuid)
        self._tell()

    @property
    def phases(self) -> Mapping[str, DaemonState]:
        """The state of each card that is told, by uuid."""
        return self._state

    def _card(self, uuid: str, wanted: WantedDaemon | None) -> None:
        self._notice_end(uuid)
        running = self._running.get(uuid)
        step = next_step(wanted, self._state.get(uuid), runs=running is not None)
        if step is None:
            self._due.pop(uuid, None)
        elif step.step == "Probe" and running is not None and not running.ending:
            self._probe(uuid, running)
        elif self._may_try(uuid):
            self._try(uuid, step)

    def _try(self, uuid: str, step: Next) -> None:
        if step.step == "Start" and step.wanted is not None:
            self._start(uuid, step.wanted)
        elif step.step == "Stop":
            self._stop(uuid)
        elif (why := self._end(uuid)) is not None:
            self._failed(uuid, replace(self._state[uuid], phase="Down", reason=why))

    def _notice_end(self, uuid: str) -> None:
        """A daemon that has ended by itself."""
        running = self._running.get(uuid)
        if running is not None and not running.ending and (how := running.daemon.ended()) is not None:
            self._fail(uuid, running, f"the control daemon {how}")

    def _fail(self, uuid: str, running: Running, why: str) -> None:
        """A daemon that serves no more goes: at once it is told as Down, and then it is ended."""
        state = replace(self._state[uuid], phase="Down", reason=why)
        self._note(uuid, state)
        self._tell()
        stays = self._end(uuid)
        if stays is not None or self.clock() < running.born + LIVED_SECONDS:
            self._failed(uuid, replace(state, reason=why if stays is None else f"{why}; {stays}"))
        else:
            self._due.pop(uuid, None)
            self._note(uuid, state)

    def _end(self, uuid: str) -> str | None:
        """End the card's daemon, if there is one; returns why it has not ended, and then it is held on to."""
        if (running := self._running.get(uuid)) is None:
            return None
        running.ending = True
        try:
            running.daemon.end()
        except (Failed, OSError) as error:
            return f"the control daemon does not end: {error}"
        del self._running[uuid]
        return None

    def _start(self, uuid: str, wanted: WantedDaemon) -> None:
        state = DaemonState("Down", wanted.version, self._kept(uuid, "Down") or STARTING, wanted)
        self._note(uuid, state)
        # Before anything is changed: whoever comes after us puts the compute mode back.
        if not self._tell():
            self._failed(uuid, state)
            return
        try:
            self._bring_up(uuid, wanted)
        except (Failed, ValueError) as error:
            stays = self._end(uuid)
            why = f"the control daemon was not started: {error}"
            self._failed(uuid, replace(state, reason=why if stays is None else f"{why}; {stays}"))
            return
        self._note(uuid, replace(state, phase="Ready", reason=None))

    def _bring_up(self, uuid: str, wanted: WantedDaemon) -> None:
        """Have a daemon that has answered with its limits; raises Failed or ValueError, and one may run even then."""
        folder, facts = self.path / uuid, self.tools.facts(uuid)
        limit = limits(wanted, facts.memory_mib)
        self._set_mode(uuid, facts.mode, EXCLUSIVE)
        made = self.tools.start(uuid, folder)
        now = self.clock()
        self._running[uuid] = Running(made, now, now, limit)
        self.tools.until_answers(made, folder)
        if (why := self._limit(folder, limit)) is not None:
            raise Failed(why)

    def _limit(self, folder: Path, limit: Limits) -> str | None:
        """Give a daemon its limits, and ask for them; returns how they differ, and raises Failed."""
        for command in limit.commands:
            self.tools.ask(folder, command)
        return self._difference(folder, limit)

    def _difference(self, folder: Path, limit: Limits) -> str | None:
        return limit.difference(self.tools.ask(folder, THREADS), self.tools.ask(folder, MEMORY))

    def _stop(self, uuid: str) -> None:
        known = self._state.get(uuid) or DaemonState("Stopping")
        state = replace(known, phase="Stopping", reason=self._kept(uuid, "Stopping") or LEAVING)
        self._note(uuid, state)
        self._tell()
        if (why := self._end(uuid)) is None:
            try:
                self._set_mode(uuid, self.tools.facts(uuid).mode, DEFAULT)
            except Failed as error:
                why = f"compute mode is not put back: {error}"
        if why is not None:
            self._failed(uuid, replace(state, reason=why))
            return
        self._due.pop(uuid, None)
        self._state.pop(uuid, None)
        shutil.rmtree(self.path / uuid / mpsfiles.PIPE, ignore_errors=True)  # by it a card counts as one with a daemon
        log.info("no daemon any more, and the driver's own compute mode", card=uuid)

    def _probe(self, uuid: str, running: Running) -> None:
        """Whether a daemon that lives answers with its limits: the daemon's word alone decides about it."""
        now, folder = self.clock(), self.path / uuid
        if now >= running.born + LIVED_SECONDS:
            self._due.pop(uuid, None)
        if now < running.asked + PROBE_SECONDS:
            return
        running.asked = now
        try:
            if (why := self._difference(folder, running.limits)) is not None:
                log.warning("limits of a daemon are set again", card=uuid, why=why)
                why = self._limit(folder, running.limits)
        except Failed as error:
            why = f"{NOT_ANSWERING}: {error}"
        running.unanswered = running.unanswered + 1 if why is not None else 0
        if why is not None and running.unanswered >= UNANSWERED_MAX:
            self._fail(uuid, running, why)
        elif why is None:
            self._hold_mode(uuid, running)

    def _hold_mode(self, uuid: str, running: Running) -> None:
        """Set the compute mode again where somebody changed it by hand, and let others onto the card."""
        try:
            if self.tools.facts(uuid).mode != EXCLUSIVE:
                self.tools.set_mode(uuid, EXCLUSIVE)
            remark = ""
        except Failed as error:
            remark = str(error)
        if remark and remark != running.remark:
            log.warning("the compute mode of a card with a daemon cannot be looked after", card=uuid, why=remark)
        running.remark = remark

    def _set_mode(self, uuid: str, now: str, mode: str) -> None:
        """Set a compute mode where it differs, and see that it is; raises Failed."""
        if now == mode:
            return
        self.tools.set_mode(uuid, mode)
        if (found := self.tools.facts(uuid).mode) != mode:
            raise Failed(f"compute mode is {found} after it was set to {mode}")

    def _may_try(self, uuid: str) -> bool:
        due = self._due.get(uuid)
        return due is None or self.clock() >= due[0]

    def _kept(self, uuid: str, phase: str) -> str | None:
        """The reason why a first try failed: it stays while the next one is under way."""
        known = self._state.get(uuid)
        return known.reason if known is not None and known.phase == phase and uuid in self._due else None

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

    def _tell(self) -> bool:
        """Write the state file; whether that went well: it is tried again in each round."""
        stored = {uuid: replace(one, runs=uuid in self._running) for uuid, one in self._state.items()}
        try:
            mpsfiles.write_state(self.path, stored, self._number)
        except OSError as error:
            if (why := error.strerror or str(error)) != self._write_error:
                log.error("the state file cannot be written", path=str(self.path), why=why)  # noqa: TRY400
                self._write_error = why
            return False
        self._write_error = ""
        return True
