"""Faults of leading: a standby takes over, a lease vanishes, renewals are refused or their answers are lost."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from reliability.faults.processes import FULL, PACE, standby_of
from reliability.faults.strikes.process import STOPPED

if TYPE_CHECKING:
    from reliability.faults.ground import Ground
    from reliability.faults.strikes.strike import Strike
    from reliability.faults.tap import Tap
    from reliability.kit.faultproxy import Exchange, Rule

UNRENEWED: Final = 3.5 * PACE
"""Seconds; longer than a lease."""


async def standby(ground: Ground, process: str, strike: Strike) -> None:
    """Start a second replica, which waits for the lease."""

    async def alone() -> None:
        """The first alone again; the second gives the lease back in order."""
        await ground.alone(process)

    strike.undo.append(alone)
    await ground.second(process)


async def takeover(ground: Ground, process: str, strike: Strike) -> None:
    """The leader is killed and stays away for the rest of the story."""
    began = time.monotonic()
    ground.signal(process, signal.SIGKILL)
    await ground.stop(process)
    _claim_lead(ground, process, strike, began)


async def overtaken(ground: Ground, process: str, strike: Strike) -> None:
    """The leader is stopped until its standby leads, and wakes up."""
    began, tap = time.monotonic(), ground.taps[process]

    async def woken() -> None:
        await asyncio.sleep(STOPPED)
        tap.marks.append(time.monotonic())
        ground.signal(process, signal.SIGCONT)

    ground.signal(process, signal.SIGSTOP)
    _claim_lead(ground, process, strike, began)
    strike.spawn(woken())


def _claim_lead(ground: Ground, process: str, strike: Strike, began: float) -> None:
    tap = ground.taps[standby_of(process)]
    strike.claim("its standby leads", lambda: _took(tap, began))


def _took(tap: Tap, since: float) -> bool:
    """Whether a process has written its lease since then."""
    return any(
        s.resource == "leases" and s.landed and s.verb in ("create", "update") and s.at > since for s in tap.sent()
    )


async def deleted(ground: Ground, process: str, strike: Strike) -> None:
    """Somebody deletes the lease."""
    began, tap = time.monotonic(), ground.taps[process]
    await ground.delete(resources.LEASE, FULL[process], names.NAMESPACE)
    strike.claim(
        "its lease is made anew",
        lambda: any(s.resource == "leases" and s.verb == "create" and s.landed and s.at > began for s in tap.sent()),
    )


def _of_lease(exchange: Exchange) -> bool:
    return exchange.resource == "leases"


def _renewal(exchange: Exchange) -> bool:
    return exchange.resource == "leases" and exchange.method != "GET"


async def refused(ground: Ground, process: str, strike: Strike) -> None:
    """Whatever is asked about leases is answered 500, until the lease is lost."""
    await _while(ground.taps[process].fail(_of_lease, 500), strike, "its lease was refused")


async def lost(ground: Ground, process: str, strike: Strike) -> None:
    """Renewals are carried out, and no answer arrives."""
    await _while(ground.taps[process].reset(_renewal, "after"), strike, "a renewal's answer was lost")


async def _while(rule: Rule, strike: Strike, what: str) -> None:
    async def over() -> None:
        await asyncio.sleep(UNRENEWED)
        rule.left = 0

    strike.claim(what, lambda: rule.hits > 1)
    strike.spawn(over())
