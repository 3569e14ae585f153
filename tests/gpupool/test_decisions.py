"""Single decisions: what waits and why, who takes a card by itself, what a pool's objects say."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap
from controllers.api.settings import parse_settings
from controllers.gpupool.operands import device_plugin
from controllers.gpupool.pool.plan import plan_orphans
from controllers.gpupool.queue import reservations
from controllers.runtime.plan import Apply, EmitEvent, Merge, Precondition, ref
from tests.gpupool.world import AUTOMATIC, Cluster, whole
from tests.kit.cluster import ConflictError
from tests.kit.manifests import body
from tests.kit.objects import reservation

CARD = "n1-0000-00-00-0"


def cluster(cards: int = 1, **pools: dict[str, Any]) -> Cluster:
    made = Cluster()
    made.node("n1", cards)
    for name, spec in pools.items():
        made.pool(name, **spec)
    return made


def test_what_a_node_keeps_off_is_not_available_and_a_neighbours_taint_keeps_nobody_off() -> None:
    made = cluster(2, a={"scheduling": {"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]}}, b={})
    for number, pool in enumerate("ab"):
        made.annotate(f"n1-0000-{number:02x}-00-0", pool)
    made.settle()
    assert [taint["key"] for taint in made.objects["Node", "n1"]["spec"]["taints"]] == ["gpu"]
    assert available(made) == {"a": (1, 0), "b": (1, 0)}

    with made.edit("Node", "n1") as node:
        node["spec"]["taints"].append({"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"})
    made.settle()
    assert available(made) == {"a": (0, 1), "b": (0, 1)}
    told = made.all(resources.GPUPOOL, GPUPool)[0].status.nodes[0]
    assert told.health == "Degraded"
    assert "has taint node.kubernetes.io/disk-pressure=:NoSchedule, which pods of the pool do not" in told.last_event

    with made.edit("Node", "n1") as node:
        node["spec"]["taints"].pop()
    made.settle()
    assert available(made) == {"a": (1, 0), "b": (1, 0)}


def available(made: Cluster) -> dict[str, tuple[int, int]]:
    """Slots of each pool that are available, and that are not."""
    told = {pool.name: pool.status.capacity for pool in made.all(resources.GPUPOOL, GPUPool)}
    return {name: (count.available, count.unavailable) for name, count in told.items() if count is not None}


def pending(made: Cluster) -> list[tuple[str | None, str, str | None]]:
    (inventory,) = made.all(resources.GPUNODEINVENTORY, GPUNodeInventory)
    pools = inventory.status.pools
    return [(entry.pool, entry.reason, entry.annotation_hint) for entry in (pools.pending if pools else ())]


def unassigned(made: Cluster) -> tuple[str, str]:
    (inventory,) = made.all(resources.GPUNODEINVENTORY, GPUNodeInventory)
    found = next(c for c in inventory.status.conditions if c.type == "UnassignedDevice")
    return found.status, found.reason


def pools_of(made: Cluster) -> list[str | None]:
    return [d.status.pool_ref.name if d.status.pool_ref else None for d in made.all(resources.GPUDEVICE, GPUDevice)]


def status(made: Cluster, name: str = "a") -> Any:
    return next(pool.status for pool in made.all(resources.GPUPOOL, GPUPool) if pool.name == name)


def test_a_card_that_two_pools_would_take_waits_with_both_hints() -> None:
    made = cluster(a={}, b={})
    made.settle()

    hints = [(p, "AwaitingApproval", f"{names.ASSIGNMENT}={p}") for p in ("a", "b")]
    assert pending(made) == hints


@pytest.mark.parametrize(
    ("claim", "ignored", "expected"),
    [
        (None, True, [(None, "Declined", None)]),
        ("a", False, [("a", "OutOfSelector", None)]),
        ("absent", False, [("absent", "NoPoolMatched", None)]),
        (None, False, [(None, "NoPoolMatched", None)]),
    ],
)
def test_why_a_card_waits(claim: str | None, ignored: bool, expected: list[Any]) -> None:
    made = cluster(a={"deviceSelector": {"include": {"vendors": ["amd"]}}})
    made.annotate(CARD, claim)
    if ignored:
        entry = {"type": "Ignored", "status": "True", "reason": "Label", "lastTransitionTime": "t"}
        made.objects["GPUDevice", CARD]["status"]["conditions"] = [entry]
    made.settle()

    assert pending(made) == expected


def test_cards_of_a_node_that_is_not_ready_do_not_wait_for_anybody() -> None:
    made = cluster(a={})
    made.unready("n1")
    made.settle()

    assert pending(made) == []
    assert status(made).candidates == ()


def test_a_pool_takes_no_more_cards_of_a_node_than_it_may_and_asks_for_no_more() -> None:
    made = cluster(3, a={**AUTOMATIC, "allocation": {"maxDevicesPerNode": 1}})
    made.settle()

    assert sorted(pools_of(made), key=str) == [None, None, "a"]
    assert pending(made) == [("a", "OutOfSelector", None)] * 2  # they idle, and nobody is asked to confirm them
    assert unassigned(made) == ("True", "OutOfSelector")
    assert status(made).candidates == ()


def test_cards_for_which_one_pool_has_room_wait_for_that_one_only() -> None:
    made = cluster(2, a={**AUTOMATIC, "allocation": {"maxDevicesPerNode": 1}}, b={})
    made.settle()

    assert pending(made) == [("b", "AwaitingApproval", f"{names.ASSIGNMENT}=b")]
    assert unassigned(made) == ("True", "AwaitingApproval")


def test_a_node_whose_cards_are_in_pools_or_declined_has_nothing_to_decide() -> None:
    made = cluster(2, a={**AUTOMATIC, "allocation": {"maxDevicesPerNode": 1}})
    made.settle()
    (free,) = [d for d in made.all(resources.GPUDEVICE, GPUDevice) if d.status.pool_ref is None]
    entry = {"type": "Ignored", "status": "True", "reason": "Label", "lastTransitionTime": "t"}
    stored = made.objects["GPUDevice", free.name]["status"]
    stored["conditions"] = [*stored.get("conditions", ()), entry]
    made.touch(("GPUDevice", free.name))
    made.settle()

    assert pending(made) == [(None, "Declined", None)]
    assert unassigned(made) == ("False", "AllDecided")


def test_the_oldest_automatic_pool_takes_the_card() -> None:
    made = cluster(a=AUTOMATIC, b=AUTOMATIC)
    made.objects["GPUPool", "b"]["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    made.settle()

    assert pools_of(made) == ["b"]


@pytest.mark.parametrize(
    ("settings", "assignment", "taken"),
    [
        ({}, None, False),
        ({"deviceApproval": {"mode": "Automatic"}}, None, True),
        ({"deviceApproval": {"mode": "Automatic"}}, {"requireAnnotation": True}, False),
        ({"deviceApproval": {"mode": "Selector", "selector": {"matchLabels": {"x": "y"}}}}, None, True),
        ({"deviceApproval": {"mode": "Selector", "selector": {"matchLabels": {"x": "z"}}}}, None, False),
        ({}, {"autoApproveSelector": {"matchLabels": {"x": "y"}}}, True),
        ({}, {"requireAnnotation": True, "autoApproveSelector": {"matchLabels": {"x": "y"}}}, True),
        ({}, {"requireAnnotation": False}, True),
    ],
)
def test_approval(settings: dict[str, Any], assignment: dict[str, Any] | None, taken: bool) -> None:
    made = cluster(a={"deviceAssignment": assignment} if assignment else {})
    made.settings = parse_settings(settings)
    made.objects["GPUDevice", CARD]["metadata"]["labels"] = {"x": "y"}
    made.settle()

    assert pools_of(made) == ["a" if taken else None]


def test_a_card_whose_object_was_deleted_by_hand_stays_with_its_pod() -> None:
    """Inventory makes the object anew, empty; the pod still runs on the card."""
    made = cluster(a={}, b={})
    made.pod("p", "a", "r1", node="n1", phase="Running")
    made.objects["Pod", "default/p"]["metadata"]["annotations"][names.DEVICES] = "n1-0000:00:00.0"
    made.annotate(CARD, "b")
    made.settle()
    assert pools_of(made) == [None]

    made.drop(resources.POD, "default/p")
    made.settle()
    assert pools_of(made) == ["b"]


def test_a_card_is_not_taken_while_the_quorum_knows_a_bound_pod_that_the_cache_does_not() -> None:
    made = cluster(a={})
    made.annotate(CARD, "a")
    made.pod("p", "a", "r1", node="n1")
    made.hidden = frozenset({"default/p"})

    with pytest.raises(ConflictError):
        made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    assert pools_of(made) == [None]


def test_a_card_whose_pool_vanished_without_its_finalizer_is_let_go() -> None:
    made = cluster(a={})
    made.annotate(CARD, "a")
    made.settle()
    made.drop(resources.GPUPOOL, "a")
    made.drop(resources.CONFIGMAP, f"{names.NAMESPACE}/gpu-device-plugin-a")
    del made.objects["GPUDevice", CARD]["status"]["published"]

    found = plan_orphans(made.view().without_pool("a"), made.now)

    assert isinstance(found.actions[0], Precondition)  # that the pool is really gone
    made.execute(found.actions, names.MANAGER_POOL)
    assert pools_of(made) == [None]


@pytest.mark.parametrize("stop", range(5))
def test_a_deleted_pool_leaves_nothing_wherever_the_process_died(stop: int) -> None:
    made = cluster(a={})
    made.annotate(CARD, "a")
    made.settle()
    made.annotate(CARD, None)
    made.settle()
    made.delete_pool("a")

    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL, stop_after=stop)
    made._collect()
    made.settle()

    assert not [key for key in made.objects if key[0] in ("ConfigMap", "DaemonSet", "GPUPool")]


def test_operands_of_a_pool_of_the_same_name_that_is_gone_are_made_ours() -> None:
    made = cluster(a={})
    made.settle()
    made.objects["GPUPool", "a"]["metadata"]["uid"] = "another"
    made.touch(("GPUPool", "a"))

    renewed = {a.ref.resource.kind for a in made.planned("GPUPool", "a").actions if isinstance(a, Apply)}

    assert {"ConfigMap", "DaemonSet"} <= renewed


def test_a_pool_that_outgrows_one_configmap_never_withdraws_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_plugin, "SHARD_CARDS", 2)
    made = Cluster()
    for node in ("n1", "n2", "n3"):
        made.node(node, 2)
    made.pool("a", **AUTOMATIC, allocation={"maxDevicesPerNode": 1})
    made.settle()
    made.objects["GPUPool", "a"]["spec"]["allocation"] = {}
    made.touch(("GPUPool", "a"))

    def listed() -> set[str]:
        configs = made.all(resources.CONFIGMAP, ConfigMap)
        return {line for c in configs for line in c.data[names.ALLOWED_DEVICES].splitlines()}

    before = listed()
    for _ in range(40):
        for key in made.all_keys():
            made.execute(made.planned(*key).actions, names.MANAGER_POOL, stop_after=1)
            assert before <= listed()
            before = listed()
        made.plugin()
    made.settle()

    assert len(listed()) == 6
    assert {c.name for c in made.all(resources.CONFIGMAP, ConfigMap)} == {
        "gpu-device-plugin-a",
        *(f"gpu-device-plugin-a.{k}" for k in range(3)),
    }


def test_the_pool_says_what_each_card_is_and_when_few_are_left() -> None:
    made = cluster(2, a=AUTOMATIC)
    made.settle()
    made.fault(CARD)
    made.pod("p", "a", "r", node="n1", phase="Running")
    made.settle()

    said = status(made)
    assert [device.state for device in said.devices] == ["Faulted", "Assigned"]
    assert (said.capacity.total, said.capacity.available) == (2, 0)
    low = next(c for c in said.conditions if c.type == "CapacityLow")
    assert (low.status, low.reason) == ("True", "BelowTenPercent")
    assert said.nodes[0].health == "Degraded"


def test_the_status_is_written_at_most_once_in_a_while() -> None:
    made = cluster(a={})
    made.settle()  # what is applied is told at once
    made.now += 1.0
    made.annotate(CARD, "a")
    for _ in range(2):
        made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    made.plugin()
    view = made.view().pool("a")
    assert view is not None

    def writes_status(wait: float) -> bool:
        found = [a for a in whole(view, made.now, status_in=wait).actions if isinstance(a, Apply)]
        return any(a.ref.resource is resources.GPUPOOL and a.subresource for a in found)

    assert writes_status(0.0)
    assert not writes_status(0.4)
    assert whole(view, made.now, status_in=0.4).requeue_after == pytest.approx(0.4)


def test_a_vanished_pod_ends_its_reservation_only_if_the_quorum_agrees() -> None:
    made = cluster(a={})
    made.annotate(CARD, "a")
    made.settle()
    made.reserve(CARD, seconds=60, seen=True)
    made.pod("p", "a", "r")
    made.hidden = frozenset({"default/p"})
    card = made.view().card(CARD)
    assert card is not None

    with pytest.raises(ConflictError):
        made.execute(reservations.plan_card(card, made.now).actions, names.MANAGER_POOL)
    made.drop(resources.POD, "default/p")
    found = reservations.plan_card(card, made.now)
    made.execute(found.actions, names.MANAGER_POOL)

    (device,) = made.all(resources.GPUDEVICE, GPUDevice)
    assert device.status.reservations == ()
    assert not any(isinstance(action, EmitEvent) for action in found.actions)  # it did not expire


def test_a_card_goes_by_the_table_of_its_life() -> None:
    """Every plan that these tests carry out is held against it; this one breaks it."""
    made = cluster(a={})
    made.annotate(CARD, "a")
    made.settle()
    made.fault(CARD)
    (device,) = made.all(resources.GPUDEVICE, GPUDevice)
    change = {"status": {"reservations": [body(reservation(seen=True, until=made.now + 60))]}}
    write = Merge(ref(resources.GPUDEVICE, device), device.metadata.resource_version, change, "status")

    with pytest.raises(AssertionError, match="no step of the table"):
        made.execute([write], names.MANAGER_POOL)


def test_a_card_that_a_plugin_still_offers_for_another_pool_is_not_taken() -> None:
    made = cluster(a={})
    made.objects["GPUDevice", CARD]["status"]["published"] = {"pool": "b", "configVersion": "v", "slots": 1}
    made.annotate(CARD, "a")

    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    assert pools_of(made) == [None]

    del made.objects["GPUDevice", CARD]["status"]["published"]
    made.touch(("GPUDevice", CARD))
    made.settle()
    assert pools_of(made) == ["a"]
