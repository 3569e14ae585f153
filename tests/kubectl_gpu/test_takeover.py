"""How far nodes are from GPU Operator to the module: what is said of each, and what is saved for the way back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from controllers.api import foreign, names
from controllers.api.gpunodeinventory import Bootstrap, ManagedElsewhere
from controllers.explain import takeover
from controllers.explain.faults import UsageError
from controllers.explain.takeover import NodeState, OperatorState, state_of
from kubectl_gpu import takeover_toolkits
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
    assert all("resourceVersion" not in one["metadata"] for one in saved)
    assert takeover.has_all(saved, THEIRS)


@pytest.mark.parametrize("policy", [
    {**POLICY, "metadata": {"name": "another", "uid": "7"}},
    {**POLICY, "metadata": {"name": "p", "uid": "of another cluster"}},
    {**POLICY, "spec": {"a": 2}},
])  # fmt: skip
def test_a_file_that_has_not_these_objects_as_they_are_is_no_backup_of_them(policy: dict[str, Any]) -> None:
    saved = takeover.saved(THEIRS)["items"]
    assert not takeover.has_all(saved, replace(THEIRS, policies=(policy,)))


def test_a_replica_count_of_our_own_making_is_never_saved() -> None:
    saved = takeover.saved(replace(THEIRS, deployments=(operator(2),)))["items"]
    stopped = operator(0)
    stopped["metadata"]["annotations"] = {names.TAKEOVER_REPLICAS: "2"}
    there = replace(THEIRS, deployments=(stopped,))

    assert takeover.has_all(saved, there), "the step was cut off, and goes on with its file"
    assert takeover.saved(there)["items"] == saved, "nor does another file get it"
    stopped["spec"]["replicas"] = 3
    assert takeover.replicas_of(stopped) == 3, "a person started it again meanwhile"


def test_nodes_that_a_person_keeps_from_the_operator_are_not_in_the_way_back() -> None:
    nodes = [objects.node(name) for name in ("n1", "n2")]
    labelled = replace(nodes[0], metadata=replace(nodes[0].metadata, labels={f"{foreign.DEPLOY}operands": "false"}))
    assert takeover.keeping([labelled, nodes[1]]) == {"n1"}


class Fleet:
    """Nodes of which the operator's toolkits go, and whose runtimes come back after a while."""

    def __init__(self, *, comes_back: bool = True) -> None:
        self.gone: list[str] = []
        self.looks: list[int] = []
        self.now, self.comes_back = 0.0, comes_back

    async def unsettled(self, toolkits: dict[str, list[str]]) -> list[str]:
        self.looks.append(len(self.gone))
        return [] if self.comes_back and self.looks.count(len(self.gone)) > 3 else sorted(toolkits)

    async def remove(self, _: Any, pods: Sequence[dict[str, Any]]) -> None:
        self.gone += [one["spec"]["nodeName"] for one in pods]

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("comes_back", [True, False])
async def test_toolkits_go_from_a_few_nodes_at_a_time(monkeypatch: pytest.MonkeyPatch, *, comes_back: bool) -> None:
    fleet = Fleet(comes_back=comes_back)
    monkeypatch.setattr(takeover_toolkits, "remove", fleet.remove)
    monkeypatch.setattr(takeover_toolkits.asyncio, "sleep", fleet.sleep)
    monkeypatch.setattr(takeover_toolkits.time, "monotonic", lambda: fleet.now)
    nodes = [NodeState(f"n{at:02}", "Busy", "", (named(at),)) for at in range(12)]

    going = takeover_toolkits.remove_toolkits(cast("Any", None), cast("Any", fleet), nodes)
    if comes_back:
        await going
        assert set(fleet.looks) == {5, 10}, "the next ones wait for those before, and nobody for the last"
        assert len(fleet.gone) == 12
        assert fleet.now >= 2 * takeover_toolkits.QUIET
    else:
        with pytest.raises(UsageError, match=r"n00, n01.* are not Ready .*that of 7 other nodes stays"):
            await going
        assert len(fleet.gone) == takeover_toolkits.AT_ONCE


def named(at: int) -> dict[str, Any]:
    made = pod(TOOLKIT, node=f"n{at:02}")
    made["metadata"]["uid"] = str(at)
    return made


def test_finish_takes_the_operators_labels_and_no_others() -> None:
    labels = {
        f"{foreign.DEPLOY}operands": "false",
        f"{foreign.DEPLOY}driver": "true",
        foreign.UPGRADE_STATE: "upgrade-done",
        "nvidia.com/gpu.count": "8",
    }
    assert takeover.marks_of(labels) == {f"{foreign.DEPLOY}driver": None, foreign.UPGRADE_STATE: None}


def test_the_summary_counts_nodes_and_adopted_drivers() -> None:
    driver = pod("nvidia-driver-daemonset")
    driver["metadata"]["labels"][names.DRIVER_ADOPTED] = "true"
    there = replace(STOPPED, pods=(driver, pod("nvidia-driver-daemonset", node="n2")))
    (told,) = takeover.summary(there, [said(there)])
    assert told == "GPU Operator stopped; drivers adopted: 1 of 2; nodes: 1 Ours."


def test_the_operators_namespaces_are_those_of_its_privileges_and_of_its_policy() -> None:
    """Any user may label a pod, a DaemonSet or a Deployment as the operator's."""
    privileged = [{"securityContext": {"privileged": True}}]
    its_own, tenants = pod(PLUGIN), pod(PLUGIN)
    its_own["spec"]["containers"] = privileged
    tenants["metadata"]["namespace"] = "team"
    metrics = pod("nvidia-dcgm")
    metrics["metadata"]["namespace"] = "other"
    metrics["spec"]["containers"] = privileged
    policy = {**POLICY, "status": {"namespace": "policies"}}
    found = takeover.namespaces([its_own, tenants, metrics], [policy, POLICY])
    assert found == {"gpu-operator", "policies"}
    assert takeover.within(found, [its_own, tenants]) == [its_own]
