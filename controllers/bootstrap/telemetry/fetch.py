"""Scrapes one DCGM exporter; the text is parsed as it arrives, so that not even a large one stalls the loop."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp

from controllers.bootstrap.health.dcgm_parser import DcgmParser

if TYPE_CHECKING:
    from controllers.bootstrap.health.dcgm_parser import CardSample

MAX_BYTES: Final = 5 * 1024 * 1024
PIECE: Final = 64 * 1024
"""Bytes that are read at once: half a millisecond of work."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """How one scrape ended."""

    node: str
    ended_at: float
    """When it ended; seconds since the epoch."""
    result: str
    """ok, no_cards, http, too_large, timeout, unreachable or broken."""
    cards: tuple[CardSample, ...] = ()
    error: str = ""
    """What was found, for people; empty when all is well."""

    @property
    def fresh(self) -> bool:
        """Whether it counts as a heartbeat."""
        return self.result == "ok"


class _Refused(Exception):
    """A scrape without cards: the word of the result and the sentence."""


async def fetch(node: str, url: str, session: aiohttp.ClientSession) -> Scrape:
    """Scrape a node; what goes wrong is told in the result."""
    try:
        cards = await _cards(url, session)
    except _Refused as refusal:
        result, text = refusal.args
    except TimeoutError:
        result, text = "timeout", f"{url} did not answer in {session.timeout.total:g} s"
    except aiohttp.ClientConnectorError as error:
        result, text = "unreachable", f"cannot connect to {url}: {error.os_error.strerror or error}"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        result, text = "broken", f"{url}: {error or type(error).__name__}"
    else:
        return Scrape(node, time.time(), "ok", cards)
    return Scrape(node, time.time(), result, (), text)


async def _cards(url: str, session: aiohttp.ClientSession) -> tuple[CardSample, ...]:
    """The cards of one text; raises what went wrong."""
    parser, size = DcgmParser(), 0
    async with session.get(url, allow_redirects=False) as response:
        if response.status != 200:  # noqa: PLR2004 - HTTP's OK
            raise _Refused("http", f"{url} answered {response.status}, expected 200")
        while piece := await response.content.read(PIECE):
            size += len(piece)
            if size > MAX_BYTES:
                raise _Refused("too_large", f"{url} sent more than {MAX_BYTES} bytes")
            parser.parse(piece)
            await asyncio.sleep(0)
    if not (cards := parser.cards()):
        raise _Refused("no_cards", f"{url} answers with lines that name no card of DCGM's")
    return cards
