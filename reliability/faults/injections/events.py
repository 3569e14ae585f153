"""Faults of what a process watches: events come late, twice, never; watches are refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from reliability.faults import plans
from reliability.faults.processes import PACE

if TYPE_CHECKING:
    from reliability.faults.environment import Environment
    from reliability.faults.injections.injection import Injection
    from reliability.faults.plans import Plan
    from reliability.faults.process_proxy import ProcessProxy
    from reliability.kit.fault_proxy import Event, Exchange

LATE: Final = 0.4
HELD: Final = 2.5 * PACE
REFUSALS: Final = 2
"""So many watches are refused, one after another."""


@dataclass
class _Bend:
    """From one event on, those of its kind or of its object come late, twice, at the end, or never as they were."""

    proxy: ProcessProxy
    plan: Plan
    injection: Injection
    kept: list[tuple[Exchange, bytes]] = field(default_factory=list)
    struck: tuple[str | None, str] | None = None
    """Namespace and name of the object that the first event was about; None before it."""

    def __post_init__(self) -> None:
        self.how, self.one = self.plan.fault.partition("-")[0], self.plan.fault in plans.ONE

    def line(self, exchange: Exchange, event: Event, line: bytes, spelling: str) -> bool:
        """One line of a watch; whether it is dealt with."""
        if exchange.resource != self.plan.resource:
            return False
        if self.struck is None:
            if not (spelling and self._is_first(spelling)):
                return False
            self._begin(event)
        if not event.name:
            # A bookmark that overtook what is held would lose it for ever where the watch is opened anew.
            if self.how == "twice":
                return False
        elif self.one and (event.namespace, event.name) != self.struck:
            return False
        self._bend(exchange, line)
        return True

    def _is_first(self, spelling: str) -> bool:
        if self.one:
            return spelling == self.plan.thing
        return self.proxy.seen_events[self.plan.resource] >= self.plan.number

    def _begin(self, event: Event) -> None:
        self.struck = (event.namespace, event.name)
        self.injection.at(f"{event.type} {event.kind} {event.name}")
        if self.how in ("hold", "unseen"):
            self.injection.spawn(self.let_go())

    def _bend(self, exchange: Exchange, line: bytes) -> None:
        if self.how == "late":
            self.proxy.relay(exchange, line, LATE)
        elif self.how == "twice":
            self.proxy.relay(exchange, line)
            self.proxy.relay(exchange, line)
        else:
            self.kept.append((exchange, line))

    async def let_go(self) -> None:
        """Pass on what was held, or have all of it listed anew."""
        await asyncio.sleep(HELD)
        self.proxy.bend = None
        closed = any(not self.proxy.is_open(exchange) for exchange, _ in self.kept)
        if self.how == "unseen" or (self.one and closed):  # a watch opened anew began after a neighbour's event
            self.proxy.expire(self.plan.resource)
            return
        for exchange, line in self.kept:
            self.proxy.relay(exchange, line)


def bend(environment: Environment, plan: Plan, injection: Injection) -> None:
    """Have events come otherwise."""
    proxy = environment.proxies[plan.process]

    async def straighten() -> None:
        proxy.bend = None
        await asyncio.sleep(LATE)  # what is on its way arrives in order

    proxy.bend = _Bend(proxy, plan, injection).line
    injection.undo.append(straighten)


def refuse(environment: Environment, plan: Plan, injection: Injection) -> None:
    """End the watches of a kind, and refuse to open them again, some times."""
    proxy, status = environment.proxies[plan.process], int(plan.fault.removeprefix("watch-"))

    def refused(exchange: Exchange) -> bool:
        if found := exchange.verb == "watch" and exchange.resource == plan.resource:
            injection.at(f"a watch of {plan.resource}")
        return found

    def line(exchange: Exchange, _event: Event, _line: bytes, spelling: str) -> bool:
        if spelling and exchange.resource == plan.resource and proxy.seen_events[plan.resource] >= plan.number:
            proxy.bend = None
            proxy.fail(refused, status, times=REFUSALS, retry_after=1 if status == 429 else None)
            proxy.cut(lambda e: e.resource == plan.resource)  # this line is behind the end: it comes again
        return False

    proxy.bend = line
