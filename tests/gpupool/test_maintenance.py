"""Maintenance: a pool is reconfigured only when nobody uses it, and whoever uses it is never hurt."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool, GPUPoolStatus
from controllers.api.kube import ConfigMap
from controllers.api.settings import parse_settings
from controllers.domain.eligibility import SERVED_MODES, checks
from controllers.domain.usage import pool_users
from controllers.gpupool.mig.handler import LayoutProgress
from controllers.gpupool.pool import layouts
from controllers.gpupool.pool import state as pool_state
from controllers.runtime.plan import Action, Apply, EmitEvent, Ref
from tests.gpupool.machine import die_and_go_on
from tests.gpupool.world import Cluster
from tests.kit.cluster import ConflictError
from tests.kit.manifests import body
from tests.kit.objects import allocation

CARDS = ("n1-0000-00-00-0", "n1-0000-01-00-0")
SHARED = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}


def pooled(**allocation: Any) -> Cluster:
    """A pool of two offered cards."""
    made = Cluster()
    made.node("n1", 2)
    made.pool("a", allocation=allocation or {"mode": "Exclusive"})
    for card in CARDS:
        made.annotate(card, "a")
    made.settle()
    return made


def never_withdrawn() -> Cluster:
    """A pool whose cards are to be shared, and whose plugin has not withdrawn them in an hour."""
    made = pooled()
    made.plugin = lambda: None  # type: ignore[method-assign]
    ask(made, SHARED)
    made.settle()
    made.now += 3601
    made.settle()
    return made


def ask(made: Cluster, allocation: dict[str, Any]) -> None:
    """The administrator changes the spec."""
    pool = made.objects["GPUPool", "a"]
    pool["spec"]["allocation"] = allocation
    pool["metadata"]["generation"] = pool["metadata"].get("generation", 1) + 1
    made.touch(("GPUPool", "a"))


def status(made: Cluster) -> GPUPoolStatus:
    (pool,) = made.all(resources.GPUPOOL, GPUPool)
    return pool.status


def told(made: Cluster, kind: str = kinds.MAINTENANCE) -> tuple[str, str]:
    found = kinds.find(status(made).conditions, kind)
    assert found is not None
    return found.status, found.reason


def message(made: Cluster, kind: str = kinds.MAINTENANCE) -> str:
    found = kinds.find(status(made).conditions, kind)
    assert found is not None
    return found.message


def applied(made: Cluster) -> tuple[str, int | None]:
    found = status(made).applied_allocation
    assert found is not None
    return found.mode, found.time_slice.max_slices_per_device if found.time_slice else None


def published(made: Cluster) -> list[int | None]:
    return [d.status.published.slots if d.status.published else None for d in made.all(resources.GPUDEVICE, GPUDevice)]


def allocate(made: Cluster, card: str, uid: str, slots: int = 1) -> None:
    """Kubelet reports a container on a card, of a pod that the cluster has there."""
    if not any(key[0] == "Pod" and stored["metadata"]["uid"] == uid for key, stored in made.objects.items()):
        node = made.objects["GPUDevice", card]["status"]["nodeName"]
        made.pod(f"p-{uid}", "a", f"r-{uid}", node=node, phase="Running")
        with made.edit("Pod", f"default/p-{uid}") as pod:
            pod["metadata"]["uid"] = uid
            pod["spec"]["containers"][0]["resources"]["limits"] = {names.resource_name("a"): str(slots)}
    report(made, card, uid, slots)


def report(made: Cluster, card: str, uid: str, slots: int = 1) -> None:
    """A node says that a pod is on a card of its own."""
    entry = allocation(f"p-{uid}", uid, namespace="default", slots=slots)
    with made.edit("GPUDevice", card) as found:
        found["status"].setdefault("allocations", []).append(body(entry))


def end(made: Cluster, card: str) -> None:
    """The pods of a card end, and kubelet tells so."""
    for entry in made.objects["GPUDevice", card]["status"].pop("allocations"):
        if ("Pod", f"default/{entry['pod']}") in made.objects:
            made.drop(resources.POD, f"default/{entry['pod']}")
    made.touch(("GPUDevice", card))


def promise(made: Cluster, card: str, request: str = "r", seconds: float = 15.0) -> None:
    made.reserve(card, request, pod="late", seconds=seconds)


def notes(actions: tuple[Action, ...]) -> list[str]:
    return [action.reason for action in actions if isinstance(action, EmitEvent)]


def test_a_timesliced_pool_counts_slots() -> None:
    made = pooled(**SHARED)
    promise(made, CARDS[0])
    allocate(made, CARDS[0], "u", 2)
    made.settle()

    capacity = status(made).capacity
    assert capacity is not None
    found = (capacity.unit, capacity.total, capacity.used, capacity.reserved, capacity.available)
    assert found == ("timeslice", 8, 2, 1, 5)
    (node,) = status(made).nodes
    assert (node.slots, node.used) == (8, 2)


@pytest.mark.parametrize(
    ("block", "slots"), [({}, 8), ({"timeSlice": {}}, 8), ({"timeSlice": {"maxSlicesPerDevice": 2}}, 2)]
)
def test_a_timesliced_card_has_eight_slots_unless_told(block: dict[str, Any], slots: int) -> None:
    made = pooled(mode="TimeSlice", **block)

    assert published(made) == [slots, slots]
    assert applied(made) == ("TimeSlice", slots)


def test_an_idle_pool_is_reconfigured_at_once() -> None:
    made = pooled()
    ask(made, SHARED)
    made.settle()

    assert applied(made) == ("TimeSlice", 4)
    assert told(made) == ("False", "AsExpected")
    assert published(made) == [4, 4]
    assert status(made).last_reconfigured is not None


def test_a_promise_that_is_over_holds_up_no_reconfiguration() -> None:
    """Also before the reservation itself has been taken off its card, which is another plan's work."""
    made = pooled()
    promise(made, CARDS[0], seconds=15.0)

    def waits_for() -> tuple[str, ...]:
        seen = made.view().pool("a")
        assert seen is not None
        return pool_users(seen.members, seen.pods, made.now)

    assert waits_for() == ("default/late",)
    made.now += 16.0
    assert waits_for() == ()


def test_a_new_pool_is_not_reconfigured() -> None:
    made = pooled(**SHARED)

    assert status(made).last_reconfigured is None
    assert applied(made) == ("TimeSlice", 4)


def test_a_change_of_what_does_not_concern_nodes_changes_nothing() -> None:
    made = pooled()
    ask(
        made,
        {"mode": "Exclusive", "maxDevicesPerNode": 7, "timeSlice": {"maxSlicesPerDevice": 3}, "migProfile": "1g.10gb"},
    )
    made.settle()

    assert told(made) == ("False", "AsExpected")
    assert published(made) == [1, 1]
    assert status(made).last_reconfigured is None


def test_a_running_pod_keeps_its_card_until_it_ends() -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    ask(made, SHARED)
    first = made.planned("GPUPool", "a").actions
    made.settle()

    assert names.EVENT_MAINTENANCE in notes(first)
    assert told(made) == ("True", "WaitingForPods")
    assert "are promised some (1). To find them: kubectl get pods -A -l gpu.deckhouse.io/pool=a;" in message(made)
    assert applied(made) == ("Exclusive", None)
    assert published(made) == [None, None]
    capacity = status(made).capacity
    assert capacity is not None
    assert status(made).nodes[0].last_event == "the pool is in Maintenance and offers no card"
    assert (capacity.unit, capacity.total, capacity.used, capacity.unavailable, capacity.available) == (
        "card",
        2,
        1,
        1,
        0,
    )

    end(made, CARDS[0])
    last = made.planned("GPUPool", "a").actions
    made.settle()
    assert names.EVENT_RECONFIGURED in notes(last)
    assert (applied(made), told(made), published(made)) == (("TimeSlice", 4), ("False", "AsExpected"), [4, 4])


def test_what_was_promised_before_the_condition_is_waited_for() -> None:
    """A pod that the webhook admitted between the change and the condition keeps its card."""
    made = pooled()
    ask(made, SHARED)
    promise(made, CARDS[1])
    made.settle()

    assert told(made) == ("True", "WaitingForPods")
    assert "are promised some (1)." in message(made)
    made.pod("late", "a", "r", node="n1")
    made.settle()
    assert applied(made) == ("Exclusive", None)

    made.drop(resources.POD, "default/late")
    made.settle()
    assert applied(made) == ("TimeSlice", 4)


def test_a_pod_that_the_cache_does_not_know_yet_is_not_overtaken() -> None:
    made = pooled()
    ask(made, SHARED)
    made.pod("p", "a", "r", node="n1")
    made.hidden = frozenset({"default/p"})
    made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)
    made.plugin()
    with pytest.raises(ConflictError):
        made.execute(made.planned("GPUPool", "a").actions, names.MANAGER_POOL)

    assert applied(made) == ("Exclusive", None)


def test_a_pod_without_a_node_does_not_block() -> None:
    """It waits, and will be given a slot of the new kind."""
    made = pooled()
    made.pod("waiting", "a", "r")
    ask(made, SHARED)
    made.settle()

    assert applied(made) == ("TimeSlice", 4)


def test_a_pod_that_kubelet_has_reported_on_one_of_its_two_cards_holds_both() -> None:
    made = pooled()
    made.pod("p", "a", "r", node="n1")
    pod = made.objects["Pod", "default/p"]
    pod["spec"]["containers"][0]["resources"]["limits"] = {names.resource_name("a"): "2"}
    allocate(made, CARDS[0], pod["metadata"]["uid"])
    made.annotate(CARDS[1], None)
    made.settle()
    assert [d.status.pool_ref is not None for d in made.all(resources.GPUDEVICE, GPUDevice)] == [True, True]

    allocate(made, CARDS[1], pod["metadata"]["uid"])
    made.drop(resources.POD, "default/p")
    for card in CARDS:
        end(made, card)
    made.settle()
    assert [d.status.pool_ref is not None for d in made.all(resources.GPUDEVICE, GPUDevice)] == [True, False]


def test_putting_the_old_spec_back_ends_it_at_once_and_reconfigures_nothing() -> None:
    made = pooled()
    before = [d.status.published for d in made.all(resources.GPUDEVICE, GPUDevice)]
    allocate(made, CARDS[0], "u")
    ask(made, SHARED)
    made.settle()
    ask(made, {"mode": "Exclusive"})
    made.settle()

    assert told(made) == ("False", "AsExpected")
    assert [d.status.published for d in made.all(resources.GPUDEVICE, GPUDevice)] == before
    assert status(made).last_reconfigured is None


def test_of_two_changes_the_newer_wins() -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    ask(made, SHARED)
    made.settle()
    ask(made, {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 2}})
    made.settle()
    assert "2 slots a card" in message(made)

    end(made, CARDS[0])
    made.settle()
    assert applied(made) == ("TimeSlice", 2)


def test_a_pod_that_never_ends_is_counted_and_left_alone() -> None:
    made = pooled()
    made.settings = parse_settings({"maintenance": {"deadline": "10m"}})
    allocate(made, CARDS[0], "u")
    ask(made, SHARED)
    made.settle()
    assert made.planned("GPUPool", "a").requeue_after == pytest.approx(600, abs=1)
    made.now += 601
    made.settle()

    assert told(made) == ("True", "PodsOverdue")
    assert "are promised some (1)." in message(made)
    assert "set the spec back to Exclusive" in message(made)
    assert made.planned("GPUPool", "a").requeue_after is None
    end(made, CARDS[0])
    made.settle()
    assert applied(made) == ("TimeSlice", 4)


def test_a_plugin_that_never_withdraws_is_named() -> None:
    made = pooled()
    made.plugin = lambda: None  # type: ignore[method-assign]
    ask(made, SHARED)
    made.settle()
    assert told(made) == ("True", "AwaitingWithdrawal")

    made.now += 3601
    made.settle()
    assert told(made) == ("True", "PluginsOverdue")
    assert "n1-0000:00:00.0" in message(made)


def test_a_plugin_that_never_withdraws_is_no_more_waited_for_once_its_cards_are_declined() -> None:
    """The mark counts at once: the condition comes after it, and does not while inventory is away."""
    made = never_withdrawn()
    assert told(made) == ("True", "PluginsOverdue")

    for card in CARDS:
        with made.edit("GPUDevice", card) as found:
            found["metadata"].setdefault("labels", {})[names.LABEL_IGNORE] = "true"
    made.settle()
    assert applied(made) == ("TimeSlice", 4)


@pytest.mark.parametrize("why", ["node away", "node gone", "card faulted", "card lost"])
def test_what_cannot_withdraw_a_card_does_not_block(why: str) -> None:
    made = pooled()
    made.plugin = lambda: None  # type: ignore[method-assign]
    match why:
        case "node away":
            made.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
            made.touch(("Node", "n1"))
        case "node gone":
            made.drop(resources.NODE, "n1")
        case _:
            kind = "Faulted" if why == "card faulted" else "InventoryIncomplete"
            for card in CARDS:
                entry = {"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": "t"}
                made.objects["GPUDevice", card]["status"].setdefault("conditions", []).append(entry)
                made.touch(("GPUDevice", card))
    ask(made, SHARED)
    made.settle()

    assert applied(made) == ("TimeSlice", 4)


def test_a_lost_card_with_a_pod_on_it_is_waited_for() -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    made.fault(CARDS[0])
    ask(made, SHARED)
    made.settle()

    assert told(made) == ("True", "WaitingForPods")


def test_nobody_reads_in_a_pool_which_pods_of_others_it_waits_for() -> None:
    """Whoever may ask for cards may read pools."""
    made = pooled()
    allocate(made, CARDS[0], "u")
    promise(made, CARDS[1])
    ask(made, SHARED)
    made.settle()
    made.now += 3601
    promise(made, CARDS[1])
    made.settle()

    said = str(made.objects["GPUPool", "a"]["status"])
    assert told(made) == ("True", "PodsOverdue")
    assert not any(name in said for name in ("default", "p-u", "late"))


def test_an_offer_that_is_behind_gives_no_more_than_the_new_layout_has() -> None:
    """A plugin that was away still offers eight slots of a card of which one is given out by now."""
    made = pooled(mode="TimeSlice")
    made.objects["Node", "n1"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    made.touch(("Node", "n1"))
    made.plugin = lambda: None  # type: ignore[method-assign]
    ask(made, {"mode": "Exclusive"})
    made.settle()

    capacity = status(made).capacity
    assert capacity is not None
    assert (capacity.unit, capacity.total) == ("card", 2)


def test_a_mode_that_is_not_served_leaves_the_pool_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (checks, pool_state):
        monkeypatch.setattr(module, "SERVED_MODES", ("Exclusive", "TimeSlice"))
    made = pooled()
    allocate(made, CARDS[0], "u")
    ask(made, {"mode": "MIG", "migProfile": "1g.10gb"})
    first = made.planned("GPUPool", "a").actions
    made.settle()

    assert names.EVENT_MISCONFIGURED in notes(first)
    assert told(made, kinds.MISCONFIGURED) == ("True", "ModeNotServed")
    assert told(made) == ("False", "AsExpected")
    assert (applied(made), published(made)) == (("Exclusive", None), [1, 1])


def test_a_status_that_was_lost_is_read_from_what_the_cards_say() -> None:
    made = pooled(**SHARED)
    allocate(made, CARDS[0], "u")
    made.objects["GPUPool", "a"]["status"] = {}
    made.touch(("GPUPool", "a"))
    before = [c.data for c in made.all(resources.CONFIGMAP, ConfigMap)]
    made.settle()

    assert applied(made) == ("TimeSlice", 4)
    assert told(made) == ("False", "AsExpected")
    assert [c.data for c in made.all(resources.CONFIGMAP, ConfigMap)] == before


def test_a_pool_that_is_deleted_in_the_middle_goes() -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    ask(made, SHARED)
    made.settle()
    made.delete_pool("a")
    made.settle()
    assert made.pools() == {"a"}

    end(made, CARDS[0])
    made.settle()
    assert made.pools() == set()


@pytest.mark.parametrize("stop", range(16))
def test_a_controller_that_dies_after_any_write_goes_on(stop: int) -> None:
    made = pooled()
    allocate(made, CARDS[0], "u")
    ask(made, SHARED)

    def nodes(round_: int) -> None:
        made.plugin()
        if round_ == 3:
            end(made, CARDS[0])

    die_and_go_on(made, stop, 8, nodes)

    assert (applied(made), told(made), published(made)) == (("TimeSlice", 4), ("False", "AsExpected"), [4, 4])


# --- what has to be built, and can fail ---------------------------------------------------------


class Builds:
    """A mode whose nodes have work to do."""

    def __init__(self) -> None:
        self.state = LayoutProgress(done=False, pending=("n1",))
        self.waiting: set[str] = set()

    def progress(self, _seen: Any, _layout: Any, _now: float) -> LayoutProgress:
        return self.state

    def is_ready(self, _facts: Any, device: GPUDevice, _layout: Any) -> bool:
        return device.name not in self.waiting

    def retry(self, _seen: Any, _now: float) -> tuple[Action, ...]:
        return (Apply(Ref(resources.CONFIGMAP, "again", names.NAMESPACE), {"data": {"try": "2"}}),)


def test_every_served_mode_has_a_builder() -> None:
    assert set(layouts.HANDLERS) == set(SERVED_MODES)


def test_the_layout_is_applied_only_when_the_nodes_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, builder = pooled(), Builds()
    monkeypatch.setitem(layouts.HANDLERS, "TimeSlice", builder)
    ask(made, SHARED)
    made.settle()
    assert told(made) == ("True", "Rebuilding")
    assert "n1" in message(made)

    builder.state = LayoutProgress()
    made.settle()
    assert applied(made) == ("TimeSlice", 4)


def test_a_layout_that_fails_halts_the_pool_until_a_person_resumes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, builder = pooled(), Builds()
    monkeypatch.setitem(layouts.HANDLERS, "TimeSlice", builder)
    builder.state = LayoutProgress(done=False, failed={"n1": "the card needs a reboot"}, all_failed=True)
    ask(made, SHARED)
    made.settle()

    assert told(made) == ("True", "LayoutFailed")
    assert told(made, kinds.MISCONFIGURED) == ("True", "LayoutFailed")
    assert f"kubectl annotate gpupool a {names.RESUME}=true" in message(made)
    assert [(n.health, n.last_event) for n in status(made).nodes] == [("Misconfigured", "the card needs a reboot")]
    assert published(made) == [None, None]

    made.objects["GPUPool", "a"]["metadata"].setdefault("annotations", {})[names.RESUME] = "true"
    made.touch(("GPUPool", "a"))
    made.settle()
    assert ("ConfigMap", f"{names.NAMESPACE}/again") in made.objects
    assert names.RESUME not in made.objects["GPUPool", "a"]["metadata"]["annotations"]

    builder.state = LayoutProgress()
    made.settle()
    assert (applied(made), told(made, kinds.MISCONFIGURED)) == (("TimeSlice", 4), ("False", "AsExpected"))


def test_a_layout_that_drifts_halts_a_pool_that_was_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    made, builder = pooled(**SHARED), Builds()
    monkeypatch.setitem(layouts.HANDLERS, "TimeSlice", builder)
    builder.state = LayoutProgress(failed={"n1": "somebody removed two instances"}, all_failed=True)
    made.settle()

    assert told(made) == ("True", "LayoutFailed")
    assert published(made) == [None, None]


def test_a_resume_where_nothing_failed_is_taken_off_and_does_nothing() -> None:
    made = pooled()
    made.objects["GPUPool", "a"]["metadata"].setdefault("annotations", {})[names.RESUME] = "true"
    made.touch(("GPUPool", "a"))
    first = made.planned("GPUPool", "a").actions
    made.settle()

    assert names.EVENT_RESUMED not in notes(first)
    assert names.RESUME not in made.objects["GPUPool", "a"]["metadata"]["annotations"]


def test_a_card_that_is_not_divided_yet_is_not_offered_and_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builds()
    builder.state, builder.waiting = LayoutProgress(), {CARDS[1]}
    monkeypatch.setitem(layouts.HANDLERS, "TimeSlice", builder)
    made = pooled(**SHARED)
    assert (published(made), told(made)) == ([4, None], ("False", "AsExpected"))

    builder.waiting = set()
    made.settle()
    assert published(made) == [4, 4]
