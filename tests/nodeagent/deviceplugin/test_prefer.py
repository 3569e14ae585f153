"""Which devices are preferred for a container."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controllers.domain import near
from nodeagent.deviceplugin.devices import preferred_allocation
from nodeagent.deviceplugin.devices.preferred_allocation import Claim
from nodeagent.deviceplugin.devices.records import ContainerHolding, Listed
from tests.nodeagent.deviceplugin import make
from tests.nodeagent.deviceplugin.make import EXCLUSIVE, POOL, SHARED, card


def listed(*cards: int, slots: int = 0) -> dict[str, Listed]:
    ids = [(f"GPU-{n}", n) for n in cards] if not slots else [(f"GPU-{n}::{s}", n) for n in cards for s in range(slots)]
    return {id_: Listed(id_, f"GPU-{n}", f"card-{n}", make.address(n)) for id_, n in ids}


def choose(known, size, cards=(), pods=(), held=(), must=(), available=None):
    return preferred_allocation.preferred(
        known if available is None else available,
        must,
        size,
        known,
        claims=preferred_allocation.claims(POOL, cards, pods, held),
        places=near.locations(cards),
    )


def offered(*numbers: int, **more):
    return [card(n, published=EXCLUSIVE.of(""), **more) for n in numbers]


def test_the_card_that_the_oldest_waiting_pod_was_promised():
    pods = [make.pod("young", 1, devices=(1,), born="2"), make.pod("old", 1, devices=(2,), born="1")]
    known = listed(0, 1, 2, 3)
    assert choose(known, 1, offered(0, 1, 2, 3), pods) == ("GPU-2",)
    served = [ContainerHolding("d", "old", "c0", ("GPU-2",))]
    assert choose(known, 1, offered(0, 1, 2, 3), pods, served, available=["GPU-0", "GPU-1", "GPU-3"]) == ("GPU-1",)


def test_a_pod_of_another_size_is_not_the_one():
    pods = [make.pod("two", 2, devices=(0, 1), born="1"), make.pod("one", 1, devices=(3,), born="2")]
    assert choose(listed(0, 1, 2, 3), 1, offered(0, 1, 2, 3), pods) == ("GPU-3",)
    assert set(choose(listed(0, 1, 2, 3), 2, offered(0, 1, 2, 3), pods)) == {"GPU-0", "GPU-1"}


def test_each_container_of_a_pod_gets_one_of_its_cards():
    pods = [make.pod("x", 1, 1, devices=(1, 3))]
    first = choose(listed(0, 1, 2, 3), 1, offered(0, 1, 2, 3), pods)
    served = [ContainerHolding("d", "x", "c0", first)]
    rest = [id_ for id_ in listed(0, 1, 2, 3) if id_ not in first]
    assert {*first, *choose(listed(0, 1, 2, 3), 1, offered(0, 1, 2, 3), pods, served, available=rest)} == {
        "GPU-1",
        "GPU-3",
    }


def test_what_only_an_init_container_was_given_is_waited_for_no_longer_once_its_pod_is_served():
    """Kubelet never tells what ordinary init containers hold."""
    cards, known = [card(n, published=SHARED.of("")) for n in range(2)], listed(0, 1, slots=4)
    pods = [make.pod("p", 1, init=(1,), devices=(0,), born="1"), make.pod("q", 1, devices=(1,), born="2")]
    served = [ContainerHolding("d", "p", "c0", ("GPU-0::0",))]
    rest = [id_ for id_ in known if id_ != "GPU-0::0"]
    assert choose(known, 1, cards, pods, served, available=rest) == ("GPU-1::0",)


def test_a_served_pods_init_container_takes_no_cards_of_others():
    pods = [make.pod("p", 2, init=(1,), devices=(0, 1), born="1"), make.pod("q", 1, devices=(2,), born="2")]
    served = [ContainerHolding("d", "p", "c0", ("GPU-0", "GPU-1"))]
    known = listed(0, 1, 2, 3)
    assert choose(known, 1, offered(0, 1, 2, 3), pods, served, available=["GPU-2", "GPU-3"]) == ("GPU-2",)


def test_a_pod_that_runs_with_nothing_but_what_its_init_container_had_waits_for_nothing():
    pods = [make.pod("p", init=(1,), devices=(0,), phase="Running"), make.pod("q", 1, devices=(2,), born="2")]
    known = listed(0, 1, 2, slots=4)
    cards = [card(n, published=SHARED.of("")) for n in range(3)]
    assert choose(known, 1, cards, pods) == ("GPU-2::0",)


def test_init_containers_of_a_pod_that_holds_nothing_and_sidecars_are_waited_for():
    pods = [make.pod("p", 2, init=(1,), devices=(1, 3), born="1"), make.pod("q", 1, devices=(2,), born="2")]
    assert choose(listed(0, 1, 2, 3), 1, offered(0, 1, 2, 3), pods)[0] in {"GPU-1", "GPU-3"}
    pods = [make.pod("p", 2, sidecars=(1,), devices=(0, 1, 3), born="1"), make.pod("q", 1, devices=(2,), born="2")]
    served = [ContainerHolding("d", "p", "c0", ("GPU-0", "GPU-1"))]
    rest = ["GPU-2", "GPU-3"]
    assert choose(listed(0, 1, 2, 3), 1, offered(0, 1, 2, 3), pods, served, available=rest) == ("GPU-3",)


def test_a_reservation_counts_while_its_pod_is_not_seen_here():
    cards = [*offered(0, 1), card(2, published=EXCLUSIVE.of(""), promised=(make.promise("x"),))]
    assert choose(listed(0, 1, 2), 1, cards) == ("GPU-2",)
    pods = [make.pod("y", 1, devices=(1,))]
    assert choose(listed(0, 1, 2), 1, cards, pods) == ("GPU-1",), "a pod that is bound here comes first"


def test_seen_reservations_come_before_unseen_ones_and_older_before_younger():
    made = {
        0: make.promise("unseen", seen=False, since="2026-01-01T00:00:00Z"),
        1: make.promise("young", since="2026-01-03T00:00:00Z"),
        2: make.promise("old", since="2026-01-02T00:00:00Z"),
    }
    cards = [card(n, published=EXCLUSIVE.of(""), promised=(entry,)) for n, entry in made.items()]
    assert choose(listed(0, 1, 2), 1, cards) == ("GPU-2",)


def test_what_others_were_promised_comes_last():
    pods = [make.pod("two", 2, devices=(0, 1))]
    assert choose(listed(0, 1, 2), 1, offered(0, 1, 2), pods) == ("GPU-2",)


def test_slots_of_the_promised_cards():
    cards = [card(n, published=SHARED.of("")) for n in range(2)]
    pods = [make.pod("x", 3, devices=(1, 1, 0))]
    chosen = choose(listed(0, 1, slots=4), 3, cards, pods)
    assert Counter(id_.partition("::")[0] for id_ in chosen) == {"GPU-1": 2, "GPU-0": 1}


def test_one_numa_node_rather_than_two():
    cards = [*offered(0, 2, numa=0), *offered(1, 3, numa=1)]
    assert set(choose(listed(0, 1, 2, 3), 2, cards)) in ({"GPU-0", "GPU-2"}, {"GPU-1", "GPU-3"})
    assert set(choose(listed(0, 1, 2, 3), 2, cards, must=["GPU-1"])) == {"GPU-1", "GPU-3"}


def test_linked_cards_rather_than_others():
    cards = [*offered(0, 1), *offered(2, peers=(3,)), *offered(3, peers=(2,))]
    assert set(choose(listed(0, 1, 2, 3), 2, cards)) == {"GPU-2", "GPU-3"}


def test_cards_that_are_linked_to_each_other_rather_than_by_a_third() -> None:
    """A board on which each card has links to three of four others: two cliques in one NVLink group."""
    mesh = {0: (1, 2), 1: (0, 2), 2: (0, 1, 3), 3: (2, 4, 5), 4: (3, 5), 5: (3, 4)}
    cards = [one for n, peers in mesh.items() for one in offered(n, peers=peers)]
    rest = ["GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5"]
    assert set(choose(listed(*mesh), 3, cards, available=rest)) == {"GPU-3", "GPU-4", "GPU-5"}
    assert set(choose(listed(*mesh), 2, cards, must=["GPU-4"])) <= {"GPU-3", "GPU-4", "GPU-5"}


IDS = [f"GPU-{n}::{s}" for n in range(4) for s in range(2)]
CARDS = st.sampled_from([f"card-{n}" for n in range(4)])


@given(
    available=st.sets(st.sampled_from(IDS)),
    more=st.sets(st.sampled_from(IDS), max_size=3),
    size=st.integers(0, 9),
    claims=st.lists(
        st.builds(Claim, st.lists(CARDS, min_size=1, max_size=3).map(tuple), st.frozensets(st.integers(1, 3))),
        max_size=4,
    ),
    places=st.dictionaries(
        CARDS, st.builds(near.CardLocation, CARDS, CARDS, st.sampled_from("ab"), CARDS, st.integers(-1, 1))
    ),
)
def test_laws(available, more, size, claims, places):
    must = sorted(more)[:size]
    chosen = preferred_allocation.preferred(
        available, must, size, listed(*range(4), slots=2), claims=claims, places=places
    )
    assert len(set(chosen)) == len(chosen) == min(size, len(available | set(must)))
    assert set(must) <= set(chosen) <= available | set(must)
    again = preferred_allocation.preferred(
        sorted(available), must, size, listed(*range(4), slots=2), claims=claims, places=places
    )
    assert again == chosen
