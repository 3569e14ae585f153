"""What viewers of different rights share: versions of objects, and pages that show no pods."""

from __future__ import annotations

import asyncio

import pytest

from console import redactions
from console import sight as sights
from console.budgets import Budgets
from console.hub import Hub
from console.kinds import WHOLE
from console.redactions import Redactions
from console.rights import HIDDEN, Rights, guarded
from console.sight import PORTION, Sight
from console.viewers import Viewer
from console.views import VIEWS
from tests.console.page.serving import Fed
from tests.kit.objects import address, allocation, card, condition

KINDS = frozenset(read.resource.kind for read in WHOLE)
TEAMS = [f"team-{number}" for number in range(20)]
NODES, EACH = 150, 8
BUDGET = Budgets().of(Viewer("somebody"))


def fed(nodes: int = NODES) -> Fed:
    """Cards of 20 teams, in use; the first of each node is free."""
    made = Fed()
    made.fill(
        cards=[
            card(f"n{at:03}", address(place), pool="train", allocations=_tenants(at * EACH + place) if place else ())
            for at in range(nodes)
            for place in range(EACH)
        ]
    )
    return made


def _tenants(number: int) -> tuple[object, ...]:
    return (allocation("covert", f"u{number}", namespace=TEAMS[number % len(TEAMS)]),)


def rights(*namespaces: str) -> Rights:
    return Rights(KINDS, frozenset(namespaces))


async def test_twenty_teams_share_the_versions_of_cards() -> None:
    feed = fed()
    redactions = Redactions(feed)
    cards = {one.name: one for one in feed.stores["GPUDevice"]}
    distinct: dict[str, set[int]] = {name: set() for name in cards}
    for team in TEAMS:
        sight = Sight(feed, rights(team), redactions)
        await sight.prepare()
        for name, shown in sight.seen().cards.items():
            distinct[name].add(id(shown))
            free = not cards[name].status.allocations
            own = free or cards[name].status.allocations[0].namespace == team
            assert (shown is cards[name]) == own
            assert free or (shown.status.allocations[0].namespace == (team if own else HIDDEN))
    # Its own, and one for all others.
    assert {len(found) for found in distinct.values()} == {1, 2}


async def test_a_version_goes_with_its_card() -> None:
    feed = fed(1)
    redactions = Redactions(feed)
    sight = Sight(feed, rights("team-1"), redactions)
    before = sight.seen().cards
    every = list(feed.stores["GPUDevice"])
    changed = card("n000", address(2), pool="train", allocations=_tenants(1))
    feed.fill(cards=[changed if one.name == changed.name else one for one in every[:-1]])
    after = sight.seen().cards
    assert after[changed.name] is changed, "it is this team's by now"
    assert [name for name in after if after[name] is not before[name]] == [changed.name]
    assert redactions._known["GPUDevice"].keys() == {one.name for one in every[:-1]}


async def test_versions_of_a_card_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.redactions.VERSIONS_MAX", 3)
    feed, namespaces = Fed(), TEAMS[:6]
    held = tuple(allocation(f"p{at}", f"u{at}", namespace=name) for at, name in enumerate(namespaces))
    feed.fill(cards=[card("n1", slots=8, allocations=held)])
    redactions = Redactions(feed)
    for team in namespaces:
        (shown,) = Sight(feed, rights(team), redactions).seen().cards.values()
        assert [one.namespace for one in shown.status.allocations if one.namespace != HIDDEN] == [team]
        (known,) = redactions._known["GPUDevice"].values()
        assert len(known.versions) <= 3


async def test_who_comes_with_new_rights_holds_nobody_up() -> None:
    feed = fed()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await Sight(feed, rights("team-1"), Redactions(feed)).prepare()
    running.cancel()
    assert turns >= NODES * EACH // PORTION


async def test_a_page_that_shows_no_pods_is_one_for_all_teams() -> None:
    feed = fed(2)
    hub = Hub(feed, VIEWS)
    for team in TEAMS:
        async with hub.reading(rights(team), "fleet", (), BUDGET), hub.reading(rights(team), "broken", (), BUDGET):
            pass
    assert len([key for key in hub._channels if key[1] == "fleet"]) == 1
    assert len([key for key in hub._channels if key[1] == "broken"]) == len(TEAMS)
    everybody = await hub.rows(Rights(KINDS, None), "fleet", (), BUDGET)
    for name in ("fleet", "confirm"):
        assert not VIEWS[name].pods
        assert await hub.rows(rights("team-3"), name, (), BUDGET) == await hub.rows(
            Rights(KINDS, None), name, (), BUDGET
        )
    assert everybody


@pytest.mark.parametrize(
    "text",
    ["2 pods (team-b/x, team-a/y) have it.", "Pod/team-b/x", "x.team-b/x", "team-b/x.md", "see a/team-b/x", "team-b/*"],
)
def test_whatever_may_be_taken_out_of_a_text_is_mentioned_by_it(text: str) -> None:
    feed, other = Fed(), card("n1", conditions=(condition("Faulted", True, "X", text),))
    assert "team-b" in Redactions(feed).mentions("GPUDevice", other)
    asked: list[str] = []
    guarded(text, lambda namespace: bool(asked.append(namespace)), ("team-a", "team-b"))
    assert set(asked) <= Redactions(feed).mentions("GPUDevice", other)


def test_names_that_change_with_each_report_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node writes the texts of its own cards, and may write other names in each."""
    for module in (redactions, sights):
        monkeypatch.setattr(module, "SETS_MAX", 4)
    feed = Fed()
    made = Redactions(feed)
    sight = Sight(feed, Rights(KINDS, frozenset({"team-a"})), made)
    for number in range(20):
        feed.fill(cards=[card("n1", conditions=(condition("Faulted", True, "X", f"made-up-{number}/x"),))])
        assert len(sight.seen().cards) == 1
        assert len(made._equal) <= 4
        assert len(sight._hidden) <= 4
