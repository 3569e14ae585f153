"""The page in a real browser over the console's real server, of objects that a test feeds it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from console.confirming import CARDS_MAX
from console.feed import Stale
from tests.console.page.serving import Fed, FixedAccess, served
from tests.console.views.world import HTML, queued, sized, world
from tests.kit.browser import Browser, Page
from tests.kit.browser import page as new_page
from tests.kit.objects import allocation, card, inventory, pool

PAGES = {
    "fleet": "#/fleet",
    "pools": "#/pool",
    "pool": "#/pool?pool=training",
    "pods": "#/pod",
    "pod": "#/pod?namespace=team-a&pod=waits",
    "card": "#/card?card=gpu-2-0000-02-00-0",
    "confirm": "#/confirm",
    "broken": "#/broken",
    "missing": "#/pool?pool=trainin",
}
AXE = Path(__file__).resolve().parents[1] / "vendor" / "axe.min.js"
SERIOUS = ("serious", "critical")
CHANGES = """window.changes = 0; new MutationObserver((found) => { window.changes += found.length; })
    .observe(document.querySelector('.fleet'), {subtree: true, childList: true, attributes: true})"""
pytestmark = pytest.mark.asyncio(loop_scope="module")
FREE = '[data-card="gpu-2-0000-03-00-0"]'


def fed() -> Fed:
    """A feed of the fleet."""
    feed, seen = Fed(), world()
    parts = ("cards", "nodes", "inventories", "pools", "drivers", "pods")
    feed.fill(**{part: getattr(seen, part).values() for part in parts})
    return feed


@pytest.fixture
def feed() -> Fed:
    return fed()


@pytest_asyncio.fixture(loop_scope="module")
async def address(feed: Fed) -> AsyncIterator[str]:
    async with served(feed, FixedAccess(confirms=True)) as found:
        yield found


async def go(page: Page, address: str, where: str) -> None:
    """Open a view, and wait until it shows something of its own."""
    await page.open(address + where)
    await page.until("document.querySelector('main h1') && document.querySelector('.who')")


def put(feed: Fed, *cards: Any) -> None:
    """Put other cards in place of those of the same names."""
    known = {one.name: one for one in feed.stores["GPUDevice"]} | {one.name: one for one in cards}
    feed.fill(cards=known.values())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("where", PAGES)
async def test_axe_finds_nothing_serious(page: Page, address: str, where: str, *, dark: bool) -> None:
    await page.window(1280, 900, dark=dark)
    await go(page, address, PAGES[where])
    await page.evaluate(AXE.read_text() + ";0")
    found = json.loads(await page.evaluate("axe.run().then((all) => JSON.stringify(all.violations))"))
    assert [
        (each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found if each["impact"] in SERIOUS
    ] == []


@pytest.mark.parametrize("where", PAGES)
async def test_a_phone_shows_it_without_scrolling_sideways(page: Page, address: str, where: str) -> None:
    await page.window(390, 844)
    await go(page, address, PAGES[where])
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("where", PAGES)
async def test_a_reload_shows_the_same(page: Page, address: str, where: str) -> None:
    await go(page, address, PAGES[where])
    before = await page.text()
    await page.call("Page.reload")
    await page.until(f"document.body.innerText === {json.dumps(before)}")


async def test_html_in_a_product_is_text(page: Page, address: str) -> None:
    await go(page, address, "#/card?card=gpu-1-0000-01-00-0")
    await page.sees(HTML)
    assert await page.evaluate("document.querySelectorAll('main img').length") == 0


async def test_a_change_of_a_card_changes_its_square_alone(page: Page, feed: Fed, address: str) -> None:
    await go(page, address, "#/fleet")
    await page.until(f"document.querySelector('{FREE}.Free')")
    await page.evaluate(CHANGES)
    put(feed, card("gpu-2", 3, pool="training", allocations=(allocation("late", "u9", namespace="team-a"),)))
    await page.until(f"document.querySelector('{FREE}.InUse')")
    assert await page.evaluate("window.changes") <= 3  # its class, title and label


async def test_a_card_that_comes_and_one_that_goes(page: Page, feed: Fed, address: str) -> None:
    await go(page, address, "#/fleet")
    new = card("gpu-0", 1, pool="training")
    put(feed, new)
    await page.until(f"document.querySelector('.fleet li .sq').dataset.card === '{new.name}'")  # rows stay in order
    feed.fill(cards=[one for one in feed.stores["GPUDevice"] if one.name != new.name])
    await page.until(f"!document.querySelector('[data-card=\"{new.name}\"]')")


async def test_a_queue_moves_up(page: Page, feed: Fed, address: str) -> None:
    await go(page, address, "#/pool?pool=training")
    await page.sees("team-b/secret-wait")
    feed.fill(pods=[one for one in world().pods.values() if one.name != "waits"])
    await page.until("!document.body.innerText.includes('team-a/waits')")
    await page.until("document.querySelector('tbody tr td').innerText.trim() === '1'")


async def test_keys_reach_a_card_and_open_it(page: Page, address: str) -> None:
    await go(page, address, "#/fleet")
    focused = "document.activeElement.dataset.card"
    for _ in range(40):
        await page.press("Tab")
        if await page.evaluate(focused):
            break
    assert await page.evaluate(focused) == "gpu-1-0000-01-00-0"
    await page.press("ArrowRight")
    assert await page.evaluate(focused) == "gpu-1-0000-02-00-0"
    await page.press("ArrowDown")
    assert await page.evaluate(focused) == "gpu-2-0000-02-00-0"
    await page.press("Enter")
    await page.sees("XID 79")


async def test_filters_are_in_the_address(page: Page, browser: Browser, address: str) -> None:
    await go(page, address, "#/fleet")
    await page.click(".legend button:has(.Faulted)")
    await page.sees("1 of 3 nodes")
    where = await page.evaluate("location.href")
    assert where.endswith("#/fleet?state=Faulted")
    async with new_page(browser, context=page.context) as second:  # a second tab, at the address that was copied
        await second.open(where)
        await second.sees("1 of 3 nodes")


async def test_it_speaks_russian_and_keeps_it(page: Page, address: str) -> None:
    await go(page, address, "#/fleet")
    await page.click(".settings button")
    await page.sees("Парк")
    await page.call("Page.reload")
    await page.sees("Что сломалось")
    assert await page.evaluate("document.documentElement.lang") == "ru"


async def test_a_browser_in_russian_is_answered_so(browser: Browser, address: str) -> None:
    async with new_page(browser, language="ru-RU") as page:
        await page.open(address)
        await page.sees("Парк")


async def test_both_languages_say_the_same_things(page: Page, address: str) -> None:
    await go(page, address, "#/fleet")
    keys = json.loads(await page.evaluate("import('./texts.js').then(({ KEYS }) => JSON.stringify(KEYS))"))
    assert keys["en"] == keys["ru"]


async def test_a_theme_that_was_chosen_wins_over_the_system(page: Page, address: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    await page.window(1280, 900, dark=True)
    await go(page, address, "#/fleet")
    dark = await page.evaluate(ground)
    await page.evaluate("(() => { const it = document.querySelector('.settings select'); it.value = 'light';"
                        " it.dispatchEvent(new Event('change', {bubbles: true})); })()")  # fmt: skip
    await page.until(f"{ground} !== '{dark}'")


async def test_old_data_is_said_to_be_old_and_then_not(page: Page, feed: Fed, address: str) -> None:
    await go(page, address, "#/fleet")
    feed.age(Stale(1_800_000_000.0, "connection refused"))
    await page.sees("The API server does not answer")
    await page.sees("connection refused")
    feed.age(None)
    await page.until("!document.querySelector('.stale')")


async def test_a_console_that_ends_and_comes_back(page: Page, feed: Fed) -> None:
    async with served(feed, FixedAccess()) as address:
        await go(page, address, "#/fleet")
    await page.sees("The console does not answer")
    assert await page.evaluate("document.querySelectorAll('.fleet .sq').length") == 6  # what is known stays
    put(feed, card("gpu-2", 3, pool="training", published=None))
    async with served(feed, FixedAccess(), port=int(address.rsplit(":", 1)[1].strip("/"))):
        await page.until(f"document.querySelector('{FREE}.NotOffered')")
        assert await page.evaluate("!document.querySelector('.stale')")


async def test_who_is_nobody_any_more_is_told_what_to_do(page: Page, feed: Fed) -> None:
    access = FixedAccess()
    access.known = False
    async with served(feed, access) as address:
        await page.open(address)
        await page.sees("You are not logged in any more.")
        await page.sees("kubectl gpu console")
        access.known = True
        await page.until("document.querySelector('.fleet')")  # it asks again by itself


async def test_a_pool_that_comes_is_shown(page: Page, feed: Fed, address: str) -> None:
    await go(page, address, "#/pool?pool=later")
    await page.sees("There is no GPUPool later.")
    feed.fill(pools=[*world().pools.values(), pool("later")])
    await page.until("document.querySelector('h1').innerText.startsWith('later')")


async def test_hidden_pods_are_counted(browser: Browser, feed: Fed) -> None:
    async with served(feed, FixedAccess(frozenset({"team-a"}))) as address, new_page(browser) as page:
        await go(page, address, "#/pod")
        await page.sees("2 × Pod that you may not read")
        await go(page, address, "#/card?card=gpu-1-0000-02-00-0")
        await page.sees("1 × a pod of another namespace")
        await go(page, address, "#/pod?namespace=team-b&pod=other")
        await page.sees("You may not read pods of team-b")
        assert "There is no Pod" not in await page.text()
        await go(page, address, "#/fleet")
        assert "secret" not in await page.evaluate("document.documentElement.outerHTML")


async def test_a_pod_that_waits_has_what_each_node_is_to_it(page: Page, feed: Fed, address: str) -> None:
    feed.fill(pods=[*world().pods.values(), queued("one")])
    await go(page, address, "#/pod?namespace=team-a&pod=waits")
    await page.sees("Insufficient gpu.deckhouse.io/training")  # gpu-1 has 2 of the 4
    await go(page, address, "#/pod?namespace=team-a&pod=one")
    await page.sees("other things decide: pods on the node")
    nodes = [one if one.name != "gpu-1" else sized("gpu-1", 2, one.metadata.labels, unschedulable=True)
             for one in world().nodes.values()]  # fmt: skip
    feed.fill(nodes=nodes)
    await page.sees("node(s) were unschedulable (cordoned)")


async def test_who_may_not_confirm_gets_the_command(page: Page, feed: Fed) -> None:
    async with served(feed, FixedAccess()) as address:
        await go(page, address, "#/confirm")
        await page.click("tbody input[type=checkbox]")
        await page.sees("kubectl gpu assign gpu-3-0000-01-00-0 training")
        assert not await page.evaluate("document.querySelector('button.main')")


async def test_more_cards_than_one_request_takes_are_confirmed_in_portions(page: Page, feed: Fed) -> None:
    asked: list[str] = []

    class Client:
        async def merge(self, resource: Any, name: str, body: Any, *, manager: str) -> None:
            del resource, body, manager
            asked.append(name)

    many = [card(f"n{at}", place) for at in range(75) for place in range(8)]
    hints = [
        {"inventory_id": one.status.inventory_id, "reason": "AwaitingApproval", "pool": "training"} for one in many
    ]
    assert len(many) > CARDS_MAX
    lists = [inventory(f"n{at}", [], pools={"pending": hints[300 * at : 300 * (at + 1)]}) for at in range(2)]
    feed.fill(cards=many, inventories=lists)
    access = FixedAccess(confirms=True)
    access.client = lambda _: Client()  # type: ignore[method-assign]
    async with served(feed, access) as address:
        await go(page, address, "#/confirm")
        await page.click(".every input")
        await page.sees("600 chosen")
        await page.click("button.main")
        await page.until("document.querySelectorAll('.answers .good').length === 600")
        await page.sees("0 chosen")
    assert sorted(asked) == sorted(one.name for one in many)
