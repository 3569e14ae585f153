"""Pods leave a node before its driver does: by themselves, or asked by evictions; or the node is given back."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.runtime.plan import EmitEvent
from tests.driver.draining import SAID, Draining
from tests.driver.rolling import Rolling
from tests.driver.test_rolling import retarget, until, version
from tests.driver.world import NEXT, VERSION

HOUR = 3600.0
ON_DISK: dict[str, Any] = {"name": "scratch", "emptyDir": {}}
IN_MEMORY: dict[str, Any] = {"name": "shm", "emptyDir": {"medium": "Memory"}}
FOREIGN = {"key": names.DRIVER_TAINT, "effect": "NoSchedule"}


def rolling(strategy: str, **drain: Any) -> Draining:
    """A node that is about to leave service for the next version."""
    made = Draining()
    made.node()
    made.driver(rollout={"strategy": strategy, "canary": {"soak": "1m", "evidence": "None"}, "drain": drain})
    made.settle()
    retarget(made, NEXT)
    made.begin()
    made.settle()
    return made


def reason(made: Rolling) -> str | None:
    return (made.work() or {}).get("reason")


def message(made: Rolling) -> str:
    return str((made.work() or {}).get("message"))


def leave(made: Rolling) -> None:
    """It is the node's turn, and pods have had their time to end by themselves."""
    made.take()
    made.settle()
    made.now += 2
    made.settle()


def soaked(made: Rolling) -> None:
    made.settle()
    assert made.phase() == "Soaking", made.work()
    made.now += 60
    made.settle()
    assert (made.phase(), version(made)) == (None, NEXT)


@pytest.mark.parametrize("resource", [names.resource_name("a"), "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_when_idle_a_pod_is_waited_for_and_never_evicted(resource: str) -> None:
    made = rolling("WhenIdle")
    made.pod("train", resource=resource)
    made.take()
    made.settle()
    assert (made.phase(), reason(made)) == ("Draining", "PodsRemain")
    assert "team/train" in message(made)
    made.now += HOUR
    made.settle()
    assert made.phase() == "Draining"
    made.finish("train")
    soaked(made)

    assert (made.asked, made.ended) == ([], [])


def test_a_pod_that_has_ended_and_stays_on_record_keeps_no_driver() -> None:
    """As those of Jobs do until somebody deletes them."""
    made = rolling("WhenIdle")
    made.pod("train", labels={names.LABEL_POOL: "a"})
    leave(made)
    assert made.phase() == "Draining"
    with made.edit("Pod", "team/train") as pod:
        pod["status"]["phase"] = "Succeeded"
    soaked(made)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_a_driver_that_failed_does_not_go_from_under_a_pod_that_has_a_card_of_others(resource: str) -> None:
    """Which no card of the module's tells; the node was out of service already."""
    made = rolling("WhenIdle")
    leave(made)
    assert made.phase() == "Soaking"
    made.pod("train", resource=resource)
    made.unfit.add(NEXT)
    made.outside()
    assert not made.in_service("n1")
    made.card("n1", {"fault": "CriticalXid"})
    made.settle()

    assert ((made.work() or {})["undoes"], made.phase()) != (None, "Removing")
    assert (made.phase(), version(made)) == ("Queued", NEXT)
    made.finish("train")
    made.take()
    made.settle()
    assert (made.phase(), version(made)) == ("RolledBack", VERSION)


def test_a_bare_node_whose_driver_pods_use_says_who_keeps_it_from_the_next() -> None:
    made = Draining()
    made.node()
    made.unfit.add(VERSION)
    made.driver()
    made.settle()
    made.now += 16 * 60
    made.settle()
    assert made.phase() == "Failed"
    before = made.label()
    made.pod("train", resource="nvidia.com/gpu")
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    events: list[str] = []
    for _ in range(20):
        planned = made.planned("GPUNodeInventory", "n1").actions
        events += [one.message for one in planned if isinstance(one, EmitEvent)]
        made.reconcile("GPUNodeInventory", "n1")
        made.outside()
    made.settle()
    assert [one for one in events if "use the driver" in one]
    assert not [one for one in events if "train" in one], "an event names no pod: more people read it"
    assert (made.phase(), reason(made), made.label()) == ("Blocked", "DevicesHeld", before)
    assert "team/train" in message(made)
    assert made.told("Blocked") == ("True", "DevicesHeld")
    made.finish("train")
    made.now += 121
    made.settle()

    assert (made.phase(), version(made), made.in_service("n1")) == (None, NEXT, True)


def test_a_pod_that_comes_as_the_driver_is_about_to_go_keeps_it() -> None:
    made = rolling("WhenIdle")
    made.take()
    until(made, "Clearing")
    for _ in range(20):
        made.outside()
        made.reconcile("GPUNodeInventory", "n1", stop_after=1)
        if made.phase() == "Removing":
            break
    before = made.label()
    assert (made.phase(), version(made)) == ("Removing", VERSION)
    made.pod("train", resource="nvidia.com/gpu")
    made.settle()

    assert made.label() == before
    assert made.in_service("n1")


def test_a_pod_that_does_not_end_has_the_node_given_back() -> None:
    made = rolling("WhenIdle")
    made.pod("train")
    made.take()
    made.settle()
    made.now += 1.5 * HOUR
    made.settle()

    assert (made.phase(), reason(made)) == ("Deferred", "PodsRemain")
    assert "team/train" in message(made)
    assert made.in_service("n1")
    assert (version(made), made.ended) == (VERSION, [])


def test_a_node_that_waits_for_a_pod_is_not_written() -> None:
    made = rolling("WhenIdle")
    made.pod("train")
    made.take()
    made.settle()
    before = made.writes
    for _ in range(30):
        made.now += 60
        made.settle()

    assert made.writes == before


def test_pods_are_evicted_after_a_while_the_least_important_first_and_all_are_asked_about_before() -> None:
    made = rolling("Drain")
    for name, priority in (("high", 100), ("low", -5), ("mid", 0)):
        made.pod(name, priority=priority)
    made.take()
    made.settle()
    assert made.asked == [], "they may end by themselves first"
    made.now += HOUR
    soaked(made)

    assert made.asked == ["low", "mid", "high"]
    assert made.ended == ["low", "mid", "high"]


def test_no_pod_of_the_node_is_evicted_while_a_budget_refuses_one() -> None:
    made = rolling("Drain")
    made.pod("free")
    made.pod("held", priority=10)
    made.refused = {"held"}
    made.take()
    made.settle()
    made.now += HOUR
    made.settle()
    made.settle()
    assert (made.phase(), reason(made)) == ("Draining", "EvictionRefused")
    assert f"team/held ({SAID})" in message(made)
    asked = len(made.asked)
    made.settle()
    assert len(made.asked) == asked, "it is not asked again at once"
    assert made.ended == []
    made.refused = set()
    made.now += 5
    soaked(made)

    assert sorted(made.ended) == ["free", "held"]


def test_a_refused_eviction_is_tried_again_ever_more_seldom_and_the_node_given_back() -> None:
    made = rolling("Drain", waitFor="1s", timeout="10m")
    made.pod("held")
    made.refused = {"held"}
    leave(made)
    for _ in range(600):
        made.now += 1
        made.settle()

    assert (made.phase(), reason(made)) == ("Deferred", "EvictionRefused")
    assert made.in_service("n1")
    assert 10 <= len(made.asked) <= 14, "5, 10, 20, 40 s, and then each minute"
    assert made.ended == []


def test_a_budget_that_pods_share_lets_them_go_one_after_the_other() -> None:
    made = rolling("Drain", waitFor="1s")
    made.pod("a")
    made.pod("b")
    made.shared = 1
    leave(made)
    assert made.ended == ["a"]
    made.shared = 1  # the other one has come up elsewhere
    made.now += 60
    soaked(made)

    assert made.ended == ["a", "b"]


@pytest.mark.parametrize(
    ("pod", "drain", "why"),
    [
        ({"annotations": {names.DO_NOT_DISRUPT: "true"}}, {}, names.DO_NOT_DISRUPT),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, {}, "karpenter.sh/do-not-disrupt"),
        (
            {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            {},
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
        ),
        (
            {"labels": {"nvidia.com/gpu-driver-upgrade-drain.skip": "true"}},
            {},
            "nvidia.com/gpu-driver-upgrade-drain.skip",
        ),
        ({"volumes": (ON_DISK,)}, {}, "data in an emptyDir"),
        ({"owner": None}, {}, "nothing makes it anew"),
        ({"volumes": (ON_DISK,)}, {"localData": "Evict"}, None),
        ({"volumes": (IN_MEMORY,)}, {}, None),
        ({"owner": None}, {"bare": "Evict"}, None),
        ({"annotations": {names.DO_NOT_DISRUPT: "false"}}, {}, None),
    ],
)
def test_who_protects_itself_is_waited_for(pod: dict[str, Any], drain: dict[str, Any], why: str | None) -> None:
    made = rolling("Drain", waitFor="1s", **drain)
    made.pod("other")
    made.pod("train", priority=10, **pod)
    leave(made)
    if why is None:
        assert made.ended == ["other", "train"]
        return
    assert (made.phase(), reason(made)) == ("Draining", "PodsProtected")
    assert f"team/train ({why})" in message(made)
    made.now += HOUR
    made.settle()

    assert (made.phase(), made.asked, made.ended) == ("Deferred", [], [])


def test_nobody_is_evicted_from_a_node_whose_kubelet_is_away() -> None:
    made = rolling("Drain", waitFor="1s")
    made.pod("train")
    made.take()
    until(made, "Draining")
    made.merge("Node", "n1", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    made.now += 2
    made.settle()

    assert (made.phase(), made.asked) == ("Draining", [])


def test_a_pod_that_is_leaving_already_is_not_asked_for() -> None:
    made = rolling("Drain", waitFor="1s")
    made.pod("train", deletionTimestamp="2026-01-01T00:00:00Z")
    leave(made)

    assert (made.phase(), made.asked) == ("Draining", [])


def test_a_process_that_dies_after_any_write_evicts_nobody_twice_and_comes_to_the_same_end() -> None:
    for stop in range(1, 12):
        made = rolling("Drain", waitFor="1s")
        for name in ("a", "b"):
            made.pod(name)
        made.take()
        for _ in range(stop):
            made.now += 1
            made.reconcile("GPUNodeInventory", "n1", stop_after=1)
            made.outside()
        made.settle()
        made.now += 2
        soaked(made)

        assert made.ended == ["a", "b"]


def taints(made: Rolling) -> list[dict[str, Any]]:
    return list(made.objects["Node", "n1"]["spec"].get("taints") or [])


def note(made: Rolling) -> str | None:
    found: str | None = made.objects["Node", "n1"]["metadata"]["annotations"].get(names.DRIVER_TAINTED)
    return found


def test_a_node_with_cards_of_others_is_tainted_until_it_is_back() -> None:
    made = rolling("WhenIdle")
    made.merge("Node", "n1", {"status": {"allocatable": {"nvidia.com/gpu": "1"}}})
    made.pod("train", resource="nvidia.com/gpu")
    made.settle()
    assert taints(made) == [], "its turn has not come"
    made.take()
    made.settle()
    assert made.phase() == "Draining"
    assert (taints(made), note(made)) == ([FOREIGN], "main")
    made.finish("train")
    made.merge("Node", "n1", {"status": {"allocatable": {"nvidia.com/gpu": "0"}}})
    until(made, "Installing")
    assert taints(made) == [FOREIGN], "it stays although nothing is offered any more"
    soaked(made)

    assert (taints(made), note(made)) == ([], None)


def test_a_node_whose_cards_are_the_modules_alone_is_not_tainted() -> None:
    made = rolling("WhenIdle")
    made.pod("train")
    made.take()
    made.settle()

    assert made.phase() == "Draining"
    assert taints(made) == []


def test_a_taint_that_is_somebody_elses_stays() -> None:
    made = rolling("WhenIdle")
    other = {"key": "example.com/other", "effect": "NoSchedule"}
    made.merge("Node", "n1", {"spec": {"taints": [FOREIGN, other]}, "status": {"allocatable": {"nvidia.com/gpu": "1"}}})
    made.take()
    soaked(made)

    assert (taints(made), note(made)) == ([FOREIGN, other], None)


def test_a_node_that_is_given_back_loses_its_taint() -> None:
    made = rolling("WhenIdle")
    made.merge("Node", "n1", {"status": {"allocatable": {"nvidia.com/gpu": "1"}}})
    made.pod("train", resource="nvidia.com/gpu")
    made.take()
    made.settle()
    assert taints(made) == [FOREIGN]
    made.merge("GPUDriver", "main", {"spec": {"rollout": {"paused": True}}})
    made.settle()

    assert (made.phase(), taints(made), note(made)) == (None, [], None)
