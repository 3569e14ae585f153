"""Whether a node could take a pod: the scheduler's order of plugins, its words, and its arithmetic."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.api.record import adapter
from controllers.api.whole_pod import WholePod
from controllers.domain.quantities import NANO, nanos
from controllers.domain.verdict.demands import Demands, NodeUse
from controllers.domain.verdict.nodes import node_verdict, spelled

CARDS = "gpu.deckhouse.io/a"
ROOM = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "10", CARDS: "4"}


def pod(**spec: Any) -> WholePod:
    spec.setdefault("containers", [asks(cpu="1")])
    status = spec.pop("status", {})
    return adapter(WholePod).validate_python({"metadata": {"name": "p"}, "spec": spec, "status": status})


def asks(ports: Any = (), **requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}, "ports": list(ports)}


def node(labels: Any = None, room: Any = None, **spec: Any) -> Node:
    found = {
        "metadata": {"name": "n", "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": ROOM if room is None else room},
    }
    return adapter(Node).validate_python(found)


def said(wanted: WholePod, on: Node, *there: WholePod) -> tuple[str, tuple[str, ...]]:
    found = node_verdict(Demands.of(wanted), on, NodeUse.of(there))
    return found.reason, found.messages


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def named(*names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [one]} for one in names]}


PORT = {"containerPort": 80, "hostPort": 80}
TAINT = {"key": "dedicated", "value": "infer", "effect": "NoSchedule"}
ALL_WRONG: dict[str, Any] = {
    "nodeName": "other",
    "nodeSelector": {"zone": "a"},
    "containers": [asks([PORT], cpu="9", memory="33Gi", **{"ephemeral-storage": "101Gi", CARDS: "5"})],
}
REASONS: list[tuple[str, tuple[str, ...]]] = [
    ("Unschedulable", ("node(s) were unschedulable",)),
    ("NodeName", ("node(s) didn't match the requested node name",)),
    ("TaintToleration", ("node(s) had untolerated taint(s)",)),
    ("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",)),
    ("NodePorts", ("node(s) didn't have free ports for the requested pod ports",)),
    (
        "NodeResourcesFit",
        (
            "Too many pods",
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
            f"Insufficient {CARDS}",
        ),
    ),
    ("Unknown", ()),
    ("Fits", ()),
]


def test_the_first_plugin_that_says_no_ends_it_in_the_schedulers_order() -> None:
    """Each of its obstacles is taken away in turn, and the next comes to light."""
    there = [pod(containers=[asks([PORT], cpu="1")])]
    demand, place = {**ALL_WRONG, "volumes": [{"persistentVolumeClaim": {"claimName": "d"}}]}, {"unschedulable": True}
    room: dict[str, str] = {**ROOM, "pods": "0"}
    steps: list[Any] = [
        lambda: place.pop("unschedulable"),
        lambda: demand.pop("nodeName"),
        lambda: demand.update(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        lambda: demand.pop("nodeSelector"),
        there.clear,
        lambda: (demand.update(containers=[asks(cpu="8")]), room.update(pods="2")),
        lambda: demand.pop("volumes"),
    ]
    found = []
    for step in [lambda: None, *steps]:
        step()
        found.append(said(pod(**demand), node(room=room, taints=[TAINT], **place), *there))
    assert found == REASONS


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([], False),
        ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"operator": "Exists"}], True),
        ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_a_cordon_is_tolerated_as_its_taint(tolerations: Any, fits: bool) -> None:
    assert (said(pod(tolerations=tolerations), node(unschedulable=True))[0] == "Fits") is fits


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([named("n")], None),
        ([named("m")], "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        ([named("m"), named("n")], None),
        ([named("m", "n")], "pod affinity terms conflict"),
        ([named("m"), {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], "node affinity/selector"),
        ([{}, named("m")], "node affinity/selector"),
        ([{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]}], None),
        ([{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]}], "node affinity/selector"),
    ],
)
def test_affinity_that_names_nodes_keeps_the_others_out_of_sight(terms: Any, message: str | None) -> None:
    """Whatever else is the matter with them: the scheduler does not come to look at it."""
    reason, messages = said(pod(affinity=required(*terms)), node({"size": "4"}))
    assert reason == ("Fits" if message is None else "NodeAffinity")
    assert message is None or messages[0].endswith(message)


@pytest.mark.parametrize(
    ("wanted", "taken", "free"),
    [
        ({}, {}, False),
        ({"hostIP": "10.0.0.1"}, {}, False),
        ({}, {"hostIP": "10.0.0.1"}, False),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, True),
        ({"protocol": "UDP"}, {}, True),
        ({"hostPort": 81}, {}, True),
        ({"hostPort": 0}, {}, True),
    ],
)
def test_ports_of_the_node(wanted: Any, taken: Any, free: bool) -> None:
    other = pod(containers=[asks([{**PORT, **taken}], cpu="1")])
    assert (said(pod(containers=[asks([{**PORT, **wanted}], cpu="1")]), node(), other)[0] == "Fits") is free


def test_an_init_container_that_ends_takes_no_port_and_a_sidecar_does() -> None:
    once, always = ([{**asks([PORT]), "restartPolicy": each}] for each in (None, "Always"))
    other = pod(containers=[asks([PORT], cpu="1")])
    assert said(pod(initContainers=once), node(), other)[0] == "Fits"
    assert said(pod(initContainers=always), node(), other)[0] == "NodePorts"


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ({"containers": [asks(cpu="0.5"), asks(cpu="250m")]}, {"cpu": 750}),
        ({"containers": [asks(memory="0.5")]}, {"memory": 1}),
        ({"containers": [asks(cpu="1u", memory="16Ei")]}, {"cpu": 1, "memory": 2**63 - 1}),
        ({"containers": [asks(cpu="10P", memory="10E")]}, {"cpu": 0, "memory": 0}),
        ({"containers": [asks(memory="1.5Gi"), asks(memory="1G")]}, {"memory": 3 * 2**29 + 10**9}),
        ({"containers": [asks(cpu="1")], "initContainers": [asks(cpu="3")]}, {"cpu": 3000}),
        (
            {"containers": [asks(cpu="1")], "initContainers": [asks(cpu="1") | {"restartPolicy": "Always"}]},
            {"cpu": 2000},
        ),
        (
            {
                "containers": [asks(cpu="1")],
                "initContainers": [asks(cpu="2") | {"restartPolicy": "Always"}, asks(cpu="3")],
            },
            {"cpu": 5000},
        ),
        ({"containers": [asks(cpu="1")], "overhead": {"cpu": "100m", "memory": "1Ki"}}, {"cpu": 1100, "memory": 1024}),
        (
            {"containers": [asks(cpu="1", **{CARDS: "2"})], "resources": {"requests": {"cpu": "4"}}},
            {"cpu": 4000, CARDS: 2},
        ),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, {"cpu": 2000}),
    ],
)
def test_what_a_pod_asks_for_at_once(spec: Any, needs: dict[str, int]) -> None:
    assert Demands.of(pod(**spec)).requests == needs


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, 2000),
        ({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}, 3000),
        ({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}, 2000),
        (
            {
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            },
            1000,
        ),
        (
            {
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
            },
            2000,
        ),
    ],
)
def test_a_pod_that_runs_holds_what_kubelet_gave_while_it_is_resized(status: Any, cpu: int) -> None:
    assert NodeUse.of([pod(containers=[asks(cpu="2")], status=status)]).requests == {"cpu": cpu}


def test_pods_that_have_ended_hold_nothing() -> None:
    ended = [pod(containers=[asks([PORT], cpu="8")], status={"phase": phase}) for phase in ("Succeeded", "Failed")]
    assert NodeUse.of(ended) == NodeUse()


def test_what_decides_and_is_not_looked_at_is_said() -> None:
    unseen: dict[str, Any] = {
        "volumes": {"volumes": [{"ephemeral": {}}]},
        "topology spread": {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        "inter-pod affinity": {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
        },
        "resource claims": {"resourceClaims": [{"name": "c"}]},
    }
    for what, spec in unseen.items():
        verdict = node_verdict(Demands.of(pod(**spec)), node(), NodeUse())
        assert (verdict.reason, verdict.unseen) == ("Unknown", (what,))
    harmless: dict[str, Any] = {
        "volumes": [{"emptyDir": {}}, {"configMap": {"name": "c"}}],
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}},
    }
    assert said(pod(**harmless), node())[0] == "Fits"


@pytest.mark.parametrize(
    ("term", "repelled"),
    [
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"labelSelector": {}}, True),
        ({}, False),
        ({"labelSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"labelSelector": {}, "namespaces": ["team-b"]}, False),
        ({"labelSelector": {}, "namespaces": ["team-a", "team-b"]}, True),
        ({"labelSelector": {}, "namespaces": ["team-b"], "namespaceSelector": {"matchLabels": {"x": "y"}}}, True),
    ],
)
def test_a_pod_that_others_keep_away_is_said_not_to_be_sure(term: Any, repelled: bool) -> None:
    """Their own anti-affinity may: in which domain they are is not looked at."""
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    meta: dict[str, Any] = {"name": "p", "namespace": "team-a", "labels": {"app": "web"}}
    wanted, other = replace(pod(), metadata=ObjectMeta(**meta)), pod(affinity=alone)
    there = replace(other, metadata=ObjectMeta(name="o", namespace="team-a"))
    ended = replace(there, status=replace(there.status, phase="Succeeded"))
    assert Demands.of(wanted, others=[there]).unseen == (("inter-pod affinity",) if repelled else ())
    assert Demands.of(wanted, others=[ended]).unseen == ()


def test_who_may_not_list_the_pods_there_still_hears_what_no_node_of_that_size_gives() -> None:
    verdict = node_verdict(Demands.of(pod(containers=[asks(cpu="9")])), node(), None)
    assert verdict.messages == ("Insufficient cpu",)
    assert verdict.detail == "cpu: needs 9, 8 free"
    assert node_verdict(Demands.of(pod()), node(), None).unseen == ("pods on the node",)


def test_a_node_without_the_resource_lacks_it_and_what_is_not_asked_for_is_not_looked_at() -> None:
    bare = node(room={"pods": "10"})
    assert said(pod(containers=[asks(**{CARDS: "1"})]), bare)[1] == (f"Insufficient {CARDS}",)
    assert said(pod(containers=[asks(cpu="0", **{CARDS: "0"})]), bare)[0] == "Fits"
    assert said(pod(containers=[asks()]), node(room={}))[1] == ("Too many pods",)


def test_more_is_taken_than_there_is() -> None:
    full = [pod(containers=[asks(cpu="9")])]
    assert said(pod(containers=[asks(memory="1Gi")]), node(), *full)[0] == "Fits"
    assert said(pod(containers=[asks(cpu="1m")]), node(), *full)[1] == ("Insufficient cpu",)


def test_a_node_that_lacks_several_things_names_each_and_another_one_its_first_reason() -> None:
    demands = Demands.of(pod(containers=[asks(cpu="9", memory="33Gi")]))
    verdicts = [node_verdict(demands, one, NodeUse()) for one in (node(), node(unschedulable=True))]
    assert [verdict.messages for verdict in verdicts] == [
        ("Insufficient cpu", "Insufficient memory"),
        ("node(s) were unschedulable",),
    ]


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("1", NANO),
        ("1500m", 1_500_000_000),
        ("0.1n", 1),
        ("1e3", 1000 * NANO),
        ("1Ei", 2**60 * NANO),
        ("16Ei", (2**63 - 1) * NANO),
        ("10E", 10**19 * NANO),
        ("1e300000", 10**20 * NANO),
        ("1e-300000", 1),
        (3, 3 * NANO),
    ],
)
def test_quantities_are_exact(quantity: Any, expected: int) -> None:
    assert nanos(quantity) == expected


@given(st.text(max_size=70))
def test_any_text_is_a_quantity_or_a_sentence(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(nanos(text), int)


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 900 * 2**30, "900Gi"),
        ("memory", 2**30 + 1, "1.00Gi"),
        ("memory", 5, "5"),
        (CARDS, 4, "4"),
    ],
)
def test_amounts_for_people(resource: str, units: int, text: str) -> None:
    assert spelled(resource, units) == text
