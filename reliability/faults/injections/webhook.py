"""Faults of the webhook: away, slow, its certificates broken, and a second replica beside it."""

from __future__ import annotations

import asyncio
import base64
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import orjson

from controllers.api import names, resources
from controllers.runtime.errors import RuntimeFault
from reliability.faults.processes import MANAGER, PACE, standby_of
from webhook.certs import pki

if TYPE_CHECKING:
    from reliability.faults.environment import Environment
    from reliability.faults.injections.injection import Injection

AWAY: Final = 2.0 * PACE
"""Seconds for which it is away."""
SLOW: Final = 6.5
"""The webhook configurations say 5 s: the API server itself gives up. No pace: that is no timer of ours."""
SECRETS: Final = ("secrets",)
CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def _claim_noticed(environment: Environment, injection: Injection, seconds: float) -> None:
    """People are told that the webhook could not be asked, or it is passed by, where it only warns."""
    began = time.monotonic()

    def noticed() -> bool:
        refused = any(at > began and "calling webhook" in why for at, why in environment.refused)
        return refused or any(began < at < began + seconds for at in environment.taken)

    injection.claim("people were refused, or passed it by", noticed)


def _claim_mended(environment: Environment, injection: Injection, written: tuple[str, ...]) -> None:
    """The webhook puts it right."""
    began, proxy = time.monotonic(), environment.proxies["webhook"]
    injection.claim(
        "the webhook put it right",
        lambda: any(s.resource in written and s.landed and s.at > began for s in proxy.sent()),
    )


async def down(environment: Environment, _: str, injection: Injection) -> None:
    """It is away for a while."""

    async def back() -> None:
        await asyncio.sleep(AWAY)
        environment.start("webhook")
        await environment.up(["webhook"])

    await environment.stop("webhook")
    _claim_noticed(environment, injection, AWAY)
    injection.spawn(back())


async def slow(environment: Environment, _: str, injection: Injection) -> None:
    """A review takes longer than the API server waits."""

    async def woken() -> None:
        await asyncio.sleep(SLOW)
        environment.signal("webhook", signal.SIGCONT)

    environment.signal("webhook", signal.SIGSTOP)
    _claim_noticed(environment, injection, SLOW)
    injection.spawn(woken())


async def expired(environment: Environment, _: str, injection: Injection) -> None:
    """Its certificate, and the authority that signed it, are of yesterday."""
    past = time.time() - 3 * 86400.0
    bundle, key = pki.make_authority(past, 86400.0)
    certificate, serving = pki.issue(bundle, key, past, 3600.0)
    data = {"ca.crt": bundle, "ca.key": key, "tls.crt": certificate, "tls.key": serving}
    body = {"data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}}
    _claim_mended(environment, injection, SECRETS)
    await environment.client.merge(
        resources.SECRET, names.WEBHOOK_SECRET, body, manager=MANAGER, namespace=names.NAMESPACE
    )


async def secret(environment: Environment, _: str, injection: Injection) -> None:
    """Somebody deletes the Secret with its certificates."""
    _claim_mended(environment, injection, SECRETS)
    await environment.delete(resources.SECRET, names.WEBHOOK_SECRET, names.NAMESPACE)


async def authority(environment: Environment, _: str, injection: Injection) -> None:
    """Somebody writes another authority into the webhook configurations."""
    made, _key = pki.make_authority(time.time(), 86400.0)
    bundle = base64.b64encode(made.encode()).decode()
    _claim_mended(environment, injection, CONFIGURATIONS)
    for resource in (resources.MUTATING_WEBHOOK, resources.VALIDATING_WEBHOOK):
        found = orjson.loads(await environment.client.get(resource, names.WEBHOOK_CONFIGURATION))
        for webhook in found["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle
        with suppress(RuntimeFault):
            await environment.client.replace(resource, names.WEBHOOK_CONFIGURATION, found, manager=MANAGER)


async def second(environment: Environment, _: str, injection: Injection) -> None:
    """Start a second replica, which gets no connection yet."""

    async def alone() -> None:
        await environment.alone("webhook")

    injection.undo.append(alone)
    await environment.second("webhook")


async def twin(environment: Environment, _: str, injection: Injection) -> None:
    """Two replicas answer in turn; neither has seen what the other has just promised."""
    environment.share()
    before = await environment.reviews(standby_of("webhook"))

    async def asked() -> bool:
        return await environment.reviews(standby_of("webhook")) > before

    async def in_turn() -> None:
        environment.reconnect()

    injection.every_step = in_turn
    injection.claim("the second replica was asked", asked)
