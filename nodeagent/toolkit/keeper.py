"""The loop of role `toolkit`: adds NVIDIA's handlers to the runtime's configuration, verifies, or reverts.

Level-triggered: each look begins from what is there. What an earlier process left unproved is undone first. The
runtime takes the files up only where what it runs with is not what was asked for; so a pod that starts again, an agent
that is upgraded and a node that was started anew cause no write and no restart.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import structlog

from controllers.api.runtime_state import (
    AWAITING_NODE,
    AWAITING_RESTART,
    AWAITING_TOOLKIT,
    AWAITING_TURN,
    BY_HAND,
    NOT_CONFIGURED,
    READ_ONLY,
    READY,
    REFUSED,
    REVERTED,
    SILENT,
    STATES,
)
from nodeagent.toolkit import metrics
from nodeagent.toolkit.config import plan
from nodeagent.toolkit.config.sources import FORMER, ByHand, Refused
from nodeagent.toolkit.cri import RuntimeUnavailable
from nodeagent.toolkit.disk import WayBack, digest
from nodeagent.toolkit.kinds import choice
from nodeagent.toolkit.readonly import is_read_only, read_only_advice
from nodeagent.toolkit.restart import Timeouts, restart, wait_until_quiet
from nodeagent.toolkit.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.host import Host, Server
    from nodeagent.toolkit.kinds.base import Kind

log = structlog.get_logger()
PROGRAMS: Final = tuple(f"{plan.FOLDER}/{file}" for file in plan.HANDLERS.values())


@dataclass
class Keeper:
    """One node's keeper; one thread at a time."""

    host: Host
    timeouts: Timeouts = field(default_factory=Timeouts)
    stopping: Event = field(default_factory=Event)
    """Set by another thread where the program is to end."""
    writes: bool = True
    """Whether the runtime's configuration is the module's to change (`bootstrap.toolkit.runtimeConfig`)."""
    may_restart: Callable[[], bool] = lambda: True
    """Whether it is this node's turn to have its runtime restarted; asked before anything is written for that."""
    is_elsewhere: Callable[[], bool] = lambda: False
    """Whether another toolkit is the node's, though it may not run yet; asked before a drop-in is deleted that may be
    its own."""

    def __post_init__(self) -> None:
        """Remember nothing."""
        self._back = WayBack(self.host)
        self._known: tuple[object, ...] | None = None
        self._kind = ""
        self.state = State(SILENT, "nothing was looked at yet")

    def reconcile(self) -> State:
        """See to it once; what cannot be done is told in the state."""
        self.state = self._state_after(self._reconcile)
        for phase in STATES:
            metrics.STATE.labels(phase).set(self.state.phase == phase)
        return self.state

    def remove(self) -> State:
        """Take away all that is ours, and restart nothing: a handler that nobody names does no harm."""
        self._known = None
        return self._state_after(self._remove)

    def _state_after(self, work: Callable[[], State]) -> State:
        self._kind = ""
        try:
            state = work()
        except ByHand as error:
            state = State(BY_HAND, str(error))
        except Refused as error:
            state = State(REFUSED, str(error))
        except RuntimeUnavailable as error:
            state = State(SILENT, str(error))
        except OSError as error:
            if error.errno == errno.EROFS:
                state = State(READ_ONLY, read_only_advice(self.host))
            else:
                state = State(REFUSED, f"{error.filename or 'a file of the host'}: {error.strerror or error}")
        return replace(state, kind=self._kind)

    def _reconcile(self) -> State:
        kind = choice.of(self.host)
        self._kind = kind.name
        if self._known is not None and kind.fingerprint() == self._known and self._stays():
            return self.state
        self._known = None
        if self._back.go():
            log.warning("an earlier run was ended before it had proved its changes; they are undone")
        absent = next((path for path in PROGRAMS if not self.host.at(path).exists()), None)
        if absent is not None:
            return self._without_program(kind, absent)
        server, node = kind.observe()
        done = kind.install(node)
        state = self._in_force(kind, done) if not done.changes or not self.writes else None
        if state is None:
            state = self._to_be_changed(kind, server, node, done)
        if state.phase == READY:
            self._back.proved()
            self._back.forget()
        if state.phase in (READY, AWAITING_TURN):
            self._known = kind.fingerprint()
        return state

    def _stays(self) -> bool:
        """Whether the last state holds while the runtime and its files are the same: a turn is given by others."""
        return self.state.phase == READY or not self.may_restart()

    def _without_program(self, kind: Kind, absent: str) -> State:
        """Nothing is told of a program that is not there: a handler that names it would fail every pod."""
        if is_read_only(self.host, absent):
            server, node = kind.observe()
            done = kind.install(node)
            if done.foreign and not done.changes:
                return State(READY, f"handler nvidia is somebody else's, and runs {done.foreign}")
            return State(READ_ONLY, f"{read_only_advice(self.host)}; {server.program} runs without NVIDIA's handlers")
        return State(AWAITING_TOOLKIT, f"{absent} is not there yet; a handler that names it would fail every pod")

    def _to_be_changed(self, kind: Kind, server: Server, node: Any, done: Plan) -> State:
        """Change the files, and have the runtime take them up, where it may be done now."""
        if not self.writes:
            names = ", ".join(one.name for one in done.handlers)
            why = "bootstrap.toolkit.runtimeConfig is Never, so nothing is written"
            return State(NOT_CONFIGURED, f"{kind.name} runs without {names or 'CDI'}, and {why}")
        if self._has_former(done) and self.is_elsewhere():
            why = f"{FORMER} may be that of another toolkit, which is the node's (status.managedElsewhere)"
            return State(AWAITING_TOOLKIT, f"{why}: it stays until that one runs, or is gone")
        if refused := self._back.refused.get(digest(done, node)):
            return State(REVERTED, refused)
        if self._has_to_be_taken_up(kind, done) and not kind.why_not_restarted(server) and not self.may_restart():
            why = "nothing is written before; a few nodes at a time (bootstrap.toolkit.runtimeRestarts)"
            why = f"{kind.name} has to be restarted, and it is not this node's turn yet: {why}"
            return self._waiting(kind, AWAITING_TURN, why)
        self._change(kind, server, node, done)
        return self._in_force(kind, done) or self._taken_up(kind, server, node, done)

    def _has_to_be_taken_up(self, kind: Kind, done: Plan) -> bool:
        return not done.foreign and not done.awaits_bashible and not kind.runs_with(done)

    @staticmethod
    def _has_former(done: Plan) -> bool:
        return any(change.path == FORMER for change in done.changes)

    def _remove(self) -> State:
        self._back.go()
        failed: Refused | None = None
        for kind in choice.all_of(self.host):
            try:
                self._remove_from(kind)
            except Refused as error:
                failed = failed or error  # the others are seen to all the same
        if failed is not None:
            raise failed
        self._back.forget()
        return State(READY, "nothing of the module's is in the runtime's configuration")

    def _remove_from(self, kind: Kind) -> None:
        try:
            server, node = kind.observe()
        except (Refused, RuntimeUnavailable):
            self._back.carry_out(self._ours(kind.removal(kind.files())).changes)
        else:
            self._change(kind, server, node, self._ours(kind.removal(node)))
        self._back.proved()

    def _ours(self, done: Plan) -> Plan:
        """A plan without the drop-in that may be another toolkit's."""
        if not self._has_former(done) or not self.is_elsewhere():
            return done
        return replace(done, changes=tuple(change for change in done.changes if change.path != FORMER))

    def _in_force(self, kind: Kind, done: Plan) -> State | None:
        """The state where nothing has to be taken up by our doing; None where it has to."""
        if done.foreign:
            return State(READY, f"handler nvidia is somebody else's, and runs {done.foreign}")
        if kind.runs_with(done):
            return State(READY)
        if done.awaits_bashible and self.writes:
            self._back.proved()
            why = "the drop-in is written; bashible merges it and restarts containerd at its next run"
            return self._waiting(kind, AWAITING_NODE, why)
        return None

    @staticmethod
    def _waiting(kind: Kind, phase: str, why: str) -> State:
        """The state of a process that goes on as it is, with our handler of pods of the module where it has it."""
        name, program = next(iter(plan.HANDLERS.items()))
        return State(phase, why, serves=kind.programs().get(name) == f"{plan.FOLDER}/{program}")

    def _change(self, kind: Kind, server: Server, node: Any, done: Plan) -> None:
        """Change the files, or leave them as they are: raises Refused where more would change than what is ours."""
        if not done.changes:
            return
        former = [change for change in done.changes if change.path == FORMER]
        try:
            self._back.carry_out([*former, *(change for change in done.changes if change.path != FORMER)])
            if not done.awaits_bashible:
                kind.prove(server, node, done, self._back)
        except Refused as error:
            self._back.go()
            why = f"{error}. The files are as they were, and the same is not tried again"
            self._back.refuse(digest(done, node), why)
            raise Refused(why) from None
        except (OSError, RuntimeUnavailable):
            self._back.go()
            raise
        for change in done.changes:
            metrics.WRITES.inc()
            log.info("changed a file of the host", path=change.path, removed=change.after is None)

    def _taken_up(self, kind: Kind, server: Server, node: Any, done: Plan) -> State:
        if kind.reload(server, done):
            return State(READY)
        if why := kind.why_not_restarted(server):
            self._back.proved()
            return self._waiting(kind, AWAITING_RESTART, f"the handlers are not in force yet: {why}")
        wait_until_quiet(kind, self.timeouts, self.stopping)
        about = "restarting the runtime, which does not run with NVIDIA's handlers yet"
        log.info(about, kind=kind.name, unit=server.unit, pid=server.pid)
        metrics.RESTARTS.inc()
        if restart(kind, server, self.timeouts):
            if kind.runs_with(done):
                return State(READY)
            why = f"{kind.name} runs without the handlers though its configuration has them"
        else:
            why = f"{kind.name} did not serve within {self.timeouts.serving:g} s of its restart"
        self._back.refuse(digest(done, node), why)
        return self._reverted(kind, why, server.unit)

    def _reverted(self, kind: Kind, why: str, unit: str) -> State:
        if not self._back.go():
            return State(REVERTED, f"{why}; nothing was changed in this run, so nothing is put back")
        log.error("the former configuration is put back, and the runtime restarted with it", why=why)
        metrics.RESTARTS.inc()
        try:
            server: Server | None = kind.server()
        except Refused:
            server = None  # it ended, or does so again and again
        served = restart(kind, server, self.timeouts, unit)
        return State(REVERTED, why if served else f"{why}, nor with the former configuration: look at it on the node")
