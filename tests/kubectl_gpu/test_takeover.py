"""How far nodes are from GPU Operator to the module: what is said of each, and what is saved for the way back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import foreign, names
from controllers.api.gpunodeinventory import Bootstrap, ManagedElsewhere
from controllers.explain import takeover
from controllers.explain.takeover import OperatorState, state_of
from tests.kit import objects
from tests.kit.objects import condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.gpudevice import GPUDevice

PLUGIN, TOOLKIT = "nvidia-device-plugin-daemonset", "nvidia-container-toolkit-daemonset"
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "p", "uid": "7"},
    "spec": {"a": 1},
}
KEPT = [{"kind": "DaemonSet", "name": "x", "uid": "1"}]


def pod(app: str, *, node: str = "n1", owners: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    labels = {"app": app} | ({foreign.COMPONENT: foreign.DRIVER} if "driver" in app else {})
    meta = {"name": f"{app}-x", "namespace": "gpu-operator", "labels": labels, "ownerReferences": list(owners)}
    return {"metadata": meta, "spec": {"nodeName": node}}


def operator(replicas: int) -> dict[str, Any]:
    meta = {"name": "gpu-operator", "namespace": "gpu-operator", "uid": "8", "resourceVersion": "1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"replicas": replicas, "template": {}},
    }


def said(
    there: OperatorState,
    *,
    ready: bool = True,
    toolkit: bool = True,
    cards: Sequence[GPUDevice] = (),
    users: Sequence[str] = (),
    elsewhere: ManagedElsewhere | None = None,
) -> takeover.NodeState:
    inventory = objects.inventory(
        "n1",
        conditions=[condition("ReadyForPooling", ready)],
        bootstrap=Bootstrap(toolkit_ready=toolkit),
        managed_elsewhere=elsewhere,
    )
    return state_of(there, inventory, cards, users)


THEIRS = OperatorState((operator(1),), (POLICY,), (), (pod(PLUGIN, owners=KEPT), pod(TOOLKIT, owners=KEPT)))
STOPPED = OperatorState((operator(0),), (), (), (pod(PLUGIN), pod(TOOLKIT), pod("nvidia-driver-daemonset")))
POOLED, FREE = objects.card("n1", 0, pool="a"), objects.card("n1", 1)


@pytest.mark.parametrize(("there", "more", "word", "left"), [
    (THEIRS, {}, "Theirs", "takeover begin"),
    (replace(STOPPED, deployments=(operator(1),)), {}, "Theirs", "takeover begin"),
    (replace(STOPPED, pods=(pod(PLUGIN, owners=KEPT),)), {}, "Theirs", "takeover begin"),
    (STOPPED, {"ready": False}, "Waiting", "not ReadyForPooling"),
    (STOPPED, {"cards": (POOLED, FREE)}, "Waiting", "1 card in no pool"),
    (STOPPED, {"toolkit": False, "cards": (POOLED,)}, "Waiting", "toolkit is not ready"),
    (STOPPED, {"cards": (POOLED,), "users": ("team/train",)}, "Busy", "team/train have cards"),
    (STOPPED, {"cards": (POOLED,)}, "Ready", "takeover nodes"),
    (replace(STOPPED, pods=(pod("nvidia-driver-daemonset"), pod(PLUGIN, node="n2"))), {}, "Ours", ""),
    (OperatorState(), {"elsewhere": ManagedElsewhere(driver="x/y")}, "Ours", ""),
])  # fmt: skip
def test_what_is_said_of_a_node(there: OperatorState, more: dict[str, Any], word: str, left: str) -> None:
    found = said(there, **more)
    assert found.word == word
    assert left in found.left


def test_a_plugin_goes_only_from_a_node_that_is_ready_and_a_driver_never() -> None:
    ready, busy = said(STOPPED, cards=(POOLED,)), said(STOPPED, cards=(POOLED,), users=("team/train",))
    assert [one["metadata"]["labels"]["app"] for one in (*ready.others, *ready.toolkit)] == [PLUGIN, TOOLKIT]
    assert (busy.others, [one["metadata"]["labels"]["app"] for one in busy.toolkit]) == ((), [TOOLKIT])
    assert said(STOPPED, toolkit=False, cards=(POOLED,)).toolkit == ()


@pytest.mark.parametrize(("node", "objection"), [
    ({}, ""),
    ({"labels": {foreign.UPGRADE_STATE: "upgrade-done"}}, ""),
    ({"labels": {foreign.UPGRADE_STATE: "pod-restart-required"}}, "is upgrading its driver (pod-restart-required)"),
    ({"annotations": {foreign.WAITS_TO_LOAD: "true"}}, "a driver waits there"),
])  # fmt: skip
def test_the_operator_is_not_stopped_amid_an_upgrade(node: dict[str, Any], objection: str) -> None:
    made = objects.node("n1")
    meta = replace(made.metadata, labels=node.get("labels", {}), annotations=node.get("annotations", {}))
    found = takeover.objections([replace(made, metadata=meta)])
    assert bool(found) == bool(objection)
    assert objection in "".join(found)


@pytest.mark.parametrize(("resources", "phase", "asks"), [
    ({"limits": {"nvidia.com/gpu": "1"}}, "Running", True),
    ({"requests": {"nvidia.com/mig-1g.10gb": "1"}}, "Pending", True),
    ({"limits": {"nvidia.com/gpu": "1"}}, "Succeeded", False),
    ({"limits": {"gpu.deckhouse.io/a": "1"}}, "Running", False),
    (None, "Running", False),
])  # fmt: skip
def test_who_has_a_card_by_the_operators_plugin(resources: Any, phase: str, asks: bool) -> None:
    raw = {"spec": {"containers": [{"resources": resources}]}, "status": {"phase": phase}}
    assert takeover.asks_for_theirs(raw) is asks
    raw["spec"] = {"containers": [{}], "initContainers": [{"resources": resources}]}
    assert takeover.asks_for_theirs(raw) is asks


def test_what_is_saved_is_what_the_way_back_needs_and_no_more() -> None:
    saved = takeover.saved(THEIRS)["items"]
    assert [(one["kind"], one["spec"]) for one in saved] == [
        ("Deployment", {"replicas": 1}),
        ("ClusterPolicy", {"a": 1}),
    ]
    assert all("uid" not in one["metadata"] and "resourceVersion" not in one["metadata"] for one in saved)
    assert takeover.has_all(saved, THEIRS)
    other = {**POLICY, "metadata": {"name": "another"}}
    assert not takeover.has_all(saved, replace(THEIRS, policies=(other,)))


def test_finish_takes_the_operators_labels_and_no_others() -> None:
    labels = {f"{foreign.DEPLOY}driver": "true", foreign.UPGRADE_STATE: "upgrade-done", "nvidia.com/gpu.count": "8"}
    assert takeover.marks_of(labels) == {f"{foreign.DEPLOY}driver": None, foreign.UPGRADE_STATE: None}


def test_the_summary_counts_nodes_and_adopted_drivers() -> None:
    driver = pod("nvidia-driver-daemonset")
    driver["metadata"]["labels"][names.DRIVER_ADOPTED] = "true"
    there = replace(STOPPED, pods=(driver, pod("nvidia-driver-daemonset", node="n2")))
    (told,) = takeover.summary(there, [said(there)])
    assert told == "GPU Operator stopped; drivers adopted: 1 of 2; nodes: 1 Ours."
