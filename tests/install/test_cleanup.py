"""The clean-up's planner: its laws, and what goes, stays and is told."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.api import names, resources
from controllers.install import cleanup, leftovers
from controllers.install.observed import CONTROLLERS
from controllers.runtime.plan import Delete, Merge
from tests.install.world import CHANGED, FOREIGN, MODULE_CONFIGS, NS, OTHER_GATE, OURS, QUEUED, VARIANT, Cluster

FOREIGN_KEYS = {
    ("Deployment", f"{NS}/somebody-elses"),
    ("ConfigMap", f"{NS}/kube-root-ca.crt"),
    ("RuntimeClass", "nvidia"),
    ("NodeFeature", f"{NS}/{names.agent_feature('away')}"),
    ("Pod", f"{NS}/plugin-away"),
    ("DaemonSet", f"{NS}/gpu-driver-{VARIANT}"),
    ("ConfigMap", f"{NS}/gpu-driver-{VARIANT}"),
    ("Pod", f"{NS}/driver-n1"),
    ("Node", "n1"),
    ("Node", "away"),
    ("Pod", "team/runs"),
    *(("Pod", f"team/{name}") for name in QUEUED),
}
RECORDS = {("GPUPool", "a"), ("GPUDriver", "main"), ("GPUDevice", "n1-card"), ("GPUNodeInventory", "n1")}
DEFINITIONS = {("CustomResourceDefinition", name) for name in OURS}
SETTINGS = {("ModuleConfig", names.MODULE), ("CustomResourceDefinition", MODULE_CONFIGS)}
LAYOUT = {("ConfigMap", f"{NS}/{names.mig_layout('n1')}")}


def whole(*, deckhouse: bool = False) -> Cluster:
    made = Cluster()
    made.whole(deckhouse=deckhouse)
    return made


def content(cluster: Cluster) -> dict[tuple[str, str], object]:
    """What is there, less versions."""
    found = copy.deepcopy(cluster.objects)
    for obj in found.values():
        del obj["metadata"]["resourceVersion"]
    return found


@pytest.mark.parametrize(
    ("keep_records", "deckhouse", "stays"),
    [
        (False, False, set()),
        (False, True, SETTINGS),
        (True, False, RECORDS | DEFINITIONS | SETTINGS | LAYOUT),
        (True, True, RECORDS | DEFINITIONS | SETTINGS | LAYOUT),
    ],
)
def test_what_is_ours_goes_and_what_is_not_stays(
    keep_records: bool, deckhouse: bool, stays: set[tuple[str, str]]
) -> None:
    cluster = whole(deckhouse=deckhouse)
    cluster.settle(keep_records=keep_records)

    assert cluster.keys() == FOREIGN_KEYS | stays
    for name in ("n1", "away"):
        node = cluster.objects["Node", name]
        assert node["metadata"]["labels"] == {"zone": "z"}
        assert [one["type"] for one in node["status"]["conditions"]] == ["Ready"]
        assert node["metadata"]["annotations"] == {"theirs": "1"}
        assert node["spec"]["taints"] == [CHANGED, FOREIGN]
    kept = {name: [gate["name"] for gate in gates] for name, gates in QUEUED.items()}
    others = {name: [gate for gate in gates if gate == OTHER_GATE["name"]] for name, gates in kept.items()}
    assert {name: cluster.gates(name) for name in QUEUED} == (kept if keep_records else others)
    if keep_records:
        assert "finalizers" not in cluster.objects["GPUPool", "a"]["metadata"]
        assert cluster.objects["GPUDevice", "n1-card"]["metadata"]["annotations"] == {names.ASSIGNMENT: "a"}


@given(
    stops=st.lists(st.integers(0, 6), max_size=12),
    acts=st.lists(st.booleans(), max_size=12),
    keep_records=st.booleans(),
    deckhouse=st.booleans(),
    missing=st.sets(st.integers(0, 60), max_size=25),
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_from_any_prefix_and_anything_missing_it_comes_to_the_same_end(
    stops: list[int], acts: list[bool], keep_records: bool, deckhouse: bool, missing: set[int]
) -> None:
    cluster = whole(deckhouse=deckhouse)
    for at, key in enumerate(sorted(cluster.objects)):
        if at in missing and key[0] != "Node":
            del cluster.objects[key]  # whoever was at it before, or an administrator, has removed it
    straight = copy.deepcopy(cluster)
    straight.settle(keep_records=keep_records)

    for stop, acted in zip(stops, acts, strict=False):
        made = cleanup.plan(cluster.seen(), keep_records=keep_records)
        cluster.execute(made.actions, names.MANAGER_CLEANUP, stop_after=stop)
        if acted:
            cluster.nature()
    cluster.settle(keep_records=keep_records)

    assert content(cluster) == content(straight)
    assert cleanup.plan(cluster.seen(), keep_records=keep_records).done


@given(stops=st.lists(st.integers(0, 9), max_size=12), keep_records=st.booleans())
@settings(max_examples=60, deadline=None)
def test_nothing_that_a_controller_makes_anew_goes_while_one_may_still_write(
    stops: list[int], keep_records: bool
) -> None:
    cluster, stopping = whole(), {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Deployment"}
    for stop in stops:
        made = cleanup.plan(cluster.seen(), keep_records=keep_records)
        for action in made.actions:
            assert isinstance(action, Delete)
            assert action.ref.resource.kind in stopping or action.ref.name == names.DISCOVER_DAEMONSET
        assert made.waiting_for
        cluster.execute(made.actions, names.MANAGER_CLEANUP, stop_after=stop)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_whoever_holds_a_lease_without_a_deployment_is_waited_for_and_named(name: str) -> None:
    cluster = whole()
    for _ in range(5):
        made = cleanup.plan(cluster.seen(), keep_records=False)
        cluster.execute(made.actions, names.MANAGER_CLEANUP)
        cluster.nature()
        cluster.leading.add(name)

    assert made.waiting_for == (f"{name} still holds its lease: somebody runs it outside its Deployment",)
    assert ("GPUPool", "a") in cluster.objects


def test_a_pod_that_has_no_node_yet_is_waited_for_and_one_on_a_node_that_is_away_is_not() -> None:
    cluster = whole()
    cluster.pod("late", None, app=names.POOL_CONTROLLER)
    for _ in range(3):
        cluster.execute(cleanup.plan(cluster.seen(), keep_records=False).actions, names.MANAGER_CLEANUP)
        cluster.leading.clear()
        for name in [
            key for kind, key in list(cluster.objects) if kind == "Pod" and "late" not in key and "away" not in key
        ]:
            cluster.drop(resources.POD, name)

    assert cleanup.plan(cluster.seen(), keep_records=False).waiting_for == ("pod late to end",)


@pytest.mark.parametrize(
    ("keep_records", "words"),
    [(False, "will not get any: delete them."), (True, "get them when the module is enabled again.")],
)
def test_pods_that_wait_for_cards_are_named(keep_records: bool, words: str) -> None:
    found = [line for line in whole().settle(keep_records=keep_records).left if "wait for cards" in line]
    assert found == [f"Pods team/goes-on, team/one, team/pending, team/two wait for cards, and {words}"]


def test_a_pod_that_comes_with_our_gate_meanwhile_loses_it_too_and_one_that_goes_is_left_alone() -> None:
    cluster = whole()
    leaving = cluster.objects["Pod", "team/one"]["metadata"]
    leaving |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["theirs/hold"]}
    cluster.settle(keep_records=False)
    cluster.objects["Pod", "team/pending"]["spec"]["schedulingGates"] = [{"name": names.CARDS_GATE}]
    made = cleanup.plan(cluster.seen(), keep_records=False)

    assert [action.ref.name for action in made.actions if isinstance(action, Merge)] == ["pending"]
    assert cluster.gates("one") == [names.CARDS_GATE]


def test_what_stays_is_told_with_its_reason() -> None:
    cluster = whole(deckhouse=True)
    early = leftovers.list_early_leftovers(cluster.seen())
    left = cluster.settle(keep_records=False).left

    assert [line for line in early if "n1-0000:17:00.0 stays in MIG mode" in line and "-mig 0" in line]
    assert [line for line in early if "Taint team=theirs:NoExecute of node n1 stays: somebody changed" in line]
    for part in ("RuntimeClass nvidia stays", "gpu-away stay: none of our agents", "plugin-away", "is not ours"):
        assert [line for line in left if part in line], part


def test_a_pool_that_others_hold_is_named() -> None:
    cluster = whole()
    cluster.objects["GPUPool", "a"]["metadata"]["finalizers"].append("theirs/hold")
    for _ in range(6):
        made = cleanup.plan(cluster.seen(), keep_records=False)
        kept = [action for action in made.actions if not (isinstance(action, Delete) and action.ref.name == "a")]
        if len(kept) < len(made.actions):
            cluster.objects["GPUPool", "a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cluster.execute(kept, names.MANAGER_CLEANUP)
        cluster.nature()

    assert made.waiting_for == ("GPUPool a is held by finalizers of others: theirs/hold",)


def test_modules_configs_of_others_keep_their_definition() -> None:
    cluster = whole()
    cluster.make(resources.MODULECONFIG, "other")
    made = cluster.settle(keep_records=False)

    assert {("ModuleConfig", names.MODULE), ("ModuleConfig", "other")} <= cluster.keys()
    assert [line for line in made.left if "others use it (other)" in line]
