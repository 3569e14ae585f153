"""Assigning cards as the page's viewer: each card's answer is the API server's, whoever gave it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import GPUDEVICE
from controllers.explain.faults import describe_fault
from controllers.runtime.errors import ApiError, RuntimeFault

if TYPE_CHECKING:
    from console.feed import Feed
    from controllers.runtime.client import Client

CARDS_MAX: Final = 512
"""Cards of one request."""
AT_ONCE: Final = 8
NAME_MAX: Final = 253
NOT_FOUND, UNREACHABLE = 404, 504


class NotAWishError(ValueError):
    """A body that is no wish to assign cards; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Cards that belong into a pool, by the names of the GPUDevices."""

    cards: tuple[str, ...]
    pool: str


def parsed(body: Any) -> Wish:
    """`{"cards": ["gpu-1-0000-19-00-0"], "pool": "training"}`; raises NotAWishError."""
    cards, pool = (body.get("cards"), body.get("pool")) if isinstance(body, dict) else (None, None)
    if not isinstance(pool, str) or not 0 < len(pool) <= NAME_MAX:
        raise NotAWishError("pool is the name of a GPUPool.")
    if not isinstance(cards, list) or not cards or not all(isinstance(card, str) for card in cards):
        raise NotAWishError("cards is a list of names of GPUDevices.")
    if len(cards) > CARDS_MAX:
        raise NotAWishError(f"cards has {len(cards)} names, more than {CARDS_MAX}.")
    return Wish(tuple(dict.fromkeys(cards)), pool)


async def confirm(wish: Wish, client: Client, feed: Feed, *, sees_cards: bool) -> list[dict[str, Any]]:
    """What became of each card: {card, ok} or {card, ok, status, message}. `sees_cards`: the viewer may list them."""
    turn = asyncio.Semaphore(AT_ONCE)
    known = feed.stores[GPUDEVICE.kind]

    async def one(card: str) -> dict[str, Any]:
        found = known.get(card) if sees_cards else None
        if sees_cards and found is None:
            return _refused(card, NOT_FOUND, f"There is no card {card!r}.")
        # Exactly the card that was looked at: another one may have its name by now.
        about = {"uid": found.metadata.uid} if found is not None else {}
        body = {"metadata": {**about, "annotations": {names.ASSIGNMENT: wish.pool}}}
        async with turn:
            try:
                await client.merge(GPUDEVICE, card, body, manager=names.CONSOLE)
            except ApiError as error:
                return _refused(card, error.status, describe_fault(error))
            except RuntimeFault as error:
                return _refused(card, UNREACHABLE, describe_fault(error))
        return {"card": card, "ok": True}

    return list(await asyncio.gather(*map(one, wish.cards)))


def _refused(card: str, status: int, message: str) -> dict[str, Any]:
    return {"card": card, "ok": False, "status": status, "message": message}
