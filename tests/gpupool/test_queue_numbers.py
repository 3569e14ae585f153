"""What a waiting pod's condition says of the pool's cards: numbers of the moment, and nobody's name."""

from __future__ import annotations

import pytest

from controllers.api.gangs import GANG, GANG_SIZE
from controllers.domain.queue import serve
from controllers.gpupool.queue import numbers
from tests.gpupool.test_queued_pods import Queue


def found(pool: Queue, pod: str) -> str:
    """What the condition of a pod would say now."""
    made = pool.look()
    assert made is not None
    assert f"default/{pod}" in made.reasons
    return made.numbers(f"default/{pod}")


def test_a_pod_that_needs_more_cards_of_one_node_is_told_what_there_is() -> None:
    pool = Queue({"n1": 3, "n2": 2})
    pool.reserve("n1-0", "secret")
    pool.queues("big", 3, age=30)
    text = found(pool, "big")
    assert text == (
        "a pod's cards are on one node, and no node has more than 2 free"
        " (5 cards: 4 free on nodes that have too few, 1 promised)"
    )


def test_what_others_get_first_is_kept_for_them() -> None:
    pool = Queue({"n1": 2})
    pool.queues("first", 1, age=60)
    pool.queues("second", 2, age=30)
    assert found(pool, "second") == "1 free ones are kept for pods that are before it (2 cards: 2 kept for others)"


def test_what_is_kept_for_the_pod_itself_is_kept_for_no_other() -> None:
    pool = Queue({"n1": 2})
    pool.reserve("n1-0", "secret")
    pool.queues("big", 2, age=3600)
    assert found(pool, "big") == "2 cards: 1 promised, 1 free on nodes that have too few"


def test_free_cards_of_a_node_that_refuses_the_pod_are_not_kept_for_others() -> None:
    pool = Queue({"n1": 4})
    pool.queues("picky", 4, age=60, nodeSelector={"zone": "b"})
    pool.queues("behind", 1, age=30)
    assert "kept" not in found(pool, "picky").split("(")[0]


def test_no_name_of_another_namespace_is_in_it() -> None:
    pool = Queue({"n1": 1})
    pool.reserve("n1-0", "secret")
    pool.queues("p")
    text = found(pool, "p")
    assert text == "1 card: 1 promised"


def test_nodes_that_refuse_the_pod_are_counted_as_such() -> None:
    pool = Queue({"n1": 2})
    pool.queues("picky", nodeSelector={"zone": "b"})
    assert found(pool, "picky").endswith("(2 cards: 2 on nodes that refuse the pod)")


def test_of_a_gang_the_cards_are_counted_and_no_node_is_blamed() -> None:
    """Each of its pods fits; what is missing is room for all of them at once."""
    pool = Queue({"n1": 1, "n2": 1})
    pool.reserve("n2-0", "secret")
    for name in ("a", "b"):
        pool.queues(name, marks={GANG: "g", GANG_SIZE: "2"})
    assert found(pool, "a") == "2 cards: 1 promised, 1 free"


def test_a_pod_that_nobody_held_against_the_nodes_has_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a namespace of many pods that all demand something else would be compared with every node after all."""
    pool = Queue({"n1": 1, "n2": 1})
    pool.reserve("n1-0", "secret")
    pool.queues("first", 2, age=60, nodeSelector={"zone": "a"})
    pool.queues("second", 2, age=30, nodeSelector={"zone": "b"})
    monkeypatch.setattr(serve, "WORK_MAX", 10)
    assert found(pool, "first") == "2 cards: 2 on nodes that refuse the pod"
    assert found(pool, "second") == ""


def test_of_a_pod_that_waits_for_something_else_nothing_is_counted() -> None:
    pool = Queue({"n1": 1}, queue={"namespaces": [{"name": "default", "limit": 1}]})
    pool.queues("p1", age=60)
    pool.queues("p2", age=30)
    assert found(pool, "p2") == "1 are allowed"
    made = pool.look()
    assert made is not None
    assert made.numbers("default/p1") == "", "it is served"


def test_cards_are_counted_once_for_a_gang_that_cards_are_kept_for(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    cards_of = numbers.cards_of
    monkeypatch.setattr(numbers, "cards_of", lambda *args: counted.append(1) or cards_of(*args))
    pool = Queue({"n1": 2})
    pool.reserve("n1-0", "secret")
    members = [f"g{at}" for at in range(2)]
    for name in members:
        pool.queues(name, age=3600, marks={GANG: "g", GANG_SIZE: "2"})
    for name in ("p1", "p2", "p3"):
        pool.queues(name, age=30)
    made = pool.look()
    assert made is not None
    said = {name: made.numbers(f"default/{name}") for name in (*members, "p1", "p2", "p3")}
    assert {said.pop(name) for name in members} == {"2 cards: 1 promised, 1 free"}
    assert set(said.values()) == {
        "1 free ones are kept for pods that are before it (2 cards: 1 promised, 1 kept for others)"
    }
    assert len(counted) == 2, "once for the gang, and once for all that nothing is kept for"
