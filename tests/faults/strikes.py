"""How each fault of a plan is done. `arm` prepares it before the workload begins; the strike tells when it happened,
and `heal` ends it when the workload has been told, where it has not ended by itself.
"""

from __future__ import annotations

import asyncio
import base64
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api import names, resources
from controllers.runtime.client import MERGE
from controllers.runtime.errors import RuntimeFault
from sim import controlplane
from tests.faults import plans, staleness
from tests.faults.ground import FULL, MANAGER, PACE
from tests.faults.oracles import Due
from tests.tools.apiserver import until
from tests.tools.faultproxy import Reset
from webhook import pki

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.faults.ground import Ground
    from tests.faults.plans import Plan
    from tests.tools.faultproxy import Event, Exchange

AWAY: Final = 2.0 * PACE
"""Seconds for which something is away."""
LATE: Final = 0.4
HELD: Final = 2.5 * PACE
STOPPED: Final = 5.0 * PACE
"""Longer than a lease."""
JUMP: Final = 600.0
RBAC_PATHS: Final = (
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    f"/apis/rbac.authorization.k8s.io/v1/namespaces/{names.NAMESPACE}/rolebindings",
)


@dataclass
class Strike:
    """What became of a fault."""

    what: str = ""
    """What it struck; empty while it has not."""
    ended: float = 0.0
    """When it was over, monotonic."""
    undo: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    error: str = ""

    def at(self, what: str) -> None:
        """It strikes now."""
        self.what, self.ended = self.what or what, time.monotonic()

    def spawn(self, work: Awaitable[None]) -> None:
        """Let it go on beside the workload."""

        async def guarded() -> None:
            await work
            self.ended = time.monotonic()

        self.tasks.add(asyncio.ensure_future(guarded()))

    async def heal(self) -> None:
        """End it; raises what went wrong with the fault itself."""
        if self.tasks:
            await asyncio.gather(*self.tasks)
        for undo in reversed(self.undo):
            await undo()
            self.ended = time.monotonic()


def due(plan: Plan) -> Due:
    """What a fault may cost."""
    found = _due(plan)
    return replace(found, slack=found.slack * PACE, recovery=found.recovery * PACE)


def _due(plan: Plan) -> Due:
    if plan.fault in ("apiserver-killed", "compacted"):
        return Due(more=30, slack=25.0, recovery=60.0, plain=False)
    if plan.fault == "hang":
        return Due(slack=25.0, recovery=60.0)
    if plan.fault in ("clock-forth", "clock-back"):
        return Due(more=12, slack=15.0, recovery=60.0)
    if plan.fault in (*plans.AT_PROCESS_STEP, *plans.AT_STEP):
        return Due(more=12, slack=15.0)
    return Due(slack=12.0) if plan.fault in plans.KILLS else Due()


def arm(ground: Ground, plan: Plan) -> Strike:
    """Prepare the fault of a plan."""
    strike = Strike()
    if plan.fault in plans.KILLS:
        _kill(ground, plan, strike)
    elif plan.fault in plans.ANSWERS:
        _answer(ground, plan, strike, lambda e: e.write == plan.number)
    elif plan.fault in plans.READS:
        _answer(ground, plan, strike, lambda e: getattr(e, "read", None) == plan.number)
    elif plan.fault in plans.EVENTS:
        _events(ground, plan, strike)
    elif plan.step:
        _at_step(ground, plan, strike)
    return strike


def _name(e: Exchange) -> str:
    return f"{e.verb} {'/'.join(filter(None, (e.resource, e.namespace, e.name, e.subresource)))}"


def _kill(ground: Ground, plan: Plan, strike: Strike) -> None:
    def kill(exchange: Exchange) -> None:
        strike.at(_name(exchange))
        ground.signal(plan.process, signal.SIGKILL)
        raise Reset  # what was not passed on yet never is

    when = "before" if plan.fault == "kill-before" else "after"
    ground.taps[plan.process].on_write(plan.number, when, kill)


def _answer(ground: Ground, plan: Plan, strike: Strike, match: Callable[[Exchange], bool]) -> None:
    """Another answer than the API server's, once."""
    tap, how = ground.taps[plan.process], plan.fault.removeprefix("read-")

    def struck(exchange: Exchange) -> bool:
        if found := match(exchange):
            strike.at(_name(exchange))
        return found

    if how.isdigit():
        tap.fail(struck, int(how), times=1, retry_after=1 if how == "429" else None)
    elif how == "hang":
        tap.delay(struck, 3600.0, times=1)
    else:
        tap.reset(struck, "after" if how.endswith("after") else "before", times=1)


@dataclass
class _Bend:
    """What a process watches of a kind comes late, twice, only at the end, or never as it was."""

    ground: Ground
    plan: Plan
    strike: Strike
    kept: list[tuple[Exchange, bytes]] = field(default_factory=list)
    struck: tuple[str | None, str] | None = None
    """Namespace and name of the object that the first event was about."""

    def line(self, exchange: Exchange, event: Event, line: bytes) -> bool:
        """One line of a watch; whether it is dealt with."""
        tap, (how, _, one) = self.ground.taps[self.plan.process], self.plan.fault.partition("-")
        key = (event.namespace, event.name)
        if exchange.resource != self.plan.resource or (one and self.struck not in (None, key)):
            return False
        self.struck = self.struck or key
        if not self.strike.what:
            self.strike.at(f"{event.type} {event.kind} {event.name}")
            if how in ("hold", "unseen"):
                self.strike.spawn(self.let_go())
        if how == "late":
            tap.relay(exchange, line, LATE)
        elif how == "twice":
            tap.relay(exchange, line)
            tap.relay(exchange, line)
        else:
            self.kept.append((exchange, line))
        return True

    async def let_go(self) -> None:
        """Pass on what was held, or have all of it listed anew."""
        tap = self.ground.taps[self.plan.process]
        await asyncio.sleep(HELD)
        tap.bend = None
        if self.plan.fault.startswith("unseen"):
            tap.expire(self.plan.resource)
        else:
            for exchange, line in self.kept:
                tap.relay(exchange, line)


def _events(ground: Ground, plan: Plan, strike: Strike) -> None:
    tap = ground.taps[plan.process]

    async def straighten() -> None:
        tap.bend = None
        await asyncio.sleep(LATE)  # what is on its way arrives in order

    tap.bend = _Bend(ground, plan, strike).line
    strike.undo.append(straighten)


def _at_step(ground: Ground, plan: Plan, strike: Strike) -> None:
    async def before(step: int) -> None:
        if step == plan.step and not strike.what:
            strike.at(f"before step {step}")
            work = STEPS[plan.fault](ground, plan.process)
            if plan.fault in AT_ONCE:
                await work
                strike.ended = time.monotonic()
            else:
                strike.spawn(work)

    ground.before_step = before


# --- faults at a step: each lasts its time and ends by itself -------------------------------------


async def _rbac(ground: Ground, process: str) -> None:
    """The process's rights are taken away for a while: it may do nothing at all."""
    saved = []
    for path in RBAC_PATHS:
        for item in orjson.loads(await ground.client.request("GET", path))["items"]:
            if any(subject["name"] == FULL[process] for subject in item.get("subjects") or ()):
                saved.append((f"{path}/{item['metadata']['name']}", item["subjects"]))
    assert saved, f"no rights of {process} are found"

    async def write(path: str, subjects: list[Any]) -> None:
        body = {"subjects": subjects}
        await ground.eventually(
            lambda: ground.client.request(
                "PATCH", path, query={"fieldManager": MANAGER}, body=body, content_type=MERGE
            ),
            20,
        )

    for path, subjects in saved:
        await write(path, [s for s in subjects if s["name"] != FULL[process]])
    ground.suspect.add(process)
    await asyncio.sleep(AWAY)
    for path, subjects in saved:
        await write(path, subjects)


def _clock(by: float) -> Callable[[Ground, str], Awaitable[None]]:
    async def jump(ground: Ground, process: str) -> None:
        ground.clock(process).write_text(str(by))
        await asyncio.sleep(AWAY)
        ground.clock(process).write_text("0")

    return jump


async def _stopped(ground: Ground, process: str) -> None:
    """SIGSTOP for longer than its lease: it comes back and no longer leads."""
    tap = ground.taps[process]
    ground.signal(process, signal.SIGSTOP)
    await asyncio.sleep(STOPPED)
    tap.marks.append(time.monotonic())
    ground.signal(process, signal.SIGCONT)


async def _half_open(ground: Ground, process: str) -> None:
    """Its watches stay open and say nothing any more."""
    ground.taps[process].freeze()


async def _webhook_down(ground: Ground, _: str) -> None:
    await ground.stop("webhook")
    await asyncio.sleep(AWAY)
    ground.start("webhook")
    await ground.up(["webhook"])


async def _webhook_slow(ground: Ground, _: str) -> None:
    """Reviews take seconds: it is stopped and goes on, twice."""
    for _ in range(2):
        ground.signal("webhook", signal.SIGSTOP)
        await asyncio.sleep(AWAY)
        ground.signal("webhook", signal.SIGCONT)
        await asyncio.sleep(0.5)


async def _webhook_expired(ground: Ground, _: str) -> None:
    """Its certificate, and the authority that signed it, are of yesterday."""
    past = time.time() - 3 * 86400.0
    authority, key = pki.make_authority(past, 86400.0)
    certificate, serving = pki.issue(authority, key, past, 3600.0)
    data = {"ca.crt": authority, "ca.key": key, "tls.crt": certificate, "tls.key": serving}
    body = {"data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}}
    await ground.client.merge(resources.SECRET, names.WEBHOOK_SECRET, body, manager=MANAGER, namespace=names.NAMESPACE)


async def _webhook_secret(ground: Ground, _: str) -> None:
    """Somebody deletes the Secret with its certificates."""
    await ground.delete(resources.SECRET, names.WEBHOOK_SECRET, names.NAMESPACE)


async def _webhook_ca(ground: Ground, _: str) -> None:
    """Somebody writes another authority into the webhook configurations."""
    authority, _key = pki.make_authority(time.time(), 86400.0)
    bundle = base64.b64encode(authority.encode()).decode()
    for resource in (resources.MUTATING_WEBHOOK, resources.VALIDATING_WEBHOOK):
        found = orjson.loads(await ground.client.get(resource, names.WEBHOOK_CONFIGURATION))
        for webhook in found["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle
        with suppress(RuntimeFault):
            await ground.client.replace(resource, names.WEBHOOK_CONFIGURATION, found, manager=MANAGER)


async def _apiserver_killed(ground: Ground, _: str) -> None:
    """kill -9 of the API server; its supervisor starts it anew."""
    old = ground.pid("kube-apiserver")
    ground.signal("kube-apiserver", signal.SIGKILL)
    await until(lambda: ground.pid("kube-apiserver") not in (0, old), "the API server to be started again")
    await asyncio.to_thread(controlplane.wait_ready, ground.plane.dir, "kube-apiserver", 60.0)


async def _compacted(ground: Ground, _: str) -> None:
    """etcd forgets its history, and the API server its cache: whoever watches on is told 410."""
    await ground.server.compact()
    await _apiserver_killed(ground, "")


AT_ONCE: Final = ("apiserver-killed", "compacted", "half-open", "webhook-expired", "webhook-secret", "webhook-ca")
"""People's next step comes when these have struck; beside the others people go on."""
STEPS: Final[dict[str, Callable[[Any, str], Awaitable[None]]]] = {
    "rbac": _rbac,
    "clock-forth": _clock(JUMP),
    "clock-back": _clock(-JUMP),
    "stopped": _stopped,
    "half-open": _half_open,
    "stale": staleness.stale,
    "webhook-down": _webhook_down,
    "webhook-slow": _webhook_slow,
    "webhook-expired": _webhook_expired,
    "webhook-secret": _webhook_secret,
    "webhook-ca": _webhook_ca,
    "apiserver-killed": _apiserver_killed,
    "compacted": _compacted,
}
