"""Bearer tokens of who reads us: how they come, and how the API server is asked about them without being flooded.

For `readers` (who may read a program's metrics) and for the console. A token is known by its hash alone. Of many who
show the same token one asks; of strangers only so many questions are under way, and so many wait, since each of their
connections takes memory. Lives as long as its program, in its event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
SCHEME: Final = "bearer "


class CrowdedError(Exception):
    """Too many strangers come at once: nobody was asked."""


class Questions(Generic[T]):
    """Questions about tokens that are under way."""

    def __init__(self, *, at_once: int, waiting: int) -> None:
        """`at_once`: questions, beyond which no stranger has another one; `waiting`: strangers and others who wait."""
        self._at_once, self._most_waiting = at_once, waiting
        self._asking: dict[bytes, asyncio.Task[T]] = {}
        self._waiting = 0

    async def answer(self, key: bytes, ask: Callable[[], Coroutine[Any, Any, T]], *, stranger: bool) -> T:
        """What `ask` comes to, once for all who wait for the same token. Raises CrowdedError, and what `ask` raises.

        `stranger`: whether nobody is known by the token; who is known always gets an answer.
        """
        asking = self._asking.get(key)
        is_full = self._waiting >= self._most_waiting or (asking is None and len(self._asking) >= self._at_once)
        if stranger and is_full:
            raise CrowdedError
        if asking is None:
            # A task of its own: others may wait for it when the first has gone.
            asking = self._asking[key] = asyncio.create_task(ask())
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        self._waiting += 1
        try:
            return await asyncio.shield(asking)
        finally:
            self._waiting -= 1


def shown(authorization: str) -> str:
    """The token in a header `Authorization`; empty where it has none that can be one."""
    token = authorization[len(SCHEME) :].strip() if authorization[: len(SCHEME)].lower() == SCHEME else ""
    return token if token.isascii() else ""


def hashed(token: str) -> bytes:
    """By what a token is known."""
    return hashlib.sha256(token.encode()).digest()


def remember(words: dict[bytes, T], key: bytes, word: T, most: int) -> None:
    """Keep a word about a token, the latest at the end; beyond `most` the oldest goes."""
    words.pop(key, None)
    words[key] = word
    while len(words) > most:
        del words[next(iter(words))]
