"""What each page of the console shows, of a fleet with two teams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from console.records import Row
from console.views import VIEWS
from tests.console.views.world import HTML, page, queued, seen_pod, world
from tests.kit.objects import NOW, card, condition, published

PAGES = [
    ("fleet", {}),
    ("pool", {}),
    ("pool", {"pool": "training"}),
    ("pod", {}),
    ("pod", {"namespace": "team-a", "pod": "waits"}),
    ("pod", {"namespace": "team-a", "pod": "mine"}),
    ("pod", {"namespace": "team-b", "pod": "secret-job"}),
    ("card", {"card": "gpu-1-0000-01-00-0"}),
    ("card", {"card": "gpu-1-0000-02-00-0"}),
    ("card", {"card": "gpu-2-0000-01-00-0"}),
    ("card", {"card": "gpu-2-0000-02-00-0"}),
    ("confirm", {}),
    ("broken", {}),
]


TEAMS = ("team-a", "team-b")


def of_kind(rows: Mapping[str, Row], kind: str) -> list[Row]:
    return [row for row in rows.values() if row["kind"] == kind]


def squares(rows: Mapping[str, Row]) -> dict[str, str]:
    return {name: each["state"] for row in of_kind(rows, "node") for name, each in row["cards"].items()}


@pytest.mark.parametrize(("view", "params"), PAGES)
def test_who_may_read_one_team_is_sent_no_pod_of_the_other(view: str, params: dict[str, str]) -> None:
    told = json.dumps(page(view, world(namespaces=("team-a",)), **params))
    asked = params.get("pod", "")
    assert "secret" not in told.replace(f"team-b/{asked}", "") if asked else "secret" not in told


@pytest.mark.parametrize(("view", "params"), PAGES)
def test_a_row_has_a_kind_and_no_null(view: str, params: dict[str, str]) -> None:
    def nulls(value: Any) -> bool:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return value is None or any(nulls(each) for each in inner)

    rows = page(view, **params)
    assert rows
    assert all(row["kind"] for row in rows.values())
    assert not any(nulls(row) for row in rows.values())
    assert json.loads(json.dumps(rows)) == rows


@pytest.mark.parametrize(("view", "params"), PAGES)
def test_a_page_is_the_same_less_than_a_minute_later(view: str, params: dict[str, str]) -> None:
    assert VIEWS[view].rows(world(), params, NOW) == VIEWS[view].rows(world(), params, NOW + 45)


def test_the_names_of_ones_own_pods_are_shown() -> None:
    told = json.dumps(page("card", card="gpu-1-0000-02-00-0"))
    assert "secret-job" in told


def test_who_has_a_card_in_another_namespace_is_counted() -> None:
    rows = page("card", world(namespaces=("team-a",)), card="gpu-1-0000-02-00-0")
    assert rows["holder/?"] == {"kind": "hidden", "of": "Pod", "count": 1}


def test_a_cards_time_line_has_the_newest_first_and_counts_whom_one_may_not_read() -> None:
    every, ours = (page("card", world(namespaces=of), card="gpu-1-0000-02-00-0") for of in (TEAMS, ("team-a",)))
    lines = of_kind(every, "timeline")
    assert [(line["what"], line["pods"][0]["pod"], line.get("until", "")[:10]) for line in lines] == [
        ("Serving", "secret-job", ""),
        ("Finished", "old", "2026-01-02"),
        ("Finished", "secret-old", "2026-01-01"),
    ]
    assert [(line.get("pods"), line.get("hidden")) for line in of_kind(ours, "timeline")] == [
        (None, 1),
        ([{"namespace": "team-a", "pod": "old"}], None),
        (None, 1),
    ]


def test_squares_show_the_states_of_cards() -> None:
    assert squares(page("fleet")) == {
        "gpu-1-0000-01-00-0": "InUse",
        "gpu-1-0000-02-00-0": "InUse",
        "gpu-2-0000-01-00-0": "Promised",
        "gpu-2-0000-02-00-0": "Faulted",
        "gpu-2-0000-03-00-0": "Free",
        "gpu-3-0000-01-00-0": "Pending",
    }


@pytest.mark.parametrize(
    ("made", "state"),
    [
        (card(pool="a", meta={"annotations": {}}), "Leaving"),
        (card(pool="a", published=None), "NotOffered"),
        (card(pool="a", conditions=(condition("Ignored"),)), "Blocked"),
        (card(), "Unassigned"),
    ],
)
def test_a_square_of_a_card_that_is_out_of_service(made: Any, state: str) -> None:
    assert squares(page("fleet", world(cards={made.name: made}, inventories={}))) == {made.name: state}


def test_cards_of_one_nvlink_group_have_its_number() -> None:
    cards = page("fleet")["node/gpu-1"]["cards"]
    assert [each["link"] for each in cards.values()] == ["0", "0"]
    assert all("link" not in each for each in page("fleet")["node/gpu-2"]["cards"].values())


def test_a_shared_card_says_how_much_of_it_is_used() -> None:
    shared = card(pool="a", published=published("a", 8))
    (square,) = page("fleet", world(cards={shared.name: shared}))["node/n1"]["cards"].values()
    assert (square["slots"], square["used"]) == (8, 0)


def test_a_product_with_html_in_it_stays_as_it_is() -> None:
    assert page("card", card="gpu-1-0000-01-00-0")["card"]["product"] == HTML


def test_a_queue_stands_in_its_order() -> None:
    more = (queued("z-late", "team-b"),)
    waiters = of_kind(page("pool", world(more_pods=more), pool="training"), "waiter")
    assert [each["position"] for each in waiters] == [1, 2, 3]
    assert [each["ahead"] for each in waiters] == [0, 0, 1]  # what fits nowhere is ahead of nobody


def test_a_queue_of_which_pods_are_hidden_shows_ones_own_without_a_place() -> None:
    rows = page("pool", world(namespaces=("team-a",)), pool="training")
    (waiter,) = of_kind(rows, "waiter")
    assert waiter["pod"] == "waits"
    assert "position" not in waiter


def test_a_roll_out_on_nodes_of_the_pool_is_shown() -> None:
    (rollout,) = of_kind(page("pool", pool="training"), "rollout")
    assert rollout["nodes"]["gpu-1"]["phase"] == "Installing"
    assert not of_kind(page("pool", pool="other"), "rollout")


def test_all_pools_are_listed_where_none_is_named() -> None:
    assert [each["pool"] for each in of_kind(page("pool"), "pool")] == ["other", "training"]


@pytest.mark.parametrize(
    ("view", "params", "named"),
    [
        ("pool", {"pool": "trainin"}, "Did you mean training?"),
        ("card", {"card": "gpu-1-0000-01-00-9"}, "Did you mean"),
        ("pod", {"namespace": "team-a", "pod": "wait"}, "Did you mean team-a/waits"),
    ],
)
def test_what_is_not_there_is_said_with_a_guess(view: str, params: dict[str, str], named: str) -> None:
    row = page(view, **params)["missing"]
    assert named in row["text"]


def test_of_a_namespace_that_may_not_be_read_it_is_not_said_whether_a_pod_is_there() -> None:
    limited = world(namespaces=("team-a",))
    for name in ("secret-job", "secret-jo"):
        assert page("pod", limited, namespace="team-b", pod=name) == {
            "?/Pod": {
                "kind": "refused",
                "of": "Pod",
                "text": "You may not read pods of team-b, or none of them asks for cards.",
            }
        }
    assert page("pod", limited, namespace="team-a", pod="wait")["missing"]["kind"] == "missing"


def test_a_pod_says_why_it_waits() -> None:
    row = page("pod", namespace="team-a", pod="waits")["pod"]
    assert "waits for 4 cards of GPUPool training" in row["verdict"]
    assert any("no node of the pool has more than" in each["text"] for each in row["findings"])


def test_a_pod_that_waits_has_a_verdict_of_each_card() -> None:
    verdicts = {each["card"]: each for each in of_kind(page("pod", namespace="team-a", pod="waits"), "cardVerdict")}
    assert {name: each["reason"] for name, each in verdicts.items()} == {
        "gpu-1-0000-01-00-0": "InUse",
        "gpu-1-0000-02-00-0": "InUse",
        "gpu-2-0000-01-00-0": "Promised",
        "gpu-2-0000-02-00-0": "Faulted",
        "gpu-2-0000-03-00-0": "TooFewHere",
    }
    assert verdicts["gpu-1-0000-02-00-0"]["pod"] == "secret-job"
    assert verdicts["gpu-2-0000-03-00-0"]["detail"] == "1 of 4"


def test_a_pod_that_runs_needs_no_verdict() -> None:
    rows = page("pod", namespace="team-a", pod="mine")
    assert not of_kind(rows, "cardVerdict")
    assert not of_kind(rows, "nodeVerdict")


def test_a_pod_that_ended_is_not_listed() -> None:
    ended = seen_pod("over", phase="Succeeded")
    assert "pod/team-a/over" not in page("pod", world(more_pods=(ended,)))


def test_what_waits_for_a_person_comes_with_its_pools() -> None:
    (row,) = of_kind(page("confirm"), "pending")
    assert (row["card"], row["reason"], row["pools"]) == ("gpu-3-0000-01-00-0", "AwaitingApproval", ["training"])


def test_what_broke_stands_newest_first() -> None:
    seen = world()
    late = replace(condition("Faulted", reason="CardLost"), last_transition_time="2026-06-01T00:00:00Z")
    lost = card("gpu-9", 1, conditions=(late,))
    rows = of_kind(page("broken", replace(seen, cards={**seen.cards, lost.name: lost})), "condition")
    assert [(each["of"], each["type"]) for each in rows] == [
        ("GPUDevice", "Faulted"),
        ("GPUDevice", "Faulted"),
        ("GPUNodeInventory", "ReadyForPooling"),
        ("GPUPool", "Misconfigured"),
    ]
    assert rows[0]["name"] == lost.name


def test_what_may_not_be_read_is_said_with_its_reason() -> None:
    seen = world(cards={}, refused={"GPUDevice": "you may not list gpudevices"})
    assert page("fleet", seen)["?/GPUDevice"] == {
        "kind": "refused", "of": "GPUDevice", "text": "you may not list gpudevices",
    }  # fmt: skip


def test_a_card_has_commands_that_fit_it() -> None:
    def commands(name: str) -> list[str]:
        return [each["command"] for each in of_kind(page("card", card=name), "command")]

    assert "kubectl gpu assign gpu-3-0000-01-00-0 training" in commands("gpu-3-0000-01-00-0")
    assert "kubectl gpu unassign gpu-2-0000-03-00-0" in commands("gpu-2-0000-03-00-0")
