"""Assigning cards as the page's viewer: each card's answer is the API server's, whoever gave it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import GPUDEVICE
from controllers.explain.faults import describe_fault
from controllers.runtime.errors import ApiError, RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.feed import Feed
    from controllers.runtime.client import Client

CARDS_MAX: Final = 512
"""Cards of one request."""
AT_ONCE: Final = 8
NAME_MAX: Final = 253
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Of an object, as the API server takes it: it goes into the path of a request."""
NOT_FOUND, CONFLICT, UNREACHABLE = 404, 409, 504


class InvalidRequestError(ValueError):
    """A body that is no request to assign cards; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class AssignmentRequest:
    """A request to assign cards to a pool."""

    cards: Mapping[str, str]
    """By the names of the GPUDevices, the uid of the one that was looked at; empty where the viewer saw none."""
    pool: str


def parsed(body: Any) -> AssignmentRequest:
    """`{"cards": [{"name": "gpu-1-0000-19-00-0", "uid": "…"}], "pool": "training"}`; raises InvalidRequestError.

    A name alone stands for whatever card has it.
    """
    cards, pool = (body.get("cards"), body.get("pool")) if isinstance(body, dict) else (None, None)
    if not isinstance(pool, str) or not 0 < len(pool) <= NAME_MAX:
        raise InvalidRequestError("pool is the name of a GPUPool.")
    if not isinstance(cards, list) or not cards:
        raise InvalidRequestError("cards is a list of GPUDevices, each {name, uid}.")
    if len(cards) > CARDS_MAX:
        raise InvalidRequestError(f"cards has {len(cards)} names, more than {CARDS_MAX}.")
    return AssignmentRequest(dict(map(_card, cards)), pool)


def _card(found: Any) -> tuple[str, str]:
    name, uid = (found.get("name"), found.get("uid")) if isinstance(found, dict) else (found, "")
    if not isinstance(name, str) or not NAME.fullmatch(name) or not isinstance(uid, str):
        raise InvalidRequestError("cards is a list of GPUDevices, each {name, uid}.")
    return name, uid


async def confirm(request: AssignmentRequest, client: Client, feed: Feed, *, sees_cards: bool) -> list[dict[str, Any]]:
    """What became of each card: {card, ok} or {card, ok, status, message}. `sees_cards`: the viewer may list them."""
    turn = asyncio.Semaphore(AT_ONCE)
    known = feed.stores[GPUDEVICE.kind]

    async def one(card: str) -> dict[str, Any]:
        found = known.get(card) if sees_cards else None
        if sees_cards and found is None:
            return _refused(card, NOT_FOUND, f"There is no card {card!r}.")
        if found is not None and request.cards[card] not in ("", found.metadata.uid):
            return _refused(card, CONFLICT, f"Card {card!r} is another one by now: look at it again.")
        # Exactly the card that was looked at, also where another one takes its name right now.
        about = {"uid": found.metadata.uid} if found is not None else {}
        body = {"metadata": {**about, "annotations": {names.ASSIGNMENT: request.pool}}}
        async with turn:
            try:
                await client.merge(GPUDEVICE, card, body, manager=names.CONSOLE)
            except ApiError as error:
                return _refused(card, error.status, describe_fault(error))
            except RuntimeFault as error:
                return _refused(card, UNREACHABLE, describe_fault(error))
        return {"card": card, "ok": True}

    return list(await asyncio.gather(*map(one, request.cards)))


def _refused(card: str, status: int, message: str) -> dict[str, Any]:
    return {"card": card, "ok": False, "status": status, "message": message}
