"""Mode MIG: cards are divided when nobody uses them, offered when they are divided, and turned back when they leave."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap
from controllers.api.meta import Condition
from controllers.api.settings import parse_settings
from controllers.domain import agents, mig
from controllers.gpupool.operands import mig_manager
from controllers.runtime.plan import Apply, Precondition
from tests.gpupool.machine import die_and_go_on
from tests.gpupool.test_maintenance import (
    allocate,
    applied,
    ask,
    end,
    message,
    notes,
    pooled,
    promise,
    published,
    status,
    told,
)
from tests.gpupool.world import AUTOMATIC, Cluster, whole
from tests.kit import conditions, objects
from tests.kit.cluster import ConflictError

CARDS = ("n1-0000-00-00-0", "n1-0000-01-00-0")
SMALL, LARGE = {"mode": "MIG", "migProfile": "1g.10gb"}, {"mode": "MIG", "migProfile": "3g.40gb"}
LAYOUT = ("ConfigMap", f"{names.NAMESPACE}/{names.mig_layout('n1')}")
MANAGER = ("DaemonSet", f"{names.NAMESPACE}/{names.mig_manager('a')}")
SHARED = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}


def devices(made: Cluster) -> list[GPUDevice]:
    return made.all(resources.GPUDEVICE, GPUDevice)


def divided(made: Cluster) -> list[dict[str, int] | None]:
    """The instances of each card; None where MIG mode is off."""
    cards = [mig.card_of(device) for device in devices(made)]
    return [dict(card.actual.instances) if card and card.actual and card.actual.enabled else None for card in cards]


def layout(made: Cluster) -> mig.NodeLayout:
    (config,) = [c for c in made.all(resources.CONFIGMAP, ConfigMap) if c.name == names.mig_layout("n1")]
    found = mig.read(config.data)
    assert found is not None
    return found


def parts(made: Cluster) -> list[mig.CardLayout | None]:
    """How each card of the layout is to be divided."""
    return [card.layout for card in layout(made).cards]


def told_of(made: Cluster, card: str) -> Condition:
    """What a card says of its pool."""
    found = kinds.find(next(d for d in devices(made) if d.name == card).status.conditions, kinds.CONFIGURED)
    assert found is not None
    return found


def configured(made: Cluster, card: str) -> str:
    return told_of(made, card).reason


def resume(made: Cluster) -> None:
    made.objects["GPUPool", "a"]["metadata"].setdefault("annotations", {})[names.RESUME] = "true"
    made.now += 1
    made.touch(("GPUPool", "a"))
    made.settle()


def by_hand(made: Cluster, card: str, instances: dict[str, int], *, enabled: bool = True) -> None:
    """Somebody divides a card with the driver's tool."""
    types = [{"name": name, "count": count} for name, count in instances.items()]
    made.objects["GPUDevice", card]["status"]["hardware"]["mig"] |= {"enabled": enabled, "types": types}
    made.touch(("GPUDevice", card))


def test_a_new_pool_divides_its_cards_and_then_offers_them() -> None:
    made = pooled(**SMALL)

    assert divided(made) == [{"1g.10gb": 7}, {"1g.10gb": 7}]
    assert published(made) == [7, 7]
    assert (told(made), told(made, kinds.MISCONFIGURED)) == (("False", "AsExpected"), ("False", "AsExpected"))
    capacity = status(made).capacity
    assert capacity is not None
    assert (capacity.unit, capacity.total, capacity.available) == ("mig-partition", 14, 14)
    assert all(card.ours for card in layout(made).cards)


def test_a_card_is_not_offered_before_it_is_divided() -> None:
    made = Cluster()
    made.slow = {CARDS[0]}
    made.node("n1", 2)
    made.pool("a", allocation=SMALL)
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    assert published(made) == [None, 7]
    assert configured(made, CARDS[0]) == "AwaitingLayout"

    made.slow = set()
    made.settle()
    assert published(made) == [7, 7]


def test_an_acknowledgement_alone_does_not_offer_a_card() -> None:
    """The node has yet to report that the card is divided."""
    made = pooled(**SMALL)
    made.annotate(CARDS[0], None)
    made.settle()
    made.slow = {CARDS[0]}
    made.annotate(CARDS[0], "a")
    made.settle()
    part = next(card for card in layout(made).cards if card.address == "0000:00:00.0")
    made.objects["GPUDevice", CARDS[0]]["status"]["migApply"] = {"version": part.version, "phase": "Done"}
    made.touch(("GPUDevice", CARDS[0]))
    made.settle()

    assert published(made) == [None, 7]
    assert told(made) == ("False", "AsExpected")


@pytest.mark.parametrize("before", [{"mode": "Exclusive"}, SHARED, LARGE], ids=["Exclusive", "TimeSlice", "MIG"])
def test_an_idle_pool_is_divided_anew(before: dict[str, Any]) -> None:
    made = pooled(**before)
    ask(made, SMALL)
    made.settle()

    assert (applied(made)[0], told(made)) == ("MIG", ("False", "AsExpected"))
    assert divided(made) == [{"1g.10gb": 7}, {"1g.10gb": 7}]
    assert published(made) == [7, 7]


@pytest.mark.parametrize("after", [{"mode": "Exclusive"}, SHARED], ids=["Exclusive", "TimeSlice"])
def test_a_pool_that_leaves_mig_has_its_cards_turned_back(after: dict[str, Any]) -> None:
    made = pooled(**SMALL)
    made.slow = set(CARDS)
    ask(made, after)
    made.settle()
    assert told(made) == ("True", "Rebuilding")
    assert "n1" in message(made)
    assert published(made) == [None, None]

    made.slow = set()
    made.settle()
    assert (applied(made)[0], divided(made)) == (after["mode"], [None, None])
    assert None not in published(made)
    assert LAYOUT not in made.objects
    assert MANAGER not in made.objects


def test_nothing_is_divided_while_a_pod_holds_a_card() -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    ask(made, SMALL)
    made.settle()
    assert told(made) == ("True", "WaitingForPods")
    assert LAYOUT not in made.objects

    end(made, CARDS[0])
    made.settle()
    assert published(made) == [7, 7]


@pytest.mark.parametrize(("before", "after"), [({"mode": "Exclusive"}, SMALL), (SMALL, {"mode": "Exclusive"})])
def test_a_card_that_others_have_is_left_as_it_is_and_nobody_waits_for_it(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    made = pooled(**before)
    was = divided(made)[0]
    made.elsewhere = {CARDS[0]}
    with made.edit("GPUDevice", CARDS[0]) as card:
        del card["status"]["published"]
        taken = {"namespace": "legacy", "pod": "train", "container": "main", "resource": "nvidia.com/gpu"}
        card["status"]["foreignAllocations"] = [taken]
    ask(made, after)
    made.settle()
    assert told(made) == ("False", "AsExpected")
    assert divided(made)[0] == was
    assert published(made)[0] is None
    assert published(made)[1] is not None
    assert configured(made, CARDS[0]) == "HeldElsewhere"

    made.elsewhere = set()
    with made.edit("GPUDevice", CARDS[0]) as card:
        card["status"]["foreignAllocations"] = []
    made.settle()
    assert divided(made)[0] == divided(made)[1] != was
    assert published(made)[0] == published(made)[1]


def test_a_card_with_a_pod_on_it_is_not_turned_back() -> None:
    made = pooled(**SMALL)
    allocate(made, CARDS[0], "u")
    made.annotate(CARDS[0], None)
    made.settle()
    assert divided(made) == [{"1g.10gb": 7}, {"1g.10gb": 7}]
    assert published(made) == [None, 7]

    end(made, CARDS[0])
    made.settle()
    assert divided(made) == [None, {"1g.10gb": 7}]
    assert [device.status.pool_ref is not None for device in devices(made)] == [False, True]


def test_a_promised_card_is_not_turned_back() -> None:
    made = pooled(**SMALL)
    promise(made, CARDS[0])
    made.annotate(CARDS[0], None)
    made.settle()
    assert divided(made)[0] == {"1g.10gb": 7}


def test_a_pod_that_the_cache_does_not_know_yet_keeps_the_layout() -> None:
    made = pooled(**SMALL)
    made.annotate(CARDS[0], None)
    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    made.plugin()
    made.pod("p", "a", "r", node="n1")
    made.hidden = frozenset({"default/p"})
    found = made.planned("GPUNodeInventory", "n1").actions
    assert any(isinstance(action, Precondition) for action in found)
    with pytest.raises(ConflictError):
        made.execute(found, names.MANAGER_POOL)
    assert all(card.layout != mig.DISABLED for card in layout(made).cards)


def test_a_leaving_card_stays_until_it_is_turned_back_and_then_goes_to_the_next_pool() -> None:
    made = pooled(**SMALL)
    made.pool("b")
    made.slow = {CARDS[0]}
    made.annotate(CARDS[0], "b")
    made.settle()
    first = devices(made)[0].status
    assert first.pool_ref is not None
    assert first.pool_ref.name == "a"
    assert configured(made, CARDS[0]) == "AwaitingTurnBack"
    assert names.pool_node_label("a") in made.objects["Node", "n1"]["metadata"]["labels"]

    made.slow = set()
    made.settle()
    first = devices(made)[0].status
    assert first.published is not None
    assert (first.published.pool, first.published.slots) == ("b", 1)
    assert divided(made) == [None, {"1g.10gb": 7}]


def test_a_deleted_pool_has_its_cards_turned_back_before_it_goes() -> None:
    made = pooled(**SMALL)
    made.slow = {CARDS[1]}
    made.delete_pool("a")
    made.settle()
    assert made.pools() == {"a"}
    assert MANAGER in made.objects

    made.slow = set()
    made.settle()
    assert made.pools() == set()
    assert divided(made) == [None, None]
    assert LAYOUT not in made.objects
    assert MANAGER not in made.objects


def test_a_card_that_its_administrator_divided_is_left_so() -> None:
    made = Cluster()
    made.node("n1", 2)
    by_hand(made, CARDS[0], {"3g.40gb": 2})
    made.pool("a", allocation=SMALL)
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    assert published(made) == [7, 7]
    assert [card.ours for card in layout(made).cards] == [False, True]

    for card in CARDS:
        made.annotate(card, None)
    made.settle()
    assert divided(made) == [{"1g.10gb": 7}, None]
    assert LAYOUT not in made.objects


def test_two_pools_of_a_node_have_one_layout() -> None:
    made = Cluster()
    made.node("n1", 2)
    made.pool("a", allocation=SMALL)
    made.pool("b", allocation=LARGE)
    made.annotate(CARDS[0], "a")
    made.annotate(CARDS[1], "b")
    made.settle()

    assert divided(made) == [{"1g.10gb": 7}, {"3g.40gb": 2}]
    assert len(layout(made).cards) == 2
    before = made.objects["GPUDevice", CARDS[1]]["status"]["migApply"]
    made.delete_pool("a")
    made.settle()
    assert divided(made) == [None, {"3g.40gb": 2}]
    assert made.objects["GPUDevice", CARDS[1]]["status"]["migApply"] == before


def test_a_card_that_cannot_be_divided_so_is_not_taken_in() -> None:
    made = Cluster()
    made.node("n1", 1)
    made.pool("a", allocation={"mode": "MIG", "migProfile": "1g.5gb"})
    made.annotate(CARDS[0], "a")
    made.settle()

    assert devices(made)[0].status.pool_ref is None
    found = kinds.find(devices(made)[0].status.conditions, kinds.CONFIGURED)
    assert found is not None
    assert found.reason == "OutOfSelector"
    assert "MIGProfileNotOffered" in found.message


def test_a_pool_whose_profile_none_of_its_cards_holds_is_misconfigured_until_one_does() -> None:
    made = Cluster()
    made.node("n1", 2)
    made.pool("a", allocation={"mode": "MIG", "migProfile": "1g.5gb"})
    assert names.EVENT_MISCONFIGURED not in notes(made.planned("GPUPool", "a").actions), "no node was looked at yet"
    made.planned("GPUNodeInventory", "n1")
    assert names.EVENT_MISCONFIGURED in notes(made.planned("GPUPool", "a").actions)
    made.settle()
    assert told(made, kinds.MISCONFIGURED) == ("True", names.INVALID_MIG_PROFILE)
    said = message(made, kinds.MISCONFIGURED)
    assert said.startswith("None of the 2 cards that the pool's selectors match can be divided into 1g.5gb (MIGProfile")
    assert "kubectl annotate" not in message(made, kinds.AVAILABLE), "there is nothing to confirm"
    made.now += 86_400.0
    assert not any(plan.writes for plan in made.plans())

    view = made.view()
    view.candidates.complete = False  # a controller that has just started
    seen = view.pool("a")
    assert seen is not None
    assert not whole(seen, made.now).writes

    ask(made, SMALL)
    made.settle()
    assert told(made, kinds.MISCONFIGURED) == ("False", "AsExpected")
    made.annotate(CARDS[0], "a")
    made.settle()
    assert published(made)[0] == 7


@pytest.mark.parametrize(
    "selector",
    [
        {"nodeSelector": {"matchLabels": {"no": "node"}}},  # no card is known yet: it may come
        {"deviceSelector": {"include": {"migProfiles": ["1g.5gb"]}}},
    ],
)
def test_a_pool_that_means_no_card_at_all_waits_for_one(selector: dict[str, Any]) -> None:
    made = Cluster()
    made.node("n1", 2)
    made.pool("a", allocation={"mode": "MIG", "migProfile": "1g.5gb"}, **selector)
    made.settle()
    assert told(made, kinds.MISCONFIGURED) == ("False", "AsExpected")


def test_a_card_of_another_pool_that_holds_the_profile_may_come() -> None:
    made = pooled(mode="Exclusive")
    made.pool("b", allocation=SMALL)
    made.settle()
    (pool,) = [p for p in made.all(resources.GPUPOOL, GPUPool) if p.name == "b"]
    assert not kinds.is_true(pool.status.conditions, kinds.MISCONFIGURED)


def test_a_profile_that_a_card_of_the_pool_does_not_hold_halts_the_pool_and_divides_nothing() -> None:
    made = pooled()
    ask(made, {"mode": "MIG", "migProfile": "1g.5gb"})
    made.settle()
    assert told(made, kinds.MISCONFIGURED) == ("True", "LayoutFailed")
    assert "MIGProfileNotOffered" in message(made)
    assert divided(made) == [None, None]

    ask(made, {"mode": "Exclusive"})
    made.settle()
    assert (told(made, kinds.MISCONFIGURED), published(made)) == (("False", "AsExpected"), [1, 1])


def failing(*cards: str) -> Cluster:
    made = pooled()
    made.breaks = dict.fromkeys(cards, "the card needs a reboot")
    ask(made, SMALL)
    made.settle()
    return made


def test_a_card_that_fails_stands_aside_and_the_pool_goes_on_with_the_others() -> None:
    made = failing(CARDS[1])
    assert (applied(made)[0], published(made)) == ("MIG", [7, None])
    assert (told(made), told(made, kinds.MISCONFIGURED)) == (("False", "AsExpected"), ("False", "AsExpected"))
    found = told_of(made, CARDS[1])
    assert (found.status, found.reason) == ("False", "LayoutFailed")
    assert found.message == (
        "The card is not offered: the card needs a reboot. Mend it and have it tried again: kubectl annotate gpupool a"
        f" {names.RESUME}=true; or leave it out: kubectl label gpudevice {CARDS[1]} {names.LABEL_IGNORE}=true."
    )
    assert [(n.health, n.last_event) for n in status(made).nodes] == [
        ("Misconfigured", "n1-0000:01:00.0: the card needs a reboot")
    ]
    capacity = status(made).capacity
    assert capacity is not None
    assert (capacity.available, capacity.unavailable) == (7, 7)

    made.breaks = {}
    made.now += 86_400.0
    before = layout(made)
    made.settle()
    assert layout(made) == before, "nobody asked"
    resume(made)
    assert published(made) == [7, 7]


def test_a_card_that_could_not_be_turned_back_stands_aside_in_the_next_mode_too() -> None:
    made = pooled(**SMALL)
    made.breaks = {CARDS[1]: "RebootRequired: card 0000:01:00.0 cannot be reset"}
    ask(made, {"mode": "Exclusive"})
    made.settle()
    assert (applied(made)[0], published(made)) == ("Exclusive", [1, None])
    assert (told(made), configured(made, CARDS[1])) == (("False", "AsExpected"), "LayoutFailed")
    assert [n.health for n in status(made).nodes] == ["Misconfigured"]

    made.breaks = {}
    resume(made)
    assert published(made) == [1, 1]


def test_a_pool_of_which_every_card_fails_halts_until_a_person_resumes_it() -> None:
    made = failing(*CARDS)
    assert told(made) == ("True", "LayoutFailed")
    assert told(made, kinds.MISCONFIGURED) == ("True", "LayoutFailed")
    assert "n1: n1-0000:00:00.0: the card needs a reboot" in message(made)
    assert published(made) == [None, None]
    assert applied(made)[0] == "Exclusive"

    resume(made)
    assert told(made) == ("True", "LayoutFailed")  # it was tried again, and failed again
    made.breaks = {}
    made.settle()
    assert told(made) == ("True", "LayoutFailed")  # nobody asked
    resume(made)
    assert (applied(made)[0], published(made)) == ("MIG", [7, 7])
    assert told(made) == ("False", "AsExpected")


def test_only_what_failed_is_tried_again() -> None:
    made = failing(CARDS[1])
    before = {card.address: card.version for card in layout(made).cards}
    made.breaks = {}
    resume(made)
    after = {card.address: card.version for card in layout(made).cards}
    assert [before[address] == after[address] for address in sorted(before)] == [True, False]


def test_a_failed_change_is_put_back() -> None:
    made = failing(CARDS[1])
    ask(made, {"mode": "Exclusive"})
    made.breaks = {}
    made.settle()

    assert (told(made), divided(made), published(made)) == (("False", "AsExpected"), [None, None], [1, 1])


def ask_and_wait_in_vain(made: Cluster) -> None:
    """The pool is to be divided, its deadline is ten minutes, and they pass."""
    made.settings = parse_settings({"maintenance": {"deadline": "10m"}})
    ask(made, SMALL)
    made.settle()
    assert told(made) == ("True", "Rebuilding")
    assert made.planned("GPUPool", "a").requeue_after == pytest.approx(600, abs=1)
    made.now += 601
    made.settle()


def test_a_node_that_does_not_answer_has_a_deadline() -> None:
    made = pooled()
    made.slow = {CARDS[0]}
    ask_and_wait_in_vain(made)
    assert (told(made), published(made)) == (("False", "AsExpected"), [None, 7])
    found = told_of(made, CARDS[0])
    assert found.reason == "LayoutFailed"
    assert "not divided within maintenance.deadline (600 s): the MIG manager says Applying" in found.message
    made.slow = set()
    made.settle()  # late is as good
    assert published(made) == [7, 7]


def test_a_card_that_somebody_divides_otherwise_stands_aside_until_resumed() -> None:
    made = pooled(**SMALL)
    by_hand(made, CARDS[0], {"1g.10gb": 5})
    made.settle()
    made.settle()
    assert (told(made), published(made)) == (("False", "AsExpected"), [None, 7])
    found = told_of(made, CARDS[0])
    assert found.reason == "LayoutDrifted"
    assert "it is no longer divided as it was" in found.message

    resume(made)
    assert (divided(made)[0], published(made)) == ({"1g.10gb": 7}, [7, 7])


def test_a_pool_of_which_every_card_is_divided_otherwise_halts_until_resumed() -> None:
    made = pooled(**SMALL)
    for card in CARDS:
        by_hand(made, card, {"1g.10gb": 5})
    first = made.planned("GPUPool", "a").actions
    made.settle()
    assert names.EVENT_MISCONFIGURED in notes(first)
    assert told(made) == ("True", "LayoutFailed")
    assert "no longer divided as it was" in message(made)
    assert published(made) == [None, None]

    resume(made)
    assert (divided(made), published(made)) == ([{"1g.10gb": 7}] * 2, [7, 7])
    assert told(made) == ("False", "AsExpected")


def test_a_pool_whose_other_cards_are_on_a_node_that_is_away_does_not_halt_for_one() -> None:
    made = Cluster()
    for node in ("n1", "n2"):
        made.node(node, 1)
    made.pool("a", allocation=SMALL)
    for card in ("n1-0000-00-00-0", "n2-0000-00-00-0"):
        made.annotate(card, "a")
    made.settle()
    with made.edit("Node", "n2") as node_away:
        node_away["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    by_hand(made, CARDS[0], {"1g.10gb": 5})
    made.settle()
    assert (told(made), configured(made, CARDS[0])) == (("False", "AsExpected"), "LayoutDrifted")


@pytest.mark.parametrize("keeps_mode", [True, False])
def test_after_a_reboot_cards_are_divided_and_offered_again_without_a_person(keeps_mode: bool) -> None:
    made = pooled(**SMALL)
    before = {card.address: card.version for card in layout(made).cards}
    made.now += 86_400.0
    made.reboot("n1", keeps_mode=keeps_mode)
    for about in (("GPUPool", "a"), ("GPUNodeInventory", "n1")):  # the MIG manager is not back yet
        made.execute(made.planned(*about).actions, names.MANAGER_POOL)
    assert (told(made), {card.address: card.version for card in layout(made).cards}) == (
        ("False", "AsExpected"),
        before,
    )
    made.settle()
    assert (divided(made), published(made)) == ([{"1g.10gb": 7}] * 2, [7, 7])
    assert (told(made), told(made, kinds.MISCONFIGURED)) == (("False", "AsExpected"), ("False", "AsExpected"))
    assert [card.again for card in layout(made).cards] == [1, 1]
    assert all(card.ours for card in layout(made).cards)


def test_a_card_that_was_lost_is_not_divided_while_somebody_may_be_on_it() -> None:
    made = pooled(**SMALL)
    allocate(made, CARDS[0], "u")
    made.reboot("n1")
    made.settle()
    assert (divided(made), published(made)) == ([{}, {"1g.10gb": 7}], [None, 7])
    assert configured(made, CARDS[0]) == "AwaitingLayout"
    assert "its MIG manager says Lost" in told_of(made, CARDS[0]).message

    end(made, CARDS[0])
    made.settle()
    assert published(made) == [7, 7]


def test_a_pod_that_the_cache_does_not_know_yet_keeps_a_lost_card_as_it_is() -> None:
    made = pooled(**SMALL)
    made.reboot("n1")
    for _ in range(3):
        made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
        made.plugin()
        made.mig_manager()
    made.pod("p", "a", "r", node="n1")
    made.hidden = frozenset({"default/p"})
    found = made.planned("GPUNodeInventory", "n1").actions
    assert any(isinstance(action, Apply) and action.ref.name == names.mig_layout("n1") for action in found)
    before = layout(made)
    with pytest.raises(ConflictError):
        made.execute(found, names.MANAGER_POOL)
    assert layout(made) == before


def lose(made: Cluster, number: int = 0) -> None:
    """The driver is loaded anew, in the same boot, and its MIG manager says so."""
    version = layout(made).cards[number].version
    by_hand(made, CARDS[number], {})
    lost = {"version": version, "phase": "Lost", "bootID": made.boot("n1"), "reason": "DriverReloaded: undivided"}
    made.objects["GPUDevice", CARDS[number]]["status"]["migApply"] = lost
    made.settle()


def test_a_card_that_its_driver_loses_is_divided_by_itself_twice_a_boot_and_then_stands_aside() -> None:
    made = pooled(**SMALL)
    for times in (1, 2):
        lose(made)
        assert (published(made), layout(made).cards[0].again) == ([7, 7], times)
    lose(made)
    assert published(made) == [None, 7]
    found = told_of(made, CARDS[0])
    assert found.reason == "LayoutFailed"
    assert "in this boot of the node that was mended 2 times already" in found.message

    resume(made)
    assert published(made) == [7, 7]
    for times in (1, 2):  # a person has said that it can be tried: it counts anew, in the same boot
        lose(made)
        assert (published(made), layout(made).cards[0].again) == ([7, 7], times)
    lose(made)
    assert published(made) == [None, 7]

    resume(made)
    made.reboot("n1")
    made.settle()
    assert (published(made), layout(made).cards[0].again) == ([7, 7], 1)


def test_a_card_that_fails_after_each_reboot_is_tried_once_in_each() -> None:
    made = failing(CARDS[1])
    for _ in range(3):
        made.reboot("n1")
        made.settle()
        assert (published(made), configured(made, CARDS[1])) == ([7, None], "LayoutFailed")
        assert layout(made).cards[1].again == 1
    made.breaks = {}
    made.reboot("n1")
    made.settle()
    assert published(made) == [7, 7]


def test_a_manager_that_is_not_back_after_a_reboot_is_waited_for_and_halts_nothing() -> None:
    made = pooled(**SMALL)
    made.now += 86_400.0
    made.reboot("n1")
    played = made.mig_manager
    made.mig_manager = lambda: None  # type: ignore[method-assign]
    made.settle()
    assert {configured(made, card) for card in CARDS} == {"AwaitingLayout"}
    assert "its MIG manager says Done and has not looked again since the node was started anew" in (
        told_of(made, CARDS[0]).message
    )
    assert told(made) == ("False", "AsExpected")
    made.mig_manager = played  # type: ignore[method-assign]
    made.settle()
    assert published(made) == [7, 7]


def under(made: Cluster, card: str, *, report: str, manager: str) -> None:
    """Under which loading of the driver, in this boot, a card's report and its MIG manager's answer were made."""
    boot = made.boot("n1")
    with made.edit("GPUDevice", card) as found:
        found["status"]["hardware"]["mig"] |= {"bootID": boot, "driverLoad": report}
        found["status"]["migApply"] |= {"bootID": boot, "driverLoad": manager}


def test_a_driver_that_is_loaded_anew_in_one_boot_is_no_drift_though_its_mig_manager_has_not_spoken() -> None:
    made = pooled(**SMALL)
    for card in CARDS:
        under(made, card, report="1", manager="1")
    made.settle()
    assert published(made) == [7, 7]
    made.now += 86_400.0
    for card in CARDS:  # the validator is back first
        by_hand(made, card, {})
        under(made, card, report="2", manager="1")
    made.settle()
    assert {configured(made, card) for card in CARDS} == {"AwaitingLayout"}
    assert "of another loading of the driver" in told_of(made, CARDS[0]).message
    assert (told(made), published(made)) == (("False", "AsExpected"), [None, None])

    for number, card in enumerate(CARDS):
        lose(made, number)
        assert published(made)[number] == 7, card
    assert [card.again for card in layout(made).cards] == [1, 1]


@pytest.mark.parametrize("report", ["1", None], ids=["the same loading", "a loading that nobody tells"])
def test_a_card_that_is_divided_otherwise_in_the_loading_of_the_answer_has_drifted(report: str | None) -> None:
    made = pooled(**SMALL)
    under(made, CARDS[0], report="1", manager="1")
    by_hand(made, CARDS[0], {"1g.10gb": 5})
    if report is None:
        with made.edit("GPUDevice", CARDS[0]) as found:
            del found["status"]["hardware"]["mig"]["driverLoad"]
    made.settle()
    assert (configured(made, CARDS[0]), published(made)) == ("LayoutDrifted", [None, 7])


def test_a_report_of_the_boot_before_is_no_drift_though_its_node_has_told_the_new_one_late() -> None:
    made = pooled(**SMALL)
    under(made, CARDS[0], report="1", manager="1")
    by_hand(made, CARDS[0], {})
    with made.edit("GPUDevice", CARDS[0]) as found:
        found["status"]["hardware"]["mig"]["bootID"] = "the next"
    made.settle()
    assert (configured(made, CARDS[0]), published(made)) == ("AwaitingLayout", [None, 7])


def test_a_change_of_layout_has_its_deadline_whatever_the_loading() -> None:
    """A report that never comes does not keep a pool in Maintenance."""
    made = pooled()
    made.slow = set(CARDS)
    made.settings = parse_settings({"maintenance": {"deadline": "10m"}})
    ask(made, SMALL)
    made.settle()
    for card, part in zip(CARDS, layout(made).cards, strict=True):
        with made.edit("GPUDevice", card) as found:
            found["status"]["migApply"] = {"version": part.version, "phase": "Done"}
        under(made, card, report="1", manager="2")
    made.settle()
    assert told(made) == ("True", "Rebuilding")
    made.now += 601
    made.settle()
    made.settle()
    assert told(made) == ("True", "LayoutFailed")


def test_a_card_that_failed_while_others_had_it_is_tried_again_when_they_have_ended() -> None:
    """The plugin tells of them after the card was divided in vain; twice a boot that is enough, and no more."""
    made = pooled()
    made.breaks = {CARDS[0]: "CardInUse: card 0000:00:00.0 cannot be reset"}
    ask(made, SMALL)
    made.settle()
    for times in (1, 2, 3):
        assert (published(made), configured(made, CARDS[0])) == ([None, 7], "LayoutFailed")
        taken = {"namespace": "legacy", "pod": "train", "container": "main", "resource": "nvidia.com/gpu"}
        with made.edit("GPUDevice", CARDS[0]) as card:
            card["status"]["foreignAllocations"] = [taken]
        made.settle()
        assert configured(made, CARDS[0]) == "HeldElsewhere"
        assert layout(made).cards[0].used_since_failure
        with made.edit("GPUDevice", CARDS[0]) as card:
            card["status"]["foreignAllocations"] = []
        made.settle()
        assert layout(made).cards[0].again == min(times, 2)
    made.breaks = {}
    resume(made)
    assert (published(made), layout(made).cards[0].used_since_failure) == ([7, 7], False)


def test_a_card_that_was_divided_otherwise_while_its_node_was_away_is_divided_anew_on_resume() -> None:
    made = pooled(**SMALL)
    made.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    made.touch(("Node", "n1"))
    by_hand(made, CARDS[0], {"1g.10gb": 5})
    made.settle()
    made.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    made.touch(("Node", "n1"))
    made.settle()
    assert (published(made), configured(made, CARDS[0])) == ([None, 7], "AwaitingLayout")

    resume(made)
    assert published(made) == [7, 7]


def test_a_lost_card_is_not_waited_for() -> None:
    made = pooled()
    made.slow = {CARDS[0]}
    ask(made, SMALL)
    made.settle()
    assert told(made) == ("True", "Rebuilding")

    made.fault(CARDS[0])
    made.settle()
    assert (applied(made)[0], published(made)) == ("MIG", [None, 7])
    made.fault(CARDS[0], faulted=False)
    made.settle()
    assert published(made) == [None, 7]  # it is back, and not divided yet
    made.slow = set()
    made.settle()
    assert published(made) == [7, 7]


def test_a_card_that_is_declined_is_waited_for_no_more_from_its_mark_on() -> None:
    """Its condition follows the mark, and does not while inventory is away; nothing offers the card meanwhile."""
    made = pooled()
    made.slow = {CARDS[0]}
    ask(made, SMALL)
    made.settle()
    assert told(made) == ("True", "Rebuilding")

    with made.edit("GPUDevice", CARDS[0]) as card:
        card["metadata"].setdefault("labels", {})[names.LABEL_IGNORE] = "true"
    made.settle()
    assert (applied(made)[0], published(made)) == ("MIG", [None, 7])


def test_a_driver_that_is_away_for_a_moment_turns_nothing_back() -> None:
    made = pooled(**SMALL)
    before = parts(made)
    told_mig = made.objects["GPUDevice", CARDS[0]]["status"]["hardware"].pop("mig")
    made.touch(("GPUDevice", CARDS[0]))
    made.execute(made.planned("GPUNodeInventory", "n1").actions, names.MANAGER_POOL)
    assert parts(made) == before

    made.objects["GPUDevice", CARDS[0]]["status"]["hardware"]["mig"] = told_mig
    made.touch(("GPUDevice", CARDS[0]))


@pytest.mark.parametrize("key", [names.MIG_CARDS, names.MIG_CONFIG, names.MIG_VERSION])
def test_what_somebody_edits_in_the_layout_is_put_back(key: str) -> None:
    made = pooled(**SMALL)
    data = made.objects[LAYOUT]["data"]
    before = dict(data)
    if key == names.MIG_CARDS:
        data[key] = data[key].replace('"1g.10gb": 7', '"1g.10gb": 6')
    else:
        data[key] = "another"
    made.touch(LAYOUT)
    made.settle()

    if key == names.MIG_CARDS:  # another part was written: ours is asked for anew
        assert parts(made) == [mig.CardLayout(True, {"1g.10gb": 7})] * 2
    else:
        assert made.objects[LAYOUT]["data"] == before


def test_a_deleted_layout_is_made_anew() -> None:
    made = pooled(**SMALL)
    del made.objects[LAYOUT]
    made.settle()
    assert parts(made) == [mig.CardLayout(True, {"1g.10gb": 7})] * 2
    assert published(made) == [7, 7]


@pytest.mark.parametrize("stop", range(20))
def test_a_controller_that_dies_after_any_write_goes_on(stop: int) -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    ask(made, SMALL)

    def nodes(round_: int) -> None:
        made.plugin()
        made.mig_manager()
        if round_ == 3:
            end(made, CARDS[0])

    die_and_go_on(made, stop, 10, nodes)
    assert (applied(made)[0], told(made), published(made)) == ("MIG", ("False", "AsExpected"), [7, 7])


def test_the_manager_runs_where_the_pool_has_cards_and_only_for_mig() -> None:
    assert MANAGER not in pooled().objects
    made = pooled(**SMALL)
    found = made.objects[MANAGER]
    pod = found["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {names.pool_node_label("a"): "true"}
    (container,) = pod["containers"]
    assert container["args"] == ["mig-manager", "--pool", "a", *agents.LISTENS]
    assert [(port["name"], port["containerPort"]) for port in container["ports"]] == [
        ("health", 8080), ("https-metrics", 8443),
    ]  # fmt: skip
    assert {container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")} == {"health"}
    assert pod["serviceAccountName"] == "gpu-nodeagent-mig"
    assert found["metadata"]["labels"][names.LABEL_COMPONENT] == "mig-manager"
    assert found["spec"]["selector"]["matchLabels"].items() <= found["spec"]["template"]["metadata"]["labels"].items()
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("GPUPool", "a")

    pod["nodeSelector"] = {"x": "y"}
    made.touch(MANAGER)
    repairs = [a for a in made.planned("GPUPool", "a").writes if isinstance(a, Apply)]
    assert [action.ref.name for action in repairs] == [names.mig_manager("a")]
    made.settle()
    assert made.objects[MANAGER]["spec"]["template"]["spec"]["nodeSelector"] == {names.pool_node_label("a"): "true"}


def test_the_manager_is_the_same_whatever_the_mode() -> None:
    made = pooled(**SMALL)
    seen = made.view().pool("a")
    assert seen is not None
    assert mig_manager.is_needed(seen)
    assert mig_manager.daemonset(seen.pool, "x") == mig_manager.daemonset(seen.pool, "x")


def test_a_card_that_drifted_is_divided_anew_only_once_it_is_withdrawn() -> None:
    made = pooled(**LARGE)
    by_hand(made, CARDS[0], {"1g.10gb": 5})
    made.objects["GPUPool", "a"]["metadata"].setdefault("annotations", {})[names.RESUME] = "true"
    made.touch(("GPUPool", "a"))
    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    assert names.RESUME in made.objects["GPUPool", "a"]["metadata"]["annotations"], "it cannot be obeyed yet"
    made.mig_manager()  # asserts that nothing is divided while it is offered
    made.settle()
    assert divided(made)[0] == {"3g.40gb": 2}
    assert names.RESUME not in made.objects["GPUPool", "a"]["metadata"]["annotations"]


def test_a_card_at_which_a_manager_may_still_be_is_not_offered_whole() -> None:
    """One that came with MIG mode on is not ours to turn back, but its pool changed its mind while it was divided."""
    made = pooled()
    by_hand(made, CARDS[0], {})
    made.slow.add(CARDS[0])
    ask(made, LARGE)
    made.settle()
    ask(made, {"mode": "Exclusive"})
    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    made.plugin()
    made.mig_manager()  # asserts that nothing is divided while it is offered
    made.settle()
    assert published(made) == [None, 1]  # in MIG mode it is no whole card, and not ours to turn back

    by_hand(made, CARDS[0], {}, enabled=False)
    made.settle()
    assert published(made) == [1, 1]


def kept_out(made: Cluster) -> Condition:
    """Both cards are confirmed for pool a, and the first one stays out: what it says."""
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    assert [device.status.pool_ref is not None for device in devices(made)] == [False, True]
    return told_of(made, CARDS[0])


@pytest.mark.parametrize("mode", [{"mode": "Exclusive"}, SHARED], ids=["Exclusive", "TimeSlice"])
def test_a_card_in_mig_mode_does_not_come_into_a_pool_of_whole_cards(mode: dict[str, Any]) -> None:
    made = Cluster()
    made.node("n1", 2)
    by_hand(made, CARDS[0], {"3g.40gb": 2})
    made.pool("a", allocation=mode)
    found = kept_out(made)
    assert (found.status, found.reason) == ("False", "MIGEnabled")
    assert "nvidia-smi -i 0000:00:00.0 -mig 0" in found.message
    assert [c.name for c in status(made).candidates] == [CARDS[0]]

    by_hand(made, CARDS[0], {}, enabled=False)
    made.settle()
    assert None not in published(made)


def test_a_card_in_mig_mode_takes_no_place_of_an_automatic_pool_that_cannot_serve_it() -> None:
    made = Cluster()
    made.node("n1", 2)
    by_hand(made, CARDS[0], {})
    made.pool("a", allocation={"mode": "Exclusive", "maxDevicesPerNode": 1}, **AUTOMATIC)
    made.settle()
    assert [device.status.pool_ref is not None for device in devices(made)] == [False, True]
    first = made.objects["GPUDevice", CARDS[0]]
    assert names.ASSIGNMENT not in first["metadata"].get("annotations", {})
    inventory = made.objects["GPUNodeInventory", "n1"]["status"]
    waits = [(one["pool"], one["reason"]) for one in inventory["pools"]["pending"]]
    assert waits == [("a", "OutOfSelector")], "it idles, and is told of"

    # One that was annotated before takes nobody's place either.
    made.annotate(CARDS[0], "a")
    made.annotate(CARDS[1], None)
    made.settle()
    assert [device.status.pool_ref is not None for device in devices(made)] == [False, True]


def test_a_card_in_mig_mode_goes_to_the_automatic_pool_that_can_serve_it() -> None:
    made = Cluster()
    made.node("n1", 1)
    by_hand(made, CARDS[0], {})
    made.pool("a", allocation={"mode": "Exclusive"}, **AUTOMATIC)
    made.now += 1
    made.pool("b", allocation=SMALL, **AUTOMATIC)
    made.settle()
    assert made.objects["GPUDevice", CARDS[0]]["metadata"]["annotations"][names.ASSIGNMENT] == "b"


@pytest.mark.parametrize("mode", [{"mode": "Exclusive"}, SHARED], ids=["Exclusive", "TimeSlice"])
def test_a_member_that_somebody_puts_into_mig_mode_is_withdrawn_alone(mode: dict[str, Any]) -> None:
    made = pooled(**mode)
    before = published(made)
    by_hand(made, CARDS[0], {})
    made.settle()
    assert published(made) == [None, before[1]]
    assert configured(made, CARDS[0]) == "MIGEnabled"
    assert "nvidia-smi -i 0000:00:00.0 -mig 0" in told_of(made, CARDS[0]).message
    assert (told(made), LAYOUT in made.objects) == (("False", "AsExpected"), False)

    made.annotate(CARDS[0], None)  # nothing is ours to turn back
    made.settle()
    assert devices(made)[0].status.pool_ref is None


def test_a_pool_that_leaves_mig_with_a_card_that_its_administrator_divided_says_what_to_do() -> None:
    made = Cluster()
    made.node("n1", 2)
    by_hand(made, CARDS[0], {"3g.40gb": 2})
    made.pool("a", allocation=SMALL)
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    allocate(made, CARDS[0], "u")
    ask(made, {"mode": "Exclusive"})
    made.settle()
    assert told(made) == ("True", "WaitingForPods")  # nobody can turn it off under a pod

    end(made, CARDS[0])
    made.settle()
    assert (applied(made)[0], told(made)) == ("Exclusive", ("False", "AsExpected"))
    assert (published(made), divided(made)) == ([None, 1], [{"1g.10gb": 7}, None])
    assert configured(made, CARDS[0]) == "MIGEnabled"
    assert "nvidia-smi -i 0000:00:00.0 -mig 0" in told_of(made, CARDS[0]).message

    by_hand(made, CARDS[0], {}, enabled=False)
    made.settle()  # nobody has to resume it
    assert published(made) == [1, 1]


def untell(made: Cluster, *cards: str) -> dict[str, Any]:
    """No validator has told of the cards, and nobody knows how they are divided; returns what was told."""
    known = {}
    for card in cards:
        known[card] = made.objects["GPUDevice", card]["status"]["hardware"].pop("mig")
        made.touch(("GPUDevice", card))
    return known


def tell(made: Cluster, known: dict[str, Any]) -> None:
    """They tell it again."""
    for card, mig_told in known.items():
        made.objects["GPUDevice", card]["status"]["hardware"]["mig"] = mig_told
        made.touch(("GPUDevice", card))


@pytest.mark.parametrize("mode", [{"mode": "Exclusive"}, SHARED], ids=["Exclusive", "TimeSlice"])
def test_a_card_whose_mig_state_is_unknown_is_a_whole_one(mode: dict[str, Any]) -> None:
    made = Cluster()
    made.node("n1", 2)
    untell(made, *CARDS)
    made.pool("a", allocation=mode)
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    assert None not in published(made)


def test_a_card_whose_mig_state_is_unknown_comes_into_a_mig_pool_once_it_is_told() -> None:
    made = Cluster()
    made.node("n1", 2)
    known = untell(made, CARDS[0])
    made.pool("a", allocation=SMALL)
    found = kept_out(made)
    assert (found.status, found.reason) == ("False", "MIGStateUnknown")
    assert "the validator of node n1" in found.message
    assert (published(made), told(made)) == ([None, 7], ("False", "AsExpected"))

    tell(made, known)
    made.settle()
    assert published(made) == [7, 7]


def test_a_pool_whose_cards_tell_nothing_of_mig_is_halted_at_once_and_divides_nothing() -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    known = untell(made, *CARDS)
    ask(made, SMALL)
    made.settle()
    assert told(made) == ("True", "LayoutFailed")
    assert "MIGStateUnknown" in message(made)
    assert "the validator of node n1" in message(made)
    assert LAYOUT not in made.objects
    assert all("migApply" not in made.objects["GPUDevice", card]["status"] for card in CARDS)

    tell(made, known)
    end(made, CARDS[0])
    made.settle()  # nobody has to resume it
    assert (applied(made)[0], published(made), divided(made)) == ("MIG", [7, 7], [{"1g.10gb": 7}] * 2)


def test_a_pool_waits_for_a_node_that_is_being_prepared_to_tell_of_mig() -> None:
    made = pooled()
    known = untell(made, *CARDS)
    inventory = made.objects["GPUNodeInventory", "n1"]
    conditions.put(inventory, objects.condition("ReadyForPooling", False))
    made.touch(("GPUNodeInventory", "n1"))
    ask(made, SMALL)
    made.settle()
    assert told(made)[0] == "True"
    assert told(made)[1] != "LayoutFailed"

    conditions.put(inventory, objects.condition("ReadyForPooling", True))
    made.touch(("GPUNodeInventory", "n1"))
    tell(made, known)
    made.settle()
    assert (published(made), told(made)) == ([7, 7], ("False", "AsExpected"))


def test_a_node_that_is_never_prepared_keeps_no_pool_waiting() -> None:
    made = pooled()
    untell(made, CARDS[0])
    inventory = made.objects["GPUNodeInventory", "n1"]
    conditions.put(inventory, objects.condition("ReadyForPooling", False))
    made.touch(("GPUNodeInventory", "n1"))
    ask_and_wait_in_vain(made)
    assert told(made) == ("False", "AsExpected")


def test_a_divided_card_of_which_nobody_tells_for_a_moment_is_as_it_was() -> None:
    made = pooled(**SMALL)
    known = untell(made, CARDS[0])
    made.settle()
    assert parts(made) == [mig.CardLayout(True, {"1g.10gb": 7})] * 2
    assert (published(made), "the validator of node n1" in told_of(made, CARDS[0]).message) == ([None, 7], True)

    tell(made, known)
    made.settle()  # nobody has to resume it
    assert (published(made), told(made)) == ([7, 7], ("False", "AsExpected"))


def test_a_leaving_card_of_which_nobody_tells_says_what_is_missing() -> None:
    made = pooled(**SMALL)
    known = untell(made, CARDS[0])
    made.annotate(CARDS[0], None)
    made.settle()
    assert configured(made, CARDS[0]) == "AwaitingTurnBack"
    assert "the validator of node n1" in told_of(made, CARDS[0]).message

    tell(made, known)
    made.settle()
    assert (divided(made)[0], devices(made)[0].status.pool_ref) == (None, None)


def two_failing() -> Cluster:
    """Two pools of a node, of each of which a card could not be divided."""
    made = Cluster()
    made.node("n1", 2)
    made.breaks = dict.fromkeys(CARDS, "the card needs a reboot")
    for pool, card in zip("ab", CARDS, strict=True):
        made.pool(pool, allocation=SMALL)
        made.annotate(card, pool)
    made.settle()
    made.breaks = {}
    made.now += 1
    for pool in "ab":
        made.objects["GPUPool", pool]["metadata"].setdefault("annotations", {})[names.RESUME] = "true"
        made.touch(("GPUPool", pool))
    return made


def test_two_pools_of_a_node_that_are_resumed_at_once_are_both_obeyed() -> None:
    made = two_failing()
    first, second = (made.planned("GPUPool", pool).actions for pool in "ab")  # of one and the same layout
    made.execute(first, names.MANAGER_POOL)
    with pytest.raises(ConflictError):
        made.execute(second, names.MANAGER_POOL)
    assert names.RESUME in made.objects["GPUPool", "b"]["metadata"]["annotations"], "it has not been obeyed"

    made.settle()
    assert published(made) == [7, 7]
    assert all(names.RESUME not in made.objects["GPUPool", pool]["metadata"]["annotations"] for pool in "ab")


def test_a_node_that_planned_before_a_pool_was_resumed_does_not_undo_that() -> None:
    made = two_failing()
    data = made.objects[LAYOUT]["data"]
    data[names.MIG_CONFIG] = "another"  # something for the node to put back
    made.touch(LAYOUT)
    resumed, late = made.planned("GPUPool", "a").actions, made.planned("GPUNodeInventory", "n1").actions
    before = layout(made)
    made.execute(resumed, names.MANAGER_POOL)
    with pytest.raises(ConflictError):
        made.execute(late, names.MANAGER_POOL)
    assert layout(made) != before

    made.settle()
    assert published(made) == [7, 7]


def test_a_layout_that_the_cache_does_not_know_is_not_written_over() -> None:
    made = pooled()
    made.slow = set(CARDS)
    ask(made, SMALL)
    made.settle()
    before = layout(made)
    made.now += 1
    made.hidden = frozenset({LAYOUT[1]})
    late = made.planned("GPUNodeInventory", "n1").actions
    assert any(isinstance(action, Apply) for action in late)
    with pytest.raises(ConflictError):
        made.execute(late, names.MANAGER_POOL)
    assert layout(made) == before


def test_a_layout_that_lost_its_label_and_so_is_in_no_cache_gets_it_back() -> None:
    made = pooled(**SMALL)
    wanted = dict(made.objects[LAYOUT]["metadata"]["labels"])
    made.objects[LAYOUT]["metadata"]["labels"] = {}
    made.touch(LAYOUT)
    made.hidden = frozenset({LAYOUT[1]})
    began = made.now
    while made.objects[LAYOUT]["metadata"]["labels"] != wanted:
        assert made.now < began + 10, "it stays without its label"
        for about in (("GPUPool", "a"), ("GPUNodeInventory", "n1")):
            made.execute(made.planned(*about).actions, names.MANAGER_POOL)
        made.plugin()
        made.now += 1
    made.hidden = frozenset()
    made.settle()
    assert published(made) == [7, 7]


def test_a_layout_that_was_deleted_meanwhile_is_not_made_anew_from_an_old_one() -> None:
    made = two_failing()
    resumed = made.planned("GPUPool", "a").actions
    del made.objects[LAYOUT]
    with pytest.raises(ConflictError):
        made.execute(resumed, names.MANAGER_POOL)
    assert names.RESUME in made.objects["GPUPool", "a"]["metadata"]["annotations"]


def test_no_card_is_divided_while_another_mig_manager_is_on_the_node() -> None:
    made = Cluster()
    made.node("n1", 2)
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["managedElsewhere"] = {"mig": "gpu-operator/nvidia-mig-manager"}
    made.pool("a", allocation=SMALL)
    for device in devices(made):
        made.annotate(device.name, "a")
    made.settle()
    assert divided(made) == [None, None]
    assert {configured(made, device.name) for device in devices(made)} == {"ManagedElsewhere"}

    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["managedElsewhere"] = None
    made.settle()
    assert divided(made) == [{"1g.10gb": 7}, {"1g.10gb": 7}]
