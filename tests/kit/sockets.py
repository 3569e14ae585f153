"""Connections end with the test that opened them: one whose event loop closes with an open connection fails.

asyncio itself tells of such a connection when its object is collected. That is in some later test of the same worker,
or never: the failure would be another test's, and not each time. A plugin of pytest in every worker.
"""

from __future__ import annotations

import asyncio
from asyncio.selector_events import BaseSelectorEventLoop
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN: Final = 5
LEFT: Final[list[str]] = []
"""What was open in the loops that closed since the last look."""


def pytest_configure() -> None:
    """Look at each loop before it closes."""
    close = BaseSelectorEventLoop.close

    def look_and_close(loop: BaseSelectorEventLoop) -> None:
        LEFT.extend(repr(made) for made in loop._transports.values() if made._sock is not None)  # type: ignore[attr-defined]
        close(loop)

    BaseSelectorEventLoop.close = look_and_close  # type: ignore[assignment, method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail the test after everything that it brought up has been taken down."""
    yield
    left, LEFT[:] = LEFT[:], []
    if left:
        lines = [f"{len(left)} connections were open as the event loop was closed; await tests.kit.sockets.ended:"]
        pytest.fail("\n  ".join([*lines, *left[:SHOWN]]), pytrace=False)


async def ended(*writers: asyncio.StreamWriter) -> None:
    """Drop these connections, without a farewell over TLS, and wait until they are closed."""
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
