"""What is offered, to the cluster and to kubelet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.plugin_settings import PluginSettings
from nodeagent.deviceplugin.config import of_node
from nodeagent.deviceplugin.devices import card_status, offers
from nodeagent.deviceplugin.devices.records import NodeScan
from tests.nodeagent.deviceplugin import make
from tests.nodeagent.deviceplugin.make import EXCLUSIVE, POOL, SHARED, SPLIT, address, asked, card

FOREIGN = PluginSettings("other", "Exclusive", 1).of("")


def ids(cards, wish, seen=None):
    return [device.id for device in offers.listing(POOL, cards, wish, seen or NodeScan()) if device.healthy]


def wanted(cards, wish, seen=None):
    return offers.wanted(POOL, cards, wish, seen or NodeScan())


def test_a_card_is_published_first_and_listed_then():
    new, known = card(0), card(0, published=EXCLUSIVE.of(""))
    assert wanted([new], asked(EXCLUSIVE, 0)) == {"card-0": EXCLUSIVE.of(make.name(0))}
    assert ids([new], asked(EXCLUSIVE, 0)) == []
    assert ids([known], asked(EXCLUSIVE, 0)) == ["GPU-0"]


def test_a_card_that_is_not_allowed_is_withdrawn_and_not_listed():
    known = card(0, published=EXCLUSIVE.of(""))
    assert wanted([known], asked(EXCLUSIVE, 1)) == {"card-0": None}
    assert ids([known], asked(EXCLUSIVE, 1)) == []


def test_another_pools_card_is_left_alone():
    theirs = card(0, published=FOREIGN)
    assert wanted([theirs], asked(EXCLUSIVE, 0)) == {"card-0": FOREIGN}
    assert ids([theirs], asked(EXCLUSIVE, 0)) == []
    assert card_status.writes(POOL, [theirs], {"card-0": None}, {"card-0": (make.held("x"),)}) == ()


def test_slots_rise_after_and_fall_before_they_are_published():
    few, many = PluginSettings(POOL, "TimeSlice", 2), PluginSettings(POOL, "TimeSlice", 4)
    assert ids([card(0, published=few.of(""))], asked(many, 0)) == ["GPU-0::0", "GPU-0::1"]
    assert ids([card(0, published=many.of(""))], asked(few, 0)) == ["GPU-0::0", "GPU-0::1"]
    assert len(ids([card(0, published=many.of(""))], asked(many, 0))) == 4


def test_a_card_whose_uuid_nobody_knows_is_not_offered():
    assert wanted([card(0, uuid=False)], asked(EXCLUSIVE, 0)) == {"card-0": None}
    assert ids([card(0, uuid=False, published=EXCLUSIVE.of(""))], asked(EXCLUSIVE, 0)) == []


def test_a_lost_card_is_withdrawn_and_stays_in_the_list_as_unhealthy():
    seen, known = NodeScan(lost=frozenset({address(0)})), card(0, published=SHARED.of(""))
    assert wanted([known], asked(SHARED, 0), seen) == {"card-0": None}
    gone = offers.listing(POOL, [card(0)], asked(SHARED, 0), seen)
    assert [(device.id, device.healthy) for device in gone] == [(f"GPU-0::{n}", False) for n in range(4)]


@pytest.mark.parametrize("seen", [NodeScan(unresponsive=frozenset({address(0)})), NodeScan()])
def test_an_ill_card_is_unhealthy_and_stays_published(seen):
    known = card(0, published=EXCLUSIVE.of(""), faulted=not seen.unresponsive)
    (device,) = offers.listing(POOL, [known], asked(EXCLUSIVE, 0), seen)
    assert not device.healthy
    assert wanted([known], asked(EXCLUSIVE, 0), seen) == {"card-0": EXCLUSIVE.of("")}


def test_instances_of_the_pools_profile_are_offered_by_their_uuids():
    made = (make.instance("MIG-b", 1), make.instance("MIG-a", 2), make.instance("MIG-c", 3, "2g.20gb"))
    seen = NodeScan(instances={address(0): made})
    known = card(0, published=SPLIT.of(""), mig=True)
    assert ids([known], asked(SPLIT, 0), seen) == ["MIG-a", "MIG-b"]
    assert offers.owners([known], seen)["MIG-c"] is known


@pytest.mark.parametrize(
    ("how", "healthy", "stays"), [({"unresponsive"}, False, True), ({"lost"}, False, False), (set(), True, True)]
)
def test_a_divided_card_whose_driver_is_silent_stays_in_the_list(how, healthy, stays):
    made = {address(0): (make.instance("MIG-a", 1), make.instance("MIG-b", 2))}
    ill = {each: frozenset({address(0)}) for each in how}
    known, seen = card(0, published=SPLIT.of(""), mig=True), NodeScan(instances=made, remembered=frozenset(made), **ill)
    told = [(device.id, device.healthy) for device in offers.listing(POOL, [known], asked(SPLIT, 0), seen)]
    assert told == [("MIG-a", healthy), ("MIG-b", healthy)]
    assert wanted([known], asked(SPLIT, 0), seen) == {"card-0": SPLIT.of("") if stays else None}
    assert wanted([card(0, mig=True)], asked(SPLIT, 0), seen) == {"card-0": None}, "nothing is offered anew"
    assert offers.unobservable([known], seen) == frozenset(), "what it serves can be told"


def test_a_card_is_published_when_it_holds_all_its_instances():
    few = NodeScan(instances={address(0): (make.instance("MIG-a", 1),)})
    assert wanted([card(0, mig=True)], asked(SPLIT, 0), few) == {"card-0": None}
    published = SPLIT.of("")
    assert wanted([card(0, mig=True, published=published)], asked(SPLIT, 0), few) == {"card-0": published}
    assert wanted([card(0, mig=True)], asked(SPLIT, 0), NodeScan()) == {"card-0": None}
    assert offers.unobservable([card(0, mig=True), card(1)], NodeScan()) == {"card-0"}


@pytest.mark.parametrize("offer", [EXCLUSIVE, SHARED, SPLIT])
def test_settings_that_were_acknowledged_are_known_after_a_restart(offer):
    seen = NodeScan(instances={address(0): (make.instance("MIG-a", 1), make.instance("MIG-b", 2))})
    known = card(0, published=offer.of(""), mig=True)
    before = ids([known], asked(offer, 0), seen)
    assert len(before) == offer.slots
    assert ids([known], asked(None, 0), seen) == before
    assert wanted([known, card(1)], asked(None, 0, 1), seen) == {"card-0": offer.of(""), "card-1": None}


def test_the_wish_is_settings_and_cards_of_all_the_pools_configmaps():
    first, shard = make.settings(EXCLUSIVE, 0), make.settings("", 1, object_="gpu-device-plugin-p.0")
    others = make.settings(SHARED, 2, object_="gpu-device-plugin-p-0"), make.settings(SHARED, 3, object_="x")
    assert offers.desired_offer(POOL, [first, shard, *others], None) == asked(EXCLUSIVE, 0, 1)
    assert offers.desired_offer(POOL, [shard], SHARED).allowed == frozenset(), "without the first nothing is offered"


def test_while_settings_cannot_be_read_the_list_stays_and_nothing_new_is_published():
    broken = make.settings("{", 0, 1)
    wish = offers.desired_offer(POOL, [broken], SHARED)
    known, new = card(0, published=SHARED.of("")), card(1)
    assert (wish.offer, wish.last) == (None, SHARED)
    assert len(ids([known, new], wish)) == 4
    assert wanted([known, new], wish) == {"card-0": SHARED.of(""), "card-1": None}
    assert offers.unreadable(POOL, [broken])
    assert not offers.unreadable(POOL, [])


def test_the_driver_is_asked_where_instances_are_offered_or_nobody_knows():
    broken = [make.settings("{", 0)]
    assert [offers.asks_driver(asked(offer, 0)) for offer in (EXCLUSIVE, SHARED, SPLIT)] == [False, False, True]
    assert offers.asks_driver(offers.desired_offer(POOL, broken, None))
    assert not offers.asks_driver(offers.desired_offer(POOL, broken, SHARED)), "the settings that were read last count"


def test_other_nodes_lines_are_cut_away():
    config = make.settings(EXCLUSIVE, 0, 1)
    more = replace(
        config, data={**config.data, "x": "y", "DP_ALLOWED_DEVICES": "m-1\n" + config.data["DP_ALLOWED_DEVICES"]}
    )
    assert of_node(more, "n") == config


NUMBERS = st.sets(st.integers(0, 3))


@given(ours=NUMBERS, theirs=NUMBERS, allowed=NUMBERS, slots=st.integers(1, 4), before=st.integers(1, 4), lost=NUMBERS)
def test_kubelet_never_has_more_than_is_published(ours, theirs, allowed, slots, before, lost):
    told = PluginSettings(POOL, "TimeSlice", before).of("")
    cards = [card(n, published=told if n in ours else FOREIGN if n in theirs else None) for n in range(4)]
    wish, seen = asked(PluginSettings(POOL, "TimeSlice", slots), *allowed), NodeScan(lost=frozenset(map(address, lost)))
    listed = [device.card for device in offers.listing(POOL, cards, wish, seen) if device.healthy]
    then = offers.wanted(POOL, cards, wish, seen)
    for each in cards:
        now, published = each.status.published, then[each.name]
        mine = now.slots if now is not None and now.pool == POOL else 0
        assert listed.count(each.name) <= min(mine, published.slots if published is not None else 0)


@given(ours=NUMBERS, theirs=NUMBERS, allowed=NUMBERS)
def test_what_is_written_is_not_written_again(ours, theirs, allowed):
    cards = [card(n, published=EXCLUSIVE.of("") if n in ours else FOREIGN if n in theirs else None) for n in range(4)]
    wish = asked(EXCLUSIVE, *allowed)
    then = wanted(cards, wish)
    written = [card(n, published=then[f"card-{n}"]) for n in range(4)]
    served = {each.name: () for each in cards}
    assert card_status.writes(POOL, written, wanted(written, wish), served) == ()
    for write in card_status.writes(POOL, cards, then, served):
        assert (write.resource_version, write.subresource, write.body["status"].keys()) == (
            "7",
            "status",
            {"published"},
        )
