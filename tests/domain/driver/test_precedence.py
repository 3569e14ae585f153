"""Who has a node of several drivers, what overlaps, and how much it takes to know."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from controllers.domain.driver.overlaps import explain, overlaps
from controllers.domain.driver.precedence import Precedence, Ranking
from tests.domain.driver.make import B200, H100, V100, driver

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver

ZONE_A = {"nodeSelector": {"matchLabels": {"zone": "a"}}}
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def devices(**keys: list[str]) -> dict[str, object]:
    return {"devices": keys}


def test_the_highest_priority_has_the_node() -> None:
    asked = Precedence([driver("low", priority=-1), driver("high", priority=5, created=NEW), driver("none")])

    assert asked.of({}, (H100,), "low") == Ranking("high", ("none", "low"))


def test_of_equal_ones_who_has_it_then_the_older_then_the_name() -> None:
    asked = Precedence([driver("b", created=NEW), driver("c", created=OLD), driver("a", created=NEW)])

    assert asked.of({}, (H100,), "a") == Ranking("a", ("c", "b"), ("c", "b"))
    assert asked.of({}, (H100,)) == Ranking("c", ("a", "b"), ("a", "b"))
    assert asked.of({}, (H100,), "gone").winner == "c"
    assert Precedence([driver("b"), driver("a")]).of({}, (H100,)).winner == "a"


def test_who_has_a_node_loses_it_to_a_higher_priority_alone() -> None:
    asked = Precedence([driver("first", created=OLD), driver("second", created=NEW, priority=1)])

    assert asked.of({}, (H100,), "first").winner == "second"


def test_one_that_is_deleted_has_no_node() -> None:
    asked = Precedence([driver("going", priority=9, deleted=True), driver("next")])

    assert asked.of({}, (H100,), "going") == Ranking("next")


def test_nobody_matches_a_node_that_nobody_selects() -> None:
    asked = Precedence([driver("a", target=ZONE_A)])

    assert asked.of({"zone": "b"}, (H100,)) == asked.of({}, (H100,)) == Ranking()
    assert asked.of({"zone": "a"}, (H100,)).winner == "a"


@pytest.mark.parametrize(
    ("wanted", "matched"),
    [
        ({"families": ["hopper"]}, True),
        ({"families": ["Hopper", "volta"]}, True),
        ({"families": ["blackwell"]}, False),
        ({"pciIDs": ["10de:2330"]}, True),
        ({"pciIDs": ["1002:2330"]}, False),
        ({"products": ["NVIDIA H100 80GB HBM3"]}, True),
        ({"products": ["NVIDIA H100 80GB HBM3"], "families": ["volta"]}, False),
        ({}, True),
    ],
)
def test_a_node_is_matched_by_one_of_its_cards_that_has_all_that_is_asked(
    wanted: dict[str, list[str]], matched: bool
) -> None:
    asked = Precedence([driver("a", target=devices(**wanted))])

    assert (asked.of({}, (V100, H100)).winner == "a") is (matched or wanted == {"families": ["volta"]})
    assert (asked.of({}, (H100,)).winner == "a") is matched


def test_a_node_without_a_card_of_nvidias_is_nobodys() -> None:
    assert Precedence([driver("all")]).of({}, (), "all") == Ranking()


def test_a_node_whose_labels_or_cards_change_is_judged_anew() -> None:
    asked = Precedence([driver("a", target=ZONE_A), driver("b", target=devices(families=["blackwell"]))])

    assert asked.of({"zone": "a", "x": "1"}, (H100,)).winner == "a"
    assert asked.of({"zone": "b"}, (H100,)).winner is None
    assert asked.of({"zone": "b"}, (B200,)).winner == "b"


def test_both_are_told_what_they_share() -> None:
    drivers = [driver("big", priority=1), driver("small", target=ZONE_A), driver("twin", priority=1, created=NEW)]
    asked = Precedence(drivers)
    found = overlaps((f"n{number}", asked.of({"zone": "a"}, (H100,))) for number in range(7))

    assert explain(found["small"]) == (
        "7 nodes (n0, n1, n2, n3, n4 and 2 more) are matched and go to others: big has 7: give the drivers different "
        "spec.priority, or narrow spec.target"
    )
    assert "7 nodes (n0, n1, n2, n3, n4 and 2 more) also match twin with the same priority" in explain(found["big"])
    assert "big has 7" in explain(found["twin"])


def test_drivers_apart_share_nothing() -> None:
    asked = Precedence([driver("a", target=ZONE_A), driver("b", target=devices(families=["volta"]))])

    assert not overlaps([("n0", asked.of({"zone": "a"}, (H100,))), ("n1", asked.of({}, (V100,)))])


def cluster(drivers: int, nodes: int) -> tuple[list[GPUDriver], list[tuple[str, dict[str, str]]]]:
    """Nodes with names and zones of their own; half of the drivers select a zone each, half a zone that others have."""
    made = []
    for number in range(drivers):
        zone = number if number % 2 else number // 4
        target = {"nodeSelector": {"matchLabels": {"zone": f"z{zone}", "gpu.deckhouse.io/present": "true"}}}
        made.append(driver(f"d{number:03}", priority=number % 5, target=target))
    labels = [
        {"kubernetes.io/hostname": f"n{number}", "zone": f"z{number % drivers}", "gpu.deckhouse.io/present": "true"}
        for number in range(nodes)
    ]
    return made, [(f"n{number:04}", each) for number, each in enumerate(labels)]


def test_two_hundred_drivers_over_a_thousand_nodes_are_resolved_by_few_comparisons() -> None:
    drivers, nodes = cluster(200, 1000)
    began = time.perf_counter()
    asked = Precedence(drivers)
    rankings = [(name, asked.of(labels, (H100,))) for name, labels in nodes]
    shared = overlaps(rankings)
    sentences = [explain(overlap) for overlap in shared.values()]
    took = time.perf_counter() - began
    print(f"200 GPUDrivers over 1,000 nodes: {took * 1000:.0f} ms, {asked.compared} comparisons")  # noqa: T201

    # Each node with each driver would be 200,000. The label that all have must not be what they are found by.
    assert asked.compared <= 1_000
    assert all(ranking.winner for _, ranking in rankings if ranking.losers)
    assert len([name for name in shared if shared[name].lost]) >= 50
    assert all(sentences)


def test_drivers_that_select_nodes_by_name_are_compared_with_these_alone() -> None:
    """The worst for answers that are shared: each node is of a kind of its own."""
    hosts = [{"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": f"n{number}"}}} for number in range(200)]
    asked = Precedence([driver(f"d{number}", target=target) for number, target in enumerate(hosts)])
    found = [asked.of({"kubernetes.io/hostname": f"n{number}"}, (H100,)).winner for number in range(1000)]

    assert asked.compared <= 200
    assert [name for name in found if name] == [f"d{number}" for number in range(200)]


def test_the_answer_is_the_same_as_without_any_index() -> None:
    random.seed(7)
    drivers = []
    for number in range(40):
        expressions = [{"key": "rack", "operator": random.choice(["In", "NotIn"]), "values": ["r1", "r2"]}]
        labels = {"zone": f"z{random.randrange(3)}"} if random.random() < 0.6 else {}
        selector = {"matchLabels": labels, "matchExpressions": expressions if random.random() < 0.5 else []}
        drivers.append(driver(f"d{number:02}", priority=random.randrange(3), target={"nodeSelector": selector}))
    asked = Precedence(drivers)
    for _ in range(300):
        labels = {"zone": f"z{random.randrange(4)}", "rack": f"r{random.randrange(4)}"}
        alone = [each for each in drivers if Precedence([each]).of(labels, (H100,)).winner]
        alone.sort(key=lambda each: (-each.spec.priority, each.metadata.name))
        names = [each.metadata.name for each in alone]
        ranking = asked.of(labels, (H100,))

        assert ([ranking.winner, *ranking.losers] if names else list(ranking.losers)) == names
