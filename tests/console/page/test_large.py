"""The page with 8,000 cards: what is seen at once, and how long a change takes to be seen."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest

from tests.console.page.fleet import fed
from tests.console.page.serving import FixedAccess, served
from tests.kit.browser import Page
from tests.kit.objects import card
from tests.kit.pace import Stretch

NODES = 1000
CHANGES = 20
FIRST_PAINT, CHANGE = 1.0, 0.5
"""Seconds: until cards are seen, and from a change of a card to its pixels."""
WATCH = """(name, state) => new Promise((done) => {
    const it = document.querySelector(`[data-card="${name}"]`);
    const look = () => requestAnimationFrame(it.classList.contains(state) ? () => setTimeout(done, 0) : look);
    look(); })"""


@pytest.mark.asyncio(loop_scope="module")
async def test_cards_are_seen_at_once_and_changes_soon(page: Page) -> None:
    feed = fed(NODES)
    stretch = Stretch()
    with stretch:
        async with served(feed, FixedAccess()) as address:
            await page.open(address)
            await page.until("document.querySelectorAll('.fleet .sq').length > 400")
            await page.until("performance.getEntriesByName('first-cards').length")
            first = await page.evaluate("performance.getEntriesByName('first-cards')[0].startTime") / 1000
            await page.until(f"document.querySelectorAll('.fleet .sq').length === {NODES * 8}")
            every = list(feed.stores["GPUDevice"])
            took = []
            for at in range(CHANGES):
                before = every[at * 397]
                place = before.status.hardware.pci.address  # type: ignore[union-attr]
                new = card(before.status.node_name or "", place, pool="training", published=None)
                every[at * 397] = new
                seen = asyncio.create_task(page.evaluate(f"({WATCH})({json.dumps(new.name)}, 'NotOffered')"))
                began = time.monotonic()
                feed.fill(cards=every)
                await seen
                took.append(time.monotonic() - began)
    took.sort()
    sys.stderr.write(
        f"first paint {first:.2f} s; change to pixels median {took[CHANGES // 2]:.2f} s, p95 {took[-2]:.2f} s\n"
    )
    stretch.judge("the first paint", first, FIRST_PAINT)
    stretch.judge("a change until it is seen, in 19 of 20 cases", took[-2], CHANGE)
