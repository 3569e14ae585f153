"""Faults at one request of one process: it dies there, or is answered otherwise than it should be."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final, Literal

from controllers.api import names, resources
from reliability.faults import plans
from reliability.faults.process_proxy import spelled
from reliability.faults.processes import FULL, REQUEST_TIMEOUT
from reliability.kit.fault_proxy import Reset

if TYPE_CHECKING:
    from reliability.faults.environment import Environment
    from reliability.faults.injections.injection import Injection
    from reliability.faults.plans import Plan
    from reliability.kit.fault_proxy import Exchange

SLOW: Final = 0.6 * REQUEST_TIMEOUT
"""Late, but an answer."""
EVER: Final = 3600.0
When = Literal["before", "after"]


def kill(environment: Environment, plan: Plan, injection: Injection) -> None:
    """`kill -9`; before: the request never reaches the API server, after: its answer never arrives."""

    def hook(exchange: Exchange) -> None:
        injection.at(spelled(exchange))
        environment.signal(plan.process, signal.SIGKILL)
        if plan.fault == "kill-before" and plan.process in plans.LEADERS:
            # Its successor need not wait: of the other half of the plans each waits until the lease has run out.
            injection.spawn(environment.delete(resources.LEASE, FULL[plan.process], names.NAMESPACE))
        raise Reset  # what was not passed on yet never is

    when: When = "before" if plan.fault == "kill-before" else "after"
    environment.proxies[plan.process].on_request(plan.thing, when, hook)


def answer(environment: Environment, plan: Plan, injection: Injection) -> None:
    """Another answer than the API server's, none, or a late one; once."""
    proxy = environment.proxies[plan.process]
    how, _, after = plan.fault.removeprefix("read-").partition("-")
    when: When = "after" if after == "after" else "before"

    def struck(exchange: Exchange) -> bool:
        if found := spelled(exchange) == plan.thing:
            injection.at(plan.thing)
        return found

    if how.isdigit():
        proxy.fail(struck, int(how), when, times=1, retry_after=1 if how == "429" else None)
    elif how in ("hang", "slow"):
        proxy.delay(struck, EVER if how == "hang" else SLOW, when, times=1)
    else:
        proxy.lose(struck, when)
