"""The loop of role `toolkit`: adds NVIDIA's handlers to the runtime's configuration, verifies, or reverts.

Level-triggered: each look begins from what is there. What an earlier process left unproved is undone first. The
runtime is started anew only where what it runs with is not what was asked for; so a pod that starts again, an agent
that is upgraded and a node that was started anew cause no write and no restart.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import structlog

from nodeagent.toolkit import cri, metrics
from nodeagent.toolkit.config import effective, plan
from nodeagent.toolkit.config.sources import FORMER, ByHand, Refused
from nodeagent.toolkit.cri import RuntimeUnavailable
from nodeagent.toolkit.disk import WayBack, digest
from nodeagent.toolkit.restart import Timeouts, restart, wait_until_quiet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.config.sources import Node
    from nodeagent.toolkit.host import Host, Server

log = structlog.get_logger()
READY, TOOLKIT, WAITING = "Ready", "AwaitingToolkit", "AwaitingNodeConfiguration"
BY_HAND, REFUSED, REVERTED, SILENT = "ByHand", "Refused", "Reverted", "Silent"
PHASES: Final = (READY, TOOLKIT, WAITING, BY_HAND, REFUSED, REVERTED, SILENT)
DONE: Final = (READY, BY_HAND)
"""In which nothing more is to be done here: whether containers get cards the validator says."""


@dataclass(frozen=True, slots=True)
class State:
    """What a look came to."""

    phase: str
    reason: str = ""


@dataclass
class Keeper:
    """One node's keeper; one thread at a time."""

    host: Host
    timeouts: Timeouts = field(default_factory=Timeouts)
    stopping: Event = field(default_factory=Event)
    """Set by another thread where the program is to end."""

    def __post_init__(self) -> None:
        """Remember nothing."""
        self._back = WayBack(self.host)
        self._known: tuple[object, ...] | None = None
        self.state = State(SILENT, "nothing was looked at yet")

    def reconcile(self) -> State:
        """See to it once; what cannot be done is told in the state."""
        self.state = self._state_after(self._reconcile)
        for phase in PHASES:
            metrics.STATE.labels(phase).set(self.state.phase == phase)
        return self.state

    def remove(self) -> State:
        """Take away all that is ours, and restart nothing: a handler that nobody names does no harm."""
        self._known = None
        return self._state_after(self._remove)

    def _state_after(self, work: Any) -> State:
        try:
            state: State = work()
        except ByHand as error:
            return State(BY_HAND, str(error))
        except Refused as error:
            return State(REFUSED, str(error))
        except RuntimeUnavailable as error:
            return State(SILENT, str(error))
        except OSError as error:
            if error.errno == errno.EROFS:
                return State(REFUSED, "the host's files are read-only: tell its runtime as the vendor says")
            return State(REFUSED, f"{error.filename or 'a file of the host'}: {error.strerror or error}")
        return state

    def _reconcile(self) -> State:
        if self._known is not None and self.state.phase == READY and self.host.fingerprint() == self._known:
            return self.state
        self._known = None
        if self._back.go():
            log.warning("an earlier run was ended before it had proved its changes; they are undone")
        program = f"{plan.FOLDER}/{plan.PROGRAM}"
        if not self.host.at(program).exists():
            return State(TOOLKIT, f"{program} is not there yet; a handler that names it would fail every pod")
        server, node = self.host.observe()
        done = plan.install(node)
        state = None if done.changes else self._in_force(done)
        if state is None:
            if why := self._back.refused.get(digest(done, node)):
                return State(REVERTED, why)
            self._change(server, node, done)
            state = self._in_force(done) or self._restarted(server, node, done)
        if state.phase == READY:
            self._back.proved()
            self._back.forget()
            self._known = self.host.fingerprint()
        return state

    def _remove(self) -> State:
        self._back.go()
        try:
            server, node = self.host.observe(of_kubelet=False)
        except (Refused, RuntimeUnavailable):
            self._back.carry_out(plan.remove(self.host.files()).changes)
        else:
            self._change(server, node, plan.remove(node))
        self._back.proved()
        self._back.forget()
        return State(READY, "nothing of the module's is in the runtime's configuration")

    def _in_force(self, done: Plan) -> State | None:
        """The state where nothing has to be restarted by us; None where it has to."""
        if done.foreign:
            return State(READY, f"handler nvidia is somebody else's, and runs {done.foreign}")
        if cri.in_force(self.host.runtime.settings(), done.handlers, cdi=done.cdi):
            return State(READY)
        if done.awaits_bashible:
            self._back.proved()
            return State(WAITING, "the drop-in is written; bashible merges it and restarts containerd at its next run")
        return None

    def _change(self, server: Server, node: Node, done: Plan) -> None:
        """Change the files, or leave them as they are: raises Refused where more would change than what is ours."""
        if not done.changes:
            return
        former = [change for change in done.changes if change.path == FORMER]
        try:
            self._back.carry_out([*former, *(change for change in done.changes if change.path != FORMER)])
            if not done.awaits_bashible:
                self._prove(server, node, done)
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

    def _prove(self, server: Server, node: Node, done: Plan) -> None:
        before = self._before(server, done) if FORMER in {change.path for change in done.changes} else node.effective
        after = self.host.dump(server)
        more = [path for path in effective.differences(before, after) if not plan.is_ours(path)]
        if more:
            # Names of settings, never their values.
            told = ", ".join(sorted({".".join(path[:3]) for path in more})[:3])
            raise Refused(f"containerd would read other settings than ours otherwise: {told}")
        known = effective.handlers(after)
        missing = [one.name for one in done.handlers if known.get(one.name) != one.program]
        if missing or (done.cdi and effective.cdi(after) is not True):
            raise Refused(f"containerd would not see {', '.join(missing) or 'CDI'}: another file hides it")

    def _before(self, server: Server, done: Plan) -> Mapping[str, Any]:
        """What containerd read without our former drop-in: that one hid what the other files say."""
        others = [change for change in done.changes if change.path != FORMER]
        for change in others:
            self._back.put(plan.Change(change.path, change.after, change.before))
        before = self.host.dump(server)
        for change in others:
            self._back.put(change)
        return before

    def _restarted(self, server: Server, node: Node, done: Plan) -> State:
        if not server.is_supervised:
            self._back.proved()
            why = f"nothing would start containerd (process {server.pid}) again once it has ended: restart it by hand"
            return State(WAITING, f"the configuration is written; {why}")
        wait_until_quiet(self.host, self.timeouts, self.stopping)
        log.info(
            "restarting containerd, which does not run with NVIDIA's handlers yet", unit=server.unit, pid=server.pid
        )
        metrics.RESTARTS.inc()
        if restart(self.host, server, self.timeouts):
            settings = self.host.runtime.settings()
            if cri.in_force(settings, done.handlers, cdi=done.cdi):
                return State(READY)
            why = "containerd runs without the handlers though its configuration has them"
        else:
            why = f"containerd did not serve within {self.timeouts.serving:g} s of its restart"
        self._back.refuse(digest(done, node), why)
        return self._reverted(why, server.unit)

    def _reverted(self, why: str, unit: str) -> State:
        if not self._back.go():
            return State(REVERTED, f"{why}; nothing was changed in this run, so nothing is put back")
        log.error("the former configuration is put back, and containerd restarted with it", why=why)
        metrics.RESTARTS.inc()
        try:
            server: Server | None = self.host.server()
        except Refused:
            server = None  # it ended, or does so again and again
        served = restart(self.host, server, self.timeouts, unit)
        return State(REVERTED, why if served else f"{why}, nor with the former configuration: look at it on the node")
