"""Kubelet's word on its containers, in the cluster's terms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodeagent.deviceplugin.devices import allocations
from nodeagent.deviceplugin.devices.records import ContainerHolding
from tests.nodeagent.deviceplugin import make
from tests.nodeagent.deviceplugin.make import card


def told(cards, held, pods, unobservable=frozenset()):
    owners = {each.status.hardware.uuid: each for each in cards}
    return allocations.allocations(cards, held, {p.key: p for p in pods}, owners, unobservable)


def holds(uid, *ids, container="c0"):
    return ContainerHolding("d", uid, container, ids)


def test_slots_are_counted_by_card_and_container():
    cards = [card(0), card(1)]
    held = [holds("x", "GPU-0::1", "GPU-0::3", "GPU-1::0"), holds("x", "GPU-1::1", container="c1")]
    assert told(cards, held, [make.pod("x", 3, 1)]) == {
        "card-0": (make.held("x", slots=2),),
        "card-1": (make.held("x"), make.held("x", "c1")),
    }


def test_a_pod_whose_uid_is_not_known_yet_is_left_out_until_it_is():
    assert told([card(0)], [holds("x", "GPU-0")], []) == {"card-0": ()}


def test_a_pod_that_only_kubelet_still_has_keeps_its_entry():
    known = (make.held("x"),)
    assert told([card(0, taken=known)], [holds("x", "GPU-0")], []) == {"card-0": known}


def test_what_has_ended_holds_nothing():
    known = (make.held("x"),)
    pods = [make.pod("x", 1, phase="Failed")]
    assert told([card(0, taken=known)], [holds("x", "GPU-0")], pods) == {"card-0": ()}
    assert told([card(0, taken=known)], [], []) == {"card-0": ()}


def test_what_cannot_be_seen_stays():
    known = (make.held("x"),)
    assert told([card(0, taken=known)], [], [], frozenset({"card-0"})) == {"card-0": known}


def test_devices_of_no_card_are_told():
    held = [holds("x", "GPU-9::1", "GPU-0")]
    assert allocations.unknown(held, {"GPU-0": card(0)}) == {"GPU-9"}


HOLDINGS = st.dictionaries(
    st.tuples(st.sampled_from("xyz"), st.sampled_from(["c0", "c1"])),
    st.lists(st.sampled_from([f"GPU-{n}::{s}" for n in range(2) for s in range(3)]), min_size=1, unique=True),
    max_size=4,
)


@given(HOLDINGS, HOLDINGS)
def test_the_report_adds_up_and_settles(before, after):
    pods = [make.pod(uid, 1) for uid in "xyz"]
    first = told([card(0), card(1)], [holds(p, *i, container=c) for (p, c), i in before.items()], pods)
    held = [holds(p, *i, container=c) for (p, c), i in after.items()]
    cards = [card(n, taken=first[f"card-{n}"]) for n in range(2)]
    second = told(cards, held, pods)
    assert sum(a.slots for entries in second.values() for a in entries) == sum(map(len, after.values()))
    again = [card(n, taken=second[f"card-{n}"]) for n in range(2)]
    assert told(again, list(reversed(held)), pods) == second
