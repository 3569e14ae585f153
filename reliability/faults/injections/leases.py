"""Faults of leading: a standby takes over, a lease vanishes, renewals are refused or their answers are lost."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from reliability.faults.injections.process import STOPPED
from reliability.faults.processes import FULL, PACE, standby_of

if TYPE_CHECKING:
    from reliability.faults.environment import Environment
    from reliability.faults.injections.injection import Injection
    from reliability.faults.process_proxy import ProcessProxy
    from reliability.kit.fault_proxy import Exchange, Rule

UNRENEWED: Final = 3.5 * PACE
"""Seconds; longer than a lease."""


async def standby(environment: Environment, process: str, injection: Injection) -> None:
    """Start a second replica, which waits for the lease."""

    async def alone() -> None:
        """The first alone again; the second gives the lease back in order."""
        await environment.alone(process)

    injection.undo.append(alone)
    await environment.second(process)


async def takeover(environment: Environment, process: str, injection: Injection) -> None:
    """The leader is killed and stays away for the rest of the story."""
    began = time.monotonic()
    environment.signal(process, signal.SIGKILL)
    await environment.stop(process)
    _claim_lead(environment, process, injection, began)


async def overtaken(environment: Environment, process: str, injection: Injection) -> None:
    """The leader is stopped until its standby leads, and wakes up."""
    began, proxy = time.monotonic(), environment.proxies[process]

    async def woken() -> None:
        await asyncio.sleep(STOPPED)
        proxy.marks.append(time.monotonic())
        environment.signal(process, signal.SIGCONT)

    environment.signal(process, signal.SIGSTOP)
    _claim_lead(environment, process, injection, began)
    injection.spawn(woken())


def _claim_lead(environment: Environment, process: str, injection: Injection, began: float) -> None:
    proxy = environment.proxies[standby_of(process)]
    injection.claim("its standby leads", lambda: _took(proxy, began))


def _took(proxy: ProcessProxy, since: float) -> bool:
    """Whether a process has written its lease since then."""
    return any(
        s.resource == "leases" and s.landed and s.verb in ("create", "update") and s.at > since for s in proxy.sent()
    )


async def deleted(environment: Environment, process: str, injection: Injection) -> None:
    """Somebody deletes the lease."""
    began, proxy = time.monotonic(), environment.proxies[process]
    await environment.delete(resources.LEASE, FULL[process], names.NAMESPACE)
    injection.claim(
        "its lease is made anew",
        lambda: any(s.resource == "leases" and s.verb == "create" and s.landed and s.at > began for s in proxy.sent()),
    )


def _of_lease(exchange: Exchange) -> bool:
    return exchange.resource == "leases"


def _renewal(exchange: Exchange) -> bool:
    return exchange.resource == "leases" and exchange.method != "GET"


async def refused(environment: Environment, process: str, injection: Injection) -> None:
    """Whatever is asked about leases is answered 500, until the lease is lost."""
    await _while(environment.proxies[process].fail(_of_lease, 500), injection, "its lease was refused")


async def lost(environment: Environment, process: str, injection: Injection) -> None:
    """Renewals are carried out, and no answer arrives."""
    await _while(environment.proxies[process].reset(_renewal, "after"), injection, "a renewal's answer was lost")


async def _while(rule: Rule, injection: Injection, what: str) -> None:
    async def over() -> None:
        await asyncio.sleep(UNRENEWED)
        rule.left = 0

    injection.claim(what, lambda: rule.hits > 1)
    injection.spawn(over())
