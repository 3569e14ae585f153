"""A connection that a test leaves open fails that test, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ("pytester",)
ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import asyncio
from tests.kit.sockets import ended

async def connected():
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        return (await asyncio.open_connection(*server.sockets[0].getsockname()))[1]

def test_leaves_one_open():
    asyncio.run(connected())

def test_ends_its_own():
    async def whole():
        await ended(await connected())
    asyncio.run(whole())
"""


def test_who_left_a_connection_open_fails(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\n")
    pytester.makeconftest('pytest_plugins = ("tests.kit.sockets",)')
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_leaves_one_open*", "1 connections were open as *"])
