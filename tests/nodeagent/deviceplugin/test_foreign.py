"""Cards that others' pods have by resources that are not the module's: what kubelet tells, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.deviceplugin.devices import allocations, card_status, offers
from nodeagent.deviceplugin.devices.records import ContainerHolding, ForeignUsage, NodeScan
from nodeagent.deviceplugin.kubelet import holdings
from tests.nodeagent.deviceplugin import make
from tests.nodeagent.deviceplugin.make import EXCLUSIVE, POOL, SHARED, SPLIT, address, asked, card, elsewhere

if TYPE_CHECKING:
    from tests.nodeagent.deviceplugin.kubelet import Kubelet

UUID = "GPU-5f6ce22f-f1a4-4e8b-9d35-6e2c1a6b1d10"


def users(cards, held, *, pods=(), seen=None):
    seen = seen or NodeScan()
    owners, blind = offers.owners(cards, seen), offers.unobservable(cards, seen)
    return allocations.foreign(cards, held, {p.key: p for p in pods}, owners, minors=seen.minors, unobservable=blind)


def holds(pod, *ids, resource="nvidia.com/gpu"):
    return ContainerHolding("legacy", pod, "main", ids, resource)


def listed(cards, wish, foreign, seen=None):
    return {device.id: device.healthy for device in offers.listing(POOL, cards, wish, seen or NodeScan(), foreign)}


async def test_what_kubelet_tells_of_another_plugins_resource_keeps_a_card_from_being_offered(kubelet: Kubelet) -> None:
    """The defect as it was found: a card that a pod of nvidia.com/gpu has was handed out a second time."""
    kubelet.holdings["legacy", "train", "main"] = ("nvidia.com/gpu", ("GPU-0",))
    cards, wish = [card(0), card(1)], asked(EXCLUSIVE, 0, 1)
    foreign = ForeignUsage(users(cards, (await holdings(kubelet.pod_resources)).foreign))
    assert foreign.users == {"card-0": (elsewhere("train"),), "card-1": ()}
    then = offers.wanted(POOL, cards, wish, NodeScan(), foreign)
    assert then == {"card-0": None, "card-1": EXCLUSIVE.of("")}
    assert listed(cards, wish, foreign) == {"GPU-0": False}, "capacity, and nothing that a pod could get"
    kubelet.release("legacy", "train")
    free = ForeignUsage(users(cards, (await holdings(kubelet.pod_resources)).foreign))
    assert offers.wanted(POOL, cards, wish, NodeScan(), free)["card-0"] == EXCLUSIVE.of("")


@pytest.mark.parametrize(("driver", "device", "cdi"), [
    ("gpu.nvidia.com", "gpu-5", "k8s.gpu.nvidia.com/claim=2f1e-gpu-5"),
    ("gpu.nvidia.com", "gpu-5-mig-19-0-1", "k8s.gpu.nvidia.com/claim=2f1e-gpu-5-mig-19-0-1"),
    ("gpu.example.com", "first", f"example.com/gpu={UUID}"),
    ("gpu.example.com", UUID, "example.com/gpu=first"),
])  # fmt: skip
async def test_cards_of_resource_claims_as_far_as_their_names_tell(
    kubelet: Kubelet, driver: str, device: str, cdi: str
) -> None:
    kubelet.claims["legacy", "train", "main"] = (driver, device, cdi)
    kubelet.claims["legacy", "net", "main"] = ("nic.example.com", "gpu-5", "example.com/nic=gpu-5")
    one = card(0)
    object.__setattr__(one.status.hardware, "uuid", UUID)
    held = (await holdings(kubelet.pod_resources)).foreign
    found = users([one, card(1)], held, seen=NodeScan(minors={address(0): 5, address(1): 6}))
    assert found == {"card-0": (elsewhere("train", driver),), "card-1": ()}


def test_ids_of_shared_cards_and_of_instances_name_their_card():
    cards = [card(0), card(1), card(2, mig=True)]
    seen = NodeScan(instances={address(2): (make.instance("MIG-a", 1),)})
    held = [holds("a", "GPU-0::3", "GPU-0::4"), holds("b", "MIG-GPU-1/7/0"), holds("c", "MIG-a", resource="x/mig")]
    held.append(holds("d", "GPU-9", "MIG-of-nobody"))
    assert users(cards, held, seen=seen) == {
        "card-0": (elsewhere("a"),),
        "card-1": (elsewhere("b"),),
        "card-2": (elsewhere("c", "x/mig"),),
    }


def test_a_divided_card_whose_instances_nobody_told_keeps_what_was_said():
    known = (elsewhere("c"),)
    assert users([card(0, mig=True, foreign=known)], []) == {"card-0": known}


def test_what_has_ended_has_nothing_and_a_pod_that_nobody_else_knows_has():
    ended = make.pod("x", phase="Succeeded")
    held = [ContainerHolding("d", "x", "main", ("GPU-0",), "r"), holds("unknown", "GPU-1")]
    assert users([card(0), card(1)], held, pods=[ended]) == {"card-0": (), "card-1": (elsewhere("unknown"),)}


def test_a_card_is_offered_anew_only_once_kubelet_has_said_who_has_it():
    known, new = card(0, published=EXCLUSIVE.of("")), card(1)
    silent = offers.reported([known, new])
    assert offers.wanted(POOL, [known, new], asked(EXCLUSIVE, 0, 1), NodeScan(), silent) == {
        "card-0": EXCLUSIVE.of(""),
        "card-1": None,
    }


def test_a_card_of_ours_that_others_get_too_is_withdrawn_and_those_on_it_stay():
    """By one write: `published` goes as it is said who else has the card, and who has it of ours is still told."""
    known = card(0, published=SHARED.of(""), taken=(make.held("x", slots=2),))
    wish, foreign = asked(SHARED, 0), ForeignUsage({"card-0": (elsewhere("train"),)})
    then = offers.wanted(POOL, [known], wish, NodeScan(), foreign)
    assert listed([known], wish, foreign) == {f"GPU-0::{n}": False for n in range(4)}
    (write,) = card_status.writes(POOL, [known], then, {"card-0": known.status.allocations}, foreign.users)
    entry = {"namespace": "legacy", "pod": "train", "container": "main", "resource": "nvidia.com/gpu"}
    assert write.body == {"status": {"published": None, "foreignAllocations": [entry]}}


def test_settings_that_cannot_be_read_do_not_keep_such_a_card_offered():
    known = card(0, published=EXCLUSIVE.of(""))
    foreign = ForeignUsage({"card-0": (elsewhere("train"),)})
    assert offers.wanted(POOL, [known], asked(None, 0), NodeScan(), foreign) == {"card-0": None}


def test_what_was_reported_holds_until_kubelet_says_otherwise():
    known = card(0, foreign=(elsewhere("train"),))
    silent = offers.reported([known])
    assert offers.wanted(POOL, [known], asked(EXCLUSIVE, 0), NodeScan(), silent) == {"card-0": None}
    assert listed([known], asked(EXCLUSIVE, 0), silent) == {"GPU-0": False}


NUMBERS = st.sets(st.integers(0, 3))


@given(ours=NUMBERS, allowed=NUMBERS, taken=NUMBERS, told=st.booleans(), offer=st.sampled_from([EXCLUSIVE, SHARED]))
def test_nothing_of_a_card_that_others_have_can_be_given_and_it_settles(ours, allowed, taken, told, offer):
    cards = [card(n, published=offer.of("") if n in ours else None) for n in range(4)]
    foreign = ForeignUsage({f"card-{n}": (elsewhere("x"),) for n in taken}, told)
    wish = asked(offer, *allowed)
    then = offers.wanted(POOL, cards, wish, NodeScan(), foreign)
    given_out = {each.card for each in offers.listing(POOL, cards, wish, NodeScan(), foreign) if each.healthy}
    for n in taken:
        assert then[f"card-{n}"] is None
        assert f"card-{n}" not in given_out
    written = [card(n, published=then[f"card-{n}"]) for n in range(4)]
    assert offers.wanted(POOL, written, wish, NodeScan(), foreign) == then


def test_a_divided_card_with_one_instance_elsewhere_is_withheld_whole():
    seen = NodeScan(instances={address(0): (make.instance("MIG-a", 1), make.instance("MIG-b", 2))})
    known = card(0, published=SPLIT.of(""), mig=True)
    foreign = ForeignUsage(users([known], [holds("train", "MIG-b", resource="nvidia.com/mig-1g.10gb")], seen=seen))
    assert offers.wanted(POOL, [known], asked(SPLIT, 0), seen, foreign) == {"card-0": None}
    assert listed([known], asked(SPLIT, 0), foreign, seen) == {"MIG-a": False, "MIG-b": False}
