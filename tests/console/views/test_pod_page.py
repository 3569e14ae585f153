"""The page of a pod that waits: a verdict on each node, and nothing that changes by time alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from console.pods import ShownPod
from console.records import Row, Seen
from console.views import VIEWS
from controllers.api import names
from controllers.domain.clock import stamp
from tests.console.views.test_views import TEAMS, of_kind
from tests.console.views.world import page, queued, seen_pod, sized, world
from tests.kit.objects import NOW, card, pool, reservation
from tests.kit.pods import asking

YOUNG = stamp(NOW - 30)
"""So lately that every second shows in an age."""


def test_a_pod_that_waits_has_a_verdict_of_each_node_with_cards_of_the_pool() -> None:
    verdicts = {each["node"]: each for each in of_kind(sized_page(queued("one")), "nodeVerdict")}
    assert verdicts.keys() == {"gpu-1", "gpu-2"}, "gpu-3 has no card of the pool"
    assert verdicts["gpu-1"]["reason"] == "TaintToleration"
    assert verdicts["gpu-1"]["messages"] == ["node(s) had untolerated taint(s)"]
    assert verdicts["gpu-2"] == {
        "kind": "nodeVerdict", "node": "gpu-2", "reason": "Unknown", "unseen": ["pods on the node"],
    }  # fmt: skip


def test_a_pod_that_needs_more_than_a_node_has_is_refused_by_its_size() -> None:
    more = {"name": "side", "resources": {"requests": {"cpu": "900", "memory": "1Gi"}}}
    body = seen_pod("big", containers=[asking("training"), more])
    (found,) = (each for each in of_kind(sized_page(body), "nodeVerdict") if each["node"] == "gpu-2")
    assert (found["reason"], found["messages"]) == ("NodeResourcesFit", ["Insufficient cpu"])
    assert found["detail"] == "cpu: needs 900, 64 free"


def test_demands_that_no_verdict_looks_at_are_said() -> None:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spread = [{"whenUnsatisfiable": how, "topologyKey": "zone"} for how in ("ScheduleAnyway", "DoNotSchedule")]
    body = seen_pod("apart", affinity=affinity, topologySpreadConstraints=spread)
    (found,) = (each for each in of_kind(sized_page(body), "nodeVerdict") if each["node"] == "gpu-2")
    assert found["unseen"] == ["topology spread", "inter-pod affinity", "pods on the node"]


def test_of_a_pod_on_a_node_and_of_an_endless_one_no_demands_are_kept() -> None:
    ports = [{"containerPort": 1, "hostPort": port} for port in range(1, 999)]
    much = [{"name": f"c{at}", "ports": ports} for at in range(3)]
    assert queued("one").whole is not None
    assert seen_pod("mine", nodeName="gpu-1").whole is None
    assert seen_pod("much", containers=[asking("training"), *much]).whole is None


def test_what_is_not_looked_at_is_said_with_its_reason() -> None:
    assert "no others" in str(sized_page(queued("one"))["pod"]["unread"])
    assert "no others" not in str(sized_page(seen_pod("mine", nodeName="gpu-1"))["pod"])


def test_a_pod_that_asks_for_two_pools_has_the_cards_of_both() -> None:
    """The webhook lets none such in; one may have come while it was away."""
    both = seen_pod("both", containers=[asking("training"), asking("other")])
    there = world(more_pods=(both,))
    more = card("gpu-3", 2, pool="other")
    there = replace(there, cards=dict(there.cards) | {more.name: more})
    rows = of_kind(page("pod", there, namespace="team-a", pod="both"), "cardVerdict")
    assert {each["pool"] for each in rows} == {"training", "other"}
    assert [each["card"] for each in rows if each["pool"] == "other"] == [more.name]
    assert {each["node"] for each in of_kind(page("pod", there, namespace="team-a", pod="both"), "nodeVerdict")} == {
        "gpu-1", "gpu-2", "gpu-3",
    }  # fmt: skip


def test_who_may_not_list_nodes_gets_no_verdicts_and_is_told_so() -> None:
    rows = page("pod", world(nodes={}, refused={"Node": "You may not list nodes."}), namespace="team-a", pod="waits")
    assert not of_kind(rows, "nodeVerdict")
    assert rows["?/Node"] == {"kind": "refused", "of": "Node", "text": "You may not list nodes."}


def sized_page(pod: ShownPod) -> Mapping[str, Row]:
    """The page of a pod in the fleet, where gpu-1 has a taint and gpu-2 is empty and of a known size."""
    label = {names.pool_node_label("training"): ""}
    nodes = {
        "gpu-1": sized("gpu-1", 2, label, taints=[{"key": "broken", "effect": "NoSchedule"}]),
        "gpu-2": sized("gpu-2", 8, label),
        "gpu-3": sized("gpu-3", 8, label),
    }
    return page("pod", world(nodes=nodes, more_pods=(pod,)), namespace="team-a", pod=pod.name)


@pytest.mark.parametrize("namespaces", [TEAMS, ("team-a",)])
@pytest.mark.parametrize("waiting", ["reserved", "expired", "passed over", "queued", "oversized"])
def test_the_page_of_a_pod_that_waits_is_the_same_less_than_a_minute_later(
    waiting: str, namespaces: tuple[str, ...]
) -> None:
    """The hub computes pages every half a minute: what only has become older must not be sent."""
    seen, name = lingering(waiting, namespaces)
    params = {"namespace": "team-a", "pod": name}
    now, later = (VIEWS["pod"].rows(seen, params, at) for at in (NOW, NOW + 45))
    assert now == later
    said = json.dumps(now["pod"])
    expected = {
        "reserved": f"is reserved for it, until {stamp(NOW + 300)}",
        "expired": f"it was made at {YOUNG}",
        "passed over": f"others come first until {stamp(NOW + 300)}",
        "queued": f"the longest since {YOUNG}" if namespaces == ("team-a",) else "waits for 1 card",
        "oversized": "waits for 4 cards",
    }
    assert expected[waiting] in said


def lingering(waiting: str, namespaces: tuple[str, ...]) -> tuple[Seen, str]:
    """The fleet with a pod that waits in one of the ways in which an answer may tell a time, and its name."""
    if waiting == "oversized":
        return world(namespaces=namespaces), "waits"
    if waiting == "queued":
        summary = {"waiting": 3, "waiting_units": 6, "oldest": YOUNG}
        seen = world(namespaces=namespaces, more_pods=(queued("one"),))
        known = pool("training", status={"queue": summary})
        return replace(seen, pools={**seen.pools, "training": known}), "one"
    promise = reservation("r-one", pod="one", namespace="team-a", until=NOW + 300)
    held = card("gpu-2", 3, pool="training", reservations=(promise,) if waiting == "reserved" else ())
    made = seen_pod("one", created=YOUNG, devices=held.status.inventory_id or "")
    seen = world(namespaces=namespaces, more_pods=(made,))
    entry = {"requestID": "r-one", "turns": 3, "until": stamp(NOW + 300)}
    known = pool("training", status={"passed_over": [entry]} if waiting == "passed over" else {})
    return replace(seen, cards={**seen.cards, held.name: held}, pools={**seen.pools, "training": known}), "one"
