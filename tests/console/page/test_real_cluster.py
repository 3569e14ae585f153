"""The page over the real backend and a real cluster with the module on it: somebody confirms cards, and a pod waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllers.api import resources
from sim.controlplane import ControlPlane
from sim.view import View
from tests.console.clusters import Console, console
from tests.kit import browser as kit
from tests.kit.browser import Page
from tests.kit.waiting import until
from tests.slice.people import People

pytestmark = pytest.mark.cluster


@pytest.fixture
async def people(cluster: ControlPlane, view: View) -> People:
    made = People(cluster, view)
    await made.ready_nodes()
    return made


@asynccontextmanager
async def opened(plane: ControlPlane) -> AsyncIterator[tuple[Console, Page]]:
    """The console of the administrator, opened by the address that it would print."""
    if kit.program() is None:
        pytest.skip(kit.MISSING)
    async with console(plane.kubeconfig, own=True) as made, kit.browser() as started, kit.page(started) as page:
        await page.open(f"{made.url}/#token={made.access.secret}")  # type: ignore[union-attr]
        await page.until("document.querySelector('.fleet .sq')")
        assert "token" not in await page.evaluate("location.href")
        yield made, page
        assert not page.faults, page.faults


async def choose(page: Page, cards: list[str]) -> None:
    for card in cards:
        await page.click(f'input[aria-label="Choose {card}"]')
    await page.sees(f"{len(cards)} chosen")


async def test_cards_are_confirmed_in_the_page_and_the_webhooks_answer_is_shown(
    cluster: ControlPlane, people: People
) -> None:
    pool = "page"
    await people.namespace("page-team")
    await people.pool(pool, queue={"onShortage": "Queue"})
    async with opened(cluster) as (made, page):
        await page.evaluate("location.hash = '#/confirm'")
        await page.until("document.querySelectorAll('tbody input[type=checkbox]').length >= 3")
        cards = await page.evaluate(
            "[...document.querySelectorAll('tbody input[type=checkbox]')].map((it) => it.ariaLabel.split(' ')[1])"
        )
        await choose(page, cards[:2])
        await page.click("button.main")
        await page.until("document.querySelectorAll('.answers .good').length === 2")
        await page.until("document.querySelectorAll('tbody input:checked').length === 0")
        await until(lambda: len(people.cards(pool)) == 2, "two cards in the pool")
        await people.offered(pool, 2)

        await page.evaluate("location.hash = '#/fleet'")
        await page.until(f"document.querySelector('[data-card=\"{cards[0]}\"].Free')")

        await people.pod("too-large", "page-team", pool, 2 * len(cards))
        await page.evaluate("location.hash = '#/pod?namespace=page-team&pod=too-large'")
        await page.sees("Pod page-team/too-large waits for")
        await page.sees("TooFewHere")
        await people.remove(resources.POD, "too-large", "page-team")
        await page.sees("There is no Pod page-team/too-large.")

        # The page is behind the cluster, as it may be for a moment: the pool that it offers is gone.
        await page.evaluate("location.hash = '#/confirm'")
        await choose(page, cards[2:3])
        await page.until("document.querySelector('select[name=pool]').value")
        held = _hold(made)
        await people.retire(pool)
        await page.click("button.main")
        await page.until("document.querySelector('.answers .bad')")
        answer = await page.evaluate("document.querySelector('.answers .bad').innerText")
        assert cards[2] in answer
        assert f"'{pool}'" in answer or f" {pool}" in answer, answer
        held()
        await page.until("document.querySelectorAll('tbody input[type=checkbox]').length === 0")


def _hold(made: Console) -> Any:
    """Show nothing new until what is returned is called."""
    turn = made.hub._turn

    async def nothing() -> None:
        pass

    made.hub._turn = nothing  # type: ignore[method-assign]

    def go_on() -> None:
        made.hub._turn = turn  # type: ignore[method-assign]
        made.hub._dirty.set()

    return go_on
