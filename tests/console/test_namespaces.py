"""Whose word counts for the name of a namespace, and what asking about made-up ones may cost."""

from __future__ import annotations

import pytest

from console.namespaces import EACH, FEW, Anything, Namespaces
from console.redactions import Redactions
from console.rights import ANOTHER, Rights
from console.sight import Sight
from controllers.api.gpudevice import GPUDevice
from tests.console.page.serving import EVERYTHING, Fed
from tests.console.test_budgets import Clock
from tests.console.views.world import seen_pod
from tests.kit.objects import allocation, card, condition


@pytest.fixture
def clock() -> Clock:
    return Clock()


def had_by(*namespaces: str, node: str = "n1") -> GPUDevice:
    """A card that is in use by pods of these."""
    return card(
        node, pool="train", allocations=tuple(allocation("p", f"u-{each}", namespace=each) for each in namespaces)
    )


def made_up(count: int, first: int = 0) -> list[str]:
    return [f"made-up-{number:05}" for number in range(first, first + count)]


def test_namespaces_that_pods_and_cards_name_are_known_while_they_do() -> None:
    found, pod = Namespaces(), seen_pod("a", "team-a")
    found.pod(None, pod)
    found.card(None, had_by("team-a", "team-b"))
    known = found.known
    assert known == {"team-a", "team-b"}
    found.card(had_by("team-a", "team-b"), had_by("team-b"))
    assert found.known == known
    found.pod(pod, None)
    assert found.known == {"team-b"}
    found.card(had_by("team-b"), None)
    assert found.known == set()
    assert "team-b" in found.named, "texts name pods that are gone"
    assert "team-c" not in found.named


def test_a_card_that_is_on_another_node_by_now_is_counted_there() -> None:
    found = Namespaces()
    found.card(None, had_by("team-a"))
    found.card(had_by("team-a"), had_by("team-a", node="n2"))
    found.card(had_by("team-a", node="n2"), None)
    assert found.known == set()


def test_a_node_that_makes_names_up_is_believed_few_and_others_all(clock: Clock) -> None:
    found = Namespaces(clock)
    found.card(None, had_by(*made_up(3 * FEW), "team-a"))
    assert len(found.known) == FEW
    assert isinstance(found.named, Anything), "what is not believed may be a real one all the same"
    found.card(None, had_by("team-b", node="n2"))
    found.pod(None, seen_pod("a", "team-a"))
    assert found.known > {"team-a", "team-b"}


def test_names_that_change_with_each_report_are_one_question_in_half_a_minute(clock: Clock) -> None:
    found, asked, last = Namespaces(clock), set[str](), None
    for number in range(1000):
        now = had_by(*made_up(8, 8 * number))
        found.card(last, now)
        found.look()
        asked |= found.known
        last = now
        clock.advance(1.0)
    assert len(asked) <= FEW + 1000 / EACH
    assert len(found._of_nodes) <= 8


def test_what_had_to_wait_comes_in_its_time(clock: Clock) -> None:
    found = Namespaces(clock)
    found.card(None, had_by(*made_up(FEW + 1)))
    assert not found.look()
    clock.advance(EACH + 1)
    assert found.look()
    assert found.known == {*made_up(FEW + 1)}
    assert not found.look()


def test_where_more_is_named_than_is_believed_every_text_hides_what_may_be_a_pod() -> None:
    feed = Fed()
    told = card("n2", conditions=(condition("Faulted", message="while team-z/covert had it"),))
    feed.fill(cards=[told])
    sight = Sight(feed, Rights(EVERYTHING, frozenset({"team-a"})), Redactions(feed))
    assert "team-z/covert" in str(sight.seen().cards), "nothing says that this is a pod"
    feed.fill(cards=[told, had_by(*made_up(2 * FEW))])
    assert "covert" not in str(sight.seen().cards)
    assert ANOTHER in str(sight.seen().cards)


def test_a_new_namespace_makes_those_texts_anew_that_name_it() -> None:
    feed = Fed()
    texts = {name: f"while {team}/x had it" for name, team in (("n1", "team-b"), ("n2", "team-c"))}
    feed.fill(cards=[card(name, conditions=(condition("Faulted", message=text),)) for name, text in texts.items()])
    sight = Sight(feed, Rights(EVERYTHING, frozenset({"team-a"})), Redactions(feed))
    before = sight.seen().cards
    feed.fill(pods=[seen_pod("other", "team-c")])
    after = sight.seen().cards
    assert [name[:2] for name in after if after[name] is not before[name]] == ["n2"]
