"""A browser for each test that looks at a page; without one they are skipped, and say so."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.kit import browser as kit
from tests.kit.browser import Browser, Page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    if kit.program() is None:
        assert not os.environ.get("CI"), f"in CI this is a failure: {kit.MISSING}"
        pytest.skip(kit.MISSING)
    async with kit.browser() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with kit.page(browser) as found:
        yield found
        assert not found.faults, found.faults
