"""Who takes a card, what an annotation that cannot be followed is told, and when one goes by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.conditions import find
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool, GPUPoolStatus
from controllers.api.settings import parse_settings
from controllers.domain.clock import seconds, stamp
from controllers.gpupool.membership import assignment, unassigned
from controllers.gpupool.node.plan import plan_node
from controllers.gpupool.pool import card_status
from controllers.runtime.plan import EmitEvent, Merge, Plan, Precondition
from tests.gpupool.world import AUTOMATIC, Cluster, whole
from tests.kit import conditions, objects
from tests.kit.cluster import ConflictError

CARD = "n1-0000-00-00-0"
DAY = 86_400.0


def cluster(cards: int = 1, **pools: dict[str, Any]) -> Cluster:
    made = Cluster()
    made.node("n1", cards)
    for name, spec in pools.items():
        made.pool(name, **spec)
    return made


def card(made: Cluster, name: str = CARD) -> GPUDevice:
    found: GPUDevice = next(d for d in made.all(resources.GPUDEVICE, GPUDevice) if d.name == name)
    return found


def pool_of(made: Cluster, name: str = CARD) -> str | None:
    found = card(made, name).status.pool_ref
    return found.name if found else None


def configured(made: Cluster) -> tuple[str, str] | None:
    found = [c for c in card(made).status.conditions if c.type == "Configured"]
    return (found[0].status, found[0].reason) if found else None


def condition(made: Cluster, kind: str) -> None:
    entry = {"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    made.objects["GPUDevice", CARD]["status"].setdefault("conditions", []).append(entry)
    made.touch(("GPUDevice", CARD))


def ignore(made: Cluster, mark: str = "labels", *, ignored: bool = True) -> None:
    marks = made.objects["GPUDevice", CARD]["metadata"].setdefault(mark, {})
    if ignored:
        marks[names.LABEL_IGNORE] = "true"
    else:
        del marks[names.LABEL_IGNORE]
    made.touch(("GPUDevice", CARD))


def status(made: Cluster, pool: str = "a") -> GPUPoolStatus:
    found: GPUPool = next(p for p in made.all(resources.GPUPOOL, GPUPool) if p.name == pool)
    return found.status


def planned(made: Cluster) -> Plan:
    return plan_node(made.view().node("n1"), made.now)


def told(plan: Plan, reason: str) -> list[str]:
    return [action.message for action in plan.actions if isinstance(action, EmitEvent) and action.reason == reason]


def pending(made: Cluster) -> list[tuple[str | None, str]]:
    (inventory,) = made.all(resources.GPUNODEINVENTORY, GPUNodeInventory)
    return [(entry.pool, entry.reason) for entry in inventory.status.pools.pending]


def candidates(made: Cluster, pool: str = "a") -> list[tuple[str, str]]:
    found = next(p for p in made.all(resources.GPUPOOL, GPUPool) if p.name == pool)
    return [(candidate.name, how.reason) for candidate in found.status.candidates for how in candidate.pools]


AUTOMATIC_FOR_OTHERS = {
    "deviceAssignment": {"requireAnnotation": True, "autoApproveSelector": {"matchLabels": {"no": "card"}}}
}
OUT = {"deviceSelector": {"include": {"vendors": ["amd"]}}}


@pytest.mark.parametrize(
    ("spoil", "spec", "reason", "waits"),
    [
        (lambda c: condition(c, "Faulted"), {}, "Faulted", []),
        (lambda c: condition(c, "Ignored"), {}, "Ignored", [("a", "Declined")]),
        (ignore, {}, "Ignored", [("a", "Declined")]),  # inventory has not said so yet
        (lambda c: condition(c, "ManagedDisabled"), {}, "ManagedDisabled", []),
        (lambda c: condition(c, "InventoryIncomplete"), {}, "InventoryIncomplete", []),
        (lambda c: c.unready("n1"), {}, "NodeNotReady", []),
        (lambda c: c.objects["GPUDevice", CARD]["status"].pop("hardware"), {}, "HardwareUnknown", []),
        (lambda _: None, OUT, "OutOfSelector", [("a", "OutOfSelector")]),
        (lambda _: None, {"nodeSelector": {"matchLabels": {"x": "y"}}}, "OutOfSelector", [("a", "OutOfSelector")]),
        (lambda c: c.pod_holds(CARD), {}, "StillInUse", []),
    ],
)
def test_an_annotation_that_cannot_be_followed_says_why_once(
    spoil: Any, spec: dict[str, Any], reason: str, waits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "pod_holds", pod_holds, raising=False)
    made = cluster(a=spec)
    spoil(made)
    made.annotate(CARD, "a")

    (message,) = told(planned(made), names.EVENT_ANNOTATION_MISMATCH)
    made.settle()

    assert f"{names.ASSIGNMENT}=a is not followed: " in message
    assert pool_of(made) is None
    assert configured(made) == ("False", reason)
    assert pending(made) == waits
    assert candidates(made) == [(CARD, reason)]
    made.now += DAY
    assert planned(made).actions == ()  # neither an event nor a write while nothing changes
    assert card(made).metadata.annotations[names.ASSIGNMENT] == "a"


def test_a_declined_card_says_so_once_however_late_its_condition_comes_and_goes() -> None:
    made = cluster(a={})
    made.annotate(CARD, "a")
    ignore(made)
    assert told(planned(made), names.EVENT_ANNOTATION_MISMATCH)
    made.settle()

    condition(made, "Ignored")
    assert planned(made).actions == ()
    ignore(made, ignored=False)
    assert planned(made).actions == ()


def test_a_card_that_its_pool_annotated_and_is_declined_before_it_came_in_only_loses_the_annotation() -> None:
    made = cluster(a=AUTOMATIC)
    made.execute(planned(made).actions, names.MANAGER_POOL, stop_after=1)
    assert card(made).metadata.annotations[names.ASSIGNMENT] == "a"
    ignore(made)

    seen = planned(made)

    assert told(seen, names.EVENT_ANNOTATION_MISMATCH) == []
    assert [type(write) for write in seen.writes if write.ref.resource == resources.GPUDEVICE] == [Merge]


def pod_holds(made: Cluster, name: str) -> None:
    made.pod("p", "b", "r", node="n1", phase="Running")
    made.objects["Pod", "default/p"]["metadata"]["annotations"][names.DEVICES] = card(made, name).status.inventory_id


def test_of_a_card_that_inventory_has_yet_to_fill_in_nothing_is_said() -> None:
    made = cluster(a={})
    made.objects["GPUDevice", CARD]["status"] = {"nodeName": "n1"}
    made.annotate(CARD, "a")

    found = planned(made)

    assert told(found, names.EVENT_ANNOTATION_MISMATCH) == []
    assert not [write for write in found.writes if write.ref.resource is resources.GPUDEVICE]


def test_what_kept_a_card_out_is_forgotten_when_it_comes_in() -> None:
    made = cluster(a={})
    made.unready("n1")
    made.annotate(CARD, "a")
    made.settle()
    assert configured(made) == ("False", "NodeNotReady")

    made.unready("n1", ready=True)
    made.settle()

    assert pool_of(made) == "a"
    assert configured(made) == ("True", "Published")
    assert candidates(made) == []


def test_a_card_beyond_what_a_pool_may_have_of_a_node_stays_out_and_says_so() -> None:
    made = cluster(2, a={"allocation": {"maxDevicesPerNode": 1}})
    other = "n1-0000-01-00-0"
    made.annotate(other, "a")
    made.settle()
    made.annotate(CARD, "a")
    made.settle()

    assert (pool_of(made), pool_of(made, other)) == (None, "a")
    assert configured(made) == ("False", "NodeFull")
    assert pending(made) == [("a", "OutOfSelector")]


def test_an_older_pool_that_is_full_leaves_the_card_to_the_next() -> None:
    first = AUTOMATIC | {"allocation": {"maxDevicesPerNode": 1}}
    made = cluster(2, a=first, b=AUTOMATIC)
    made.settle()

    assert [pool_of(made), pool_of(made, "n1-0000-01-00-0")] == ["a", "b"]


@pytest.mark.parametrize("hindrance", ["Ignored", "Faulted"])
def test_an_automatic_pool_confirms_no_card_that_cannot_come(hindrance: str) -> None:
    made = cluster(a=AUTOMATIC)
    condition(made, hindrance)
    made.settle()

    assert names.ASSIGNMENT not in card(made).metadata.annotations
    assert pending(made) == ([(None, "Declined")] if hindrance == "Ignored" else [])


def test_in_an_automatic_pool_a_removed_annotation_comes_back_and_ignore_withdraws() -> None:
    made = cluster(a=AUTOMATIC)
    made.settle()
    made.annotate(CARD, None)
    made.settle()
    assert pool_of(made) == "a"

    ignore(made)
    made.settle()
    assert pool_of(made) is None
    assert names.ASSIGNMENT not in card(made).metadata.annotations

    ignore(made, ignored=False)
    made.settle()
    assert pool_of(made) == "a"


def lose(made: Cluster, name: str) -> None:
    """A fresh report does not name the card any more."""
    with made.edit("GPUDevice", name) as found:
        lost = objects.condition("InventoryIncomplete", reason=names.REASON_CARD_LOST)
        conditions.put(found, replace(lost, last_transition_time=stamp(made.now)))


def test_a_lost_card_leaves_an_automatic_pool_after_a_while_and_one_that_a_person_confirmed_stays() -> None:
    made, other = cluster(2, a=AUTOMATIC, b={}), "n1-0000-01-00-0"
    made.annotate(other, "b")
    made.settle()
    assert (pool_of(made), pool_of(made, other)) == ("a", "b")
    for name in (CARD, other):
        lose(made, name)
    made.settle()
    made.now += 599.0
    assert planned(made).requeue_after == pytest.approx(1.0)
    made.settle()
    assert (pool_of(made), pool_of(made, other)) == ("a", "b")

    made.now += 1.0
    made.settle()
    assert (pool_of(made), pool_of(made, other)) == (None, "b")
    assert names.ASSIGNMENT not in card(made).metadata.annotations
    assert not any(found.writes for found in made.plans())


def test_a_lost_card_with_a_pod_leaves_after_the_pod_and_one_that_is_back_in_time_stays() -> None:
    made = cluster(2, a=AUTOMATIC)
    made.settle()
    other = "n1-0000-01-00-0"
    made.pod("p", "a", "r", node="n1", phase="Running")
    made.allocate(CARD)
    for name in (CARD, other):
        lose(made, name)
    made.settle()
    made.now += 300.0
    with made.edit("GPUDevice", other) as found:
        conditions.put(found, objects.condition("InventoryIncomplete", False))
    made.now += 301.0
    made.settle()
    assert (pool_of(made), pool_of(made, other)) == ("a", "a")

    made.drop(resources.POD, "default/p")
    with made.edit("GPUDevice", CARD) as found:
        found["status"]["allocations"] = []
    made.settle()
    assert (pool_of(made), pool_of(made, other)) == (None, "a")


@pytest.mark.parametrize("automatic", [True, False])
def test_lost_cards_keep_no_other_from_its_place(*, automatic: bool) -> None:
    made = cluster(2, a={**(AUTOMATIC if automatic else {}), "deviceSelector": {"include": {"indexes": ["0-1"]}}})
    for number in (0, 1):
        made.annotate(f"n1-0000-{number:02x}-00-0", "a")
    made.settle()
    for number in (0, 1):
        lose(made, f"n1-0000-{number:02x}-00-0")
        made.card("n1", number + 8)  # the same cards, at other addresses
    new = [f"n1-0000-{number:02x}-00-0" for number in (8, 9)]
    if not automatic:
        for name in new:
            made.annotate(name, "a")
    made.settle()
    assert [pool_of(made, name) for name in new] == ["a", "a"]


def test_cards_of_an_automatic_pool_that_is_deleted_go_to_the_next_at_once() -> None:
    made = cluster(2, a=AUTOMATIC, b=AUTOMATIC)
    made.settle()
    made.pod("p", "a", "r", node="n1", phase="Running")
    before = made.now
    made.delete_pool("a")
    made.settle()
    assert (pool_of(made), pool_of(made, "n1-0000-01-00-0")) == ("a", "a")  # kubelet has not told of the pod's card

    made.allocate(CARD)
    made.settle()
    assert (pool_of(made), pool_of(made, "n1-0000-01-00-0")) == ("a", "b")  # it waits for no other card of its pool

    made.drop(resources.POD, "default/p")
    with made.edit("GPUDevice", CARD) as found:
        found["status"]["allocations"] = []
    made.settle()
    assert (made.now, pool_of(made)) == (before, "b")
    assert made.pools() == {"b"}


def test_a_card_that_a_deleted_automatic_pool_had_waits_for_a_decision_and_not_for_that_pool() -> None:
    made = cluster(a=AUTOMATIC, b={})
    made.settle()
    made.delete_pool("a")
    made.settle()
    assert names.ASSIGNMENT not in card(made).metadata.annotations
    assert pending(made) == [("b", "AwaitingApproval")]
    assert configured(made) is None


@pytest.mark.parametrize("pools", [{"a": {}, "b": AUTOMATIC}, {"a": AUTOMATIC_FOR_OTHERS, "b": AUTOMATIC}])
def test_what_a_person_confirmed_stays_when_its_pool_is_deleted(pools: dict[str, Any]) -> None:
    made = cluster(**pools)
    made.annotate(CARD, "a")
    made.settle()
    assert pool_of(made) == "a"
    made.delete_pool("a")
    made.settle()
    assert (pool_of(made), configured(made)) == (None, ("Unknown", "PoolUnknown"))
    assert card(made).metadata.annotations[names.ASSIGNMENT] == "a"


@pytest.mark.parametrize("stop", range(8))
def test_no_annotation_outlives_the_automatic_pool_that_wrote_it_wherever_the_process_died(stop: int) -> None:
    made = cluster(2, a=AUTOMATIC)
    made.settle()
    made.delete_pool("a")
    made.plugin()
    for _ in range(4):
        made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL, stop_after=stop)
        made.plugin()
        made._collect()
        if not made.pools():
            break
    else:
        made.settle()
    annotated = [d for d in made.all(resources.GPUDEVICE, GPUDevice) if names.ASSIGNMENT in d.metadata.annotations]
    assert (made.pools(), annotated) == (set(), [])


@pytest.mark.parametrize("mark", ["labels", "annotations"])
def test_a_card_is_declined_from_the_moment_that_it_is_marked(mark: str) -> None:
    """The condition follows the mark a moment later; no pool may take the card again in between."""
    made = cluster(a=AUTOMATIC)
    made.settle()
    ignore(made, mark)
    made.settle()
    assert pool_of(made) is None
    assert names.ASSIGNMENT not in card(made).metadata.annotations
    made.now += DAY
    assert not any(found.writes for found in made.plans())


def test_a_card_that_is_declined_leaves_after_its_pods_and_is_none_of_its_pool_then() -> None:
    made = cluster(2, a=AUTOMATIC | {"allocation": {"maxDevicesPerNode": 1}})
    made.settle()
    made.pod("p", "a", "r", node="n1", phase="Running")
    ignore(made)
    made.settle()
    assert pool_of(made) == "a"

    made.drop(resources.POD, "default/p")
    made.settle()
    assert (pool_of(made), pool_of(made, "n1-0000-01-00-0")) == (None, "a")  # its place is free
    assert (capacity := status(made).capacity) is not None
    assert capacity.total == 1


@pytest.mark.parametrize("pools", [{"a": {}}, {"a": {}, "b": AUTOMATIC}])
def test_what_a_person_confirmed_is_that_persons_and_stays_when_the_card_is_declined(pools: dict[str, Any]) -> None:
    made = cluster(**pools)
    made.annotate(CARD, "a")
    made.settle()
    ignore(made)
    made.settle()
    assert card(made).metadata.annotations[names.ASSIGNMENT] == "a"
    assert pool_of(made) == "a"


def test_a_withdrawal_is_written_on_the_version_that_was_read() -> None:
    made = cluster(a=AUTOMATIC, b={})
    made.settle()
    ignore(made)
    found = planned(made)
    made.annotate(CARD, "b")  # a person is faster

    with pytest.raises(ConflictError):
        made.execute(found.actions, names.MANAGER_POOL)
    assert card(made).metadata.annotations[names.ASSIGNMENT] == "b"


@pytest.mark.parametrize(
    ("pools", "settings", "expected"),
    [
        ({"a": {}}, {}, None),
        ({"a": AUTOMATIC}, {}, True),
        ({"a": {}, "b": AUTOMATIC}, {}, True),
        ({"a": AUTOMATIC | OUT}, {}, None),
        ({"a": {}}, {"deviceApproval": {"mode": "Automatic"}}, True),
    ],
)
def test_a_free_card_says_whether_a_pool_takes_it_by_itself(
    pools: dict[str, Any], settings: dict[str, Any], expected: bool | None
) -> None:
    made = cluster(**pools)
    made.settings = parse_settings(settings)
    made.unready("n1")  # so that it stays free
    made.settle()

    assert card(made).status.auto_attach is expected


def test_autoattach_and_configured_do_not_take_each_other_away() -> None:
    made = cluster(a=AUTOMATIC)
    made.settle()
    assert (card(made).status.auto_attach, configured(made)) == (True, ("True", "Published"))

    made.objects["GPUPool", "a"]["spec"] = {}
    made.touch(("GPUPool", "a"))
    made.settle()
    assert (card(made).status.auto_attach, configured(made)) == (False, ("True", "Published"))

    made.annotate(CARD, None)
    made.settle()
    assert (pool_of(made), configured(made)) == (None, None)


def dangling(after: float = 600.0) -> Cluster:
    made = cluster()
    made.settings = parse_settings({"pools": {"danglingAfter": f"{after:g}s"}})
    made.annotate(CARD, "absent")
    made.settle()
    return made


def test_an_annotation_that_names_no_pool_goes_after_ten_minutes() -> None:
    made = dangling()
    assert configured(made) == ("Unknown", "PoolUnknown")
    made.now += 599.0
    plan = planned(made)
    assert plan.actions == ()
    assert plan.requeue_after == pytest.approx(1.0)

    made.now += 1.0
    plan = planned(made)
    made.settle()

    assert "absent" in told(plan, names.EVENT_ANNOTATION_REMOVED)[0]
    assert names.ASSIGNMENT not in card(made).metadata.annotations
    assert configured(made) is None


def test_the_time_counts_from_when_this_pool_is_missing() -> None:
    """Neither from an older trouble of the card, nor from another pool's absence."""
    made = cluster(a={})
    made.unready("n1")
    made.annotate(CARD, "a")
    made.settle()
    made.now += 3600.0
    made.delete_pool("a")
    made.settle()
    assert planned(made).requeue_after == pytest.approx(600.0)

    made.now += 500.0
    made.annotate(CARD, "another")
    made.settle()
    assert planned(made).requeue_after == pytest.approx(600.0)


def test_a_release_that_words_it_otherwise_does_not_begin_the_wait_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = dangling()
    made.now += 599.0
    monkeypatch.setattr(unassigned, "not_followed_message", lambda *_: "There is no such pool, said otherwise.")
    made.settle()
    assert configured(made) == ("Unknown", "PoolUnknown")
    assert planned(made).requeue_after == pytest.approx(1.0)

    made.now += 1.0
    made.settle()
    assert names.ASSIGNMENT not in card(made).metadata.annotations


def test_a_card_of_the_version_before_which_had_no_field_for_it_waits_as_from_now_once() -> None:
    made = dangling()
    with made.edit("GPUDevice", CARD) as found:
        del found["status"]["missingPool"]
    made.now += 3600.0
    made.settle()
    assert names.ASSIGNMENT in card(made).metadata.annotations
    assert planned(made).requeue_after == pytest.approx(600.0)


@pytest.mark.parametrize("named", ["absent", "x" * 5000])
def test_what_is_missing_is_told_by_name_until_it_is_there_or_the_annotation_goes(named: str) -> None:
    made = dangling()
    made.annotate(CARD, named)
    made.settle()
    missing = card(made).status.missing_pool
    assert missing is not None
    assert (missing.name == named, len(missing.name) <= 64) == (named == "absent", True)
    assert planned(made).actions == ()

    made.pool("absent")
    if named != "absent":
        made.annotate(CARD, None)
    made.settle()
    assert card(made).status.missing_pool is None
    assert pool_of(made) == ("absent" if named == "absent" else None)


def test_a_time_that_was_noted_while_the_clock_was_ahead_puts_nothing_off() -> None:
    made = dangling()
    made.now -= 900.0  # the clock is set right
    made.settle()

    assert planned(made).requeue_after == pytest.approx(600.0)
    assert planned(made).actions == ()


def test_it_stays_where_the_quorum_knows_the_pool() -> None:
    made = dangling()
    made.now += 601.0
    plan = planned(made)
    made.pool("absent")

    with pytest.raises(ConflictError):
        made.execute(plan.actions, names.MANAGER_POOL)
    assert card(made).metadata.annotations[names.ASSIGNMENT] == "absent"


def test_it_stays_where_somebody_has_annotated_the_card_anew() -> None:
    made = dangling()
    made.now += 601.0
    plan = planned(made)
    made.annotate(CARD, "other")

    with pytest.raises(ConflictError):
        made.execute(plan.actions, names.MANAGER_POOL)
    assert card(made).metadata.annotations[names.ASSIGNMENT] == "other"


def test_a_pool_that_comes_back_in_time_gets_its_cards_back_under_its_own_operands() -> None:
    made = cluster(a={})
    made.annotate(CARD, "a")
    made.settle()
    old = made.objects["GPUPool", "a"]["metadata"]["uid"]
    made.delete_pool("a")
    made.settle()
    assert configured(made) == ("Unknown", "PoolUnknown")

    made.now += 50.0
    made.pool("a")
    made.settle()

    assert pool_of(made) == "a"
    uid = made.objects["GPUPool", "a"]["metadata"]["uid"]
    assert uid != old
    owners = {
        owner["uid"]
        for (kind, _), obj in made.objects.items()
        if kind in ("ConfigMap", "DaemonSet")
        for owner in obj["metadata"]["ownerReferences"]
    }
    assert owners == {uid}
    made.now += DAY
    made.settle()
    assert pool_of(made) == "a"


def test_a_ready_node_without_a_pool_is_told_once_and_again_after_it_had_one() -> None:
    made = cluster(a=OUT)

    def events() -> list[str]:
        return told(planned(made), names.EVENT_NODE_WITHOUT_POOL)

    assert len(events()) == 1
    made.settle()
    assert events() == []

    made.card("n1", 1)
    assert planned(made).writes  # another card waits for the same reason
    assert events() == []
    made.pool("b")
    made.settle()
    assert events() == []
    made.delete_pool("b")
    assert len(events()) == 1


def test_cards_of_several_kinds_on_one_node_go_to_the_pools_that_mean_them() -> None:
    def larger(memory: int) -> dict[str, Any]:
        return AUTOMATIC | {"deviceSelector": {"include": {"minMemoryMiB": memory}}}

    made = cluster(3, a=larger(100_000), b=larger(50_000))
    for number, memory in enumerate((40_000, 80_000, 140_000)):
        made.objects["GPUDevice", f"n1-0000-{number:02x}-00-0"]["status"]["hardware"]["memoryMiB"] = memory
    made.settle()

    assert [pool_of(made, f"n1-0000-{number:02x}-00-0") for number in range(3)] == [None, "b", "a"]


def test_a_changed_selector_counts_at_once_and_evicts_nobody() -> None:
    made = cluster(2, a={"deviceSelector": {"include": {"indexes": ["0"]}}})
    made.annotate(CARD, "a")
    world = made.view()
    assert [pool.name for pool in world.node("n1").matching_pools[CARD]] == ["a"]
    made.settle()

    changed = made.objects["GPUPool", "a"]
    changed["spec"] = {"deviceSelector": {"include": {"indexes": ["1"]}}}
    made.touch(("GPUPool", "a"))
    world.pools.replace(made.all(resources.GPUPOOL, GPUPool), world.pools.observed + 1)
    assert world.node("n1").matching_pools[CARD] == ()  # nothing remembered of the selector before
    made.settle()

    assert pool_of(made) == "a"
    assert candidates(made) == [("n1-0000-01-00-0", "AwaitingApproval")]


def test_what_is_only_said_waits_and_what_is_done_does_not() -> None:
    made = cluster(2, a=AUTOMATIC, b=OUT)
    made.objects["GPUDevice", CARD]["metadata"]["annotations"][names.ASSIGNMENT] = "b"
    made.touch(("GPUDevice", CARD))

    plan = plan_node(made.view().node("n1"), made.now, status_in=0.3)

    (write,) = plan.writes
    assert isinstance(write, Merge)
    assert write.body == {"metadata": {"annotations": {names.ASSIGNMENT: "a"}}}
    assert plan.requeue_after == pytest.approx(0.3)


def test_a_pool_that_runs_low_is_told_once() -> None:
    made = cluster(a=AUTOMATIC)
    made.settle()
    made.pod("p", "a", "r", node="n1", phase="Running")

    def events() -> list[str]:
        return told(made.planned("GPUPool", "a"), names.EVENT_CAPACITY_LOW)

    assert len(events()) == 1
    made.settle()
    assert events() == []


def low(made: Cluster) -> tuple[str, str]:
    found = find(status(made).conditions, "CapacityLow")
    assert found is not None
    return found.status, found.reason


def events_of(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is told of capacity from now on."""
    said: list[str] = []
    carry_out = made.execute

    def execute(actions: Any, manager: str, stop_after: int | None = None) -> None:
        carry_out(actions, manager, stop_after)
        said.extend(a.message for a in actions if isinstance(a, EmitEvent) and a.reason == names.EVENT_CAPACITY_LOW)

    monkeypatch.setattr(made, "execute", execute)
    return said


SHARED = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}


@pytest.mark.parametrize("mode", [{}, {"mode": "MIG", "migProfile": "1g.10gb"}])
def test_neither_a_new_pool_nor_maintenance_runs_low(mode: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(2)
    said = events_of(made, monkeypatch)
    made.pool("a", **AUTOMATIC, allocation=mode)
    made.settle()
    assert low(made) == ("False", "Enough")

    made.pod("p", "a", "r", node="n1", phase="Running")
    made.objects["GPUPool", "a"]["spec"]["allocation"] = SHARED
    made.touch(("GPUPool", "a"))
    made.settle()
    assert low(made) == ("False", "CardsNotOffered")
    made.drop(resources.POD, "default/p")
    made.settle()

    assert (low(made), said) == (("False", "Enough"), [])


def test_a_pool_that_was_low_before_maintenance_is_not_told_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(a=AUTOMATIC)
    said = events_of(made, monkeypatch)
    made.settle()
    made.pod("p", "a", "r", node="n1", phase="Running")
    made.settle()
    assert (low(made), len(said)) == (("True", "BelowTenPercent"), 1)

    for allocation in (SHARED, {}):  # changed, and put back
        made.objects["GPUPool", "a"]["spec"]["allocation"] = allocation
        made.touch(("GPUPool", "a"))
        made.settle()
    assert (low(made), len(said)) == (("True", "BelowTenPercent"), 1)


def test_what_runs_low_during_maintenance_is_told_when_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(a=AUTOMATIC)
    said = events_of(made, monkeypatch)
    made.settle()
    made.objects["GPUPool", "a"]["spec"]["allocation"] = SHARED
    made.touch(("GPUPool", "a"))
    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    made.pod("p", "a", "r", node="n1", phase="Running")
    made.settle()
    assert said == []

    made.objects["GPUPool", "a"]["spec"]["allocation"] = {}
    made.touch(("GPUPool", "a"))
    made.settle()
    assert (low(made), len(said)) == (("True", "BelowTenPercent"), 1)


def test_a_plugin_that_never_offers_what_came_in_leaves_its_pool_low(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(a=AUTOMATIC)
    said = events_of(made, monkeypatch)
    monkeypatch.setattr(made, "plugin", lambda: None)
    made.settle()
    assert (low(made), said) == (("False", "CardsNotOffered"), [])
    assert made.planned("GPUPool", "a").requeue_after is not None

    made.now += 31.0
    made.settle()
    assert (low(made), len(said)) == (("True", "BelowTenPercent"), 1)


def test_a_pool_that_is_being_deleted_is_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(a=AUTOMATIC)
    said = events_of(made, monkeypatch)
    made.settle()
    made.pod("p", "a", "r", node="n1", phase="Running")
    made.delete_pool("a")
    made.settle()
    assert said == []


def test_a_pool_says_nothing_of_candidates_before_every_node_has_been_looked_at() -> None:
    made = cluster(a={})
    made.settle()
    assert candidates(made) == [(CARD, "AwaitingApproval")]

    view = made.view()
    view.candidates.complete = False
    seen = view.pool("a")

    assert seen is not None
    assert seen.candidates is None
    assert whole(seen, made.now).writes == ()


def test_long_lists_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "LIST_MAX", 3)
    made = Cluster()
    for number in range(4):
        made.node(f"n{number}", 2)
    made.pool("a")
    made.settle()
    (pool,) = made.all(resources.GPUPOOL, GPUPool)
    assert [c.name for c in pool.status.candidates] == ["n0-0000-00-00-0", "n0-0000-01-00-0", "n1-0000-00-00-0"]
    assert pool.status.truncated

    for device in made.all(resources.GPUDEVICE, GPUDevice):
        made.annotate(device.name, "a")
    made.settle()
    (pool,) = made.all(resources.GPUPOOL, GPUPool)
    assert (len(pool.status.nodes), len(pool.status.devices), len(pool.status.candidates)) == (3, 3, 0)
    assert pool.status.truncated
    assert pool.status.capacity.total == 8


def test_many_cards_come_in_part_by_part_and_lists_follow_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "ASSIGNMENTS_MAX", 2)
    monkeypatch.setattr(card_status, "WRITES_MAX", 2)
    made = cluster(5, a={})
    made.settle()
    for device in made.all(resources.GPUDEVICE, GPUDevice):
        made.annotate(device.name, "a")

    listed = []
    for _ in range(4):
        made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
        text = made.objects["ConfigMap", f"{names.NAMESPACE}/{names.plugin_object('a')}"]["data"][names.ALLOWED_DEVICES]
        listed.append(len(text.split()))
    assert listed == [0, 2, 4, 5]

    made.settle()
    assert all(find(d.status.conditions, "Configured") for d in made.all(resources.GPUDEVICE, GPUDevice))


@pytest.mark.parametrize(
    ("card_made", "node_made", "age", "checked"),
    [
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", 10.0, True),  # made anew, or plugged in
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", 601.0, False),  # every cache knows what was before
        ("2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z", 10.0, False),  # there was nothing before
        ("", "2026-01-01T00:00:00Z", 601.0, True),
    ],
)
def test_the_quorum_is_asked_for_pods_where_the_card_may_have_been_another_objects(
    card_made: str, node_made: str, age: float, checked: bool
) -> None:
    made = cluster(a={})
    made.settle()
    made.objects["GPUDevice", CARD]["metadata"]["creationTimestamp"] = card_made
    made.objects["GPUNodeInventory", "n1"]["metadata"]["creationTimestamp"] = node_made
    made.touch(("GPUNodeInventory", "n1"))
    made.annotate(CARD, "a")
    made.now = seconds("2026-01-02T00:00:00Z" if card_made else node_made) + age

    actions = made.planned("GPUPool", "a").actions

    assert any(isinstance(action, Merge) for action in actions)
    assert any(isinstance(action, Precondition) for action in actions) is checked
