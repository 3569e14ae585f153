"""What our processes may change beside a status: of cards, pools and nodes, each its own thing and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.api import names
from tests.templates import harness
from tests.templates.harness import GROUP

pytestmark = pytest.mark.cluster
INVENTORY, BOOTSTRAP, POOL = names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER
DRIVER = names.DRIVER_CONTROLLER
CARD, GPUPOOL, NODE = f"{GROUP}/gpudevices/marks", f"{GROUP}/gpupools/marks", "/api/v1/nodes/node-marks"
GPUDRIVER = f"{GROUP}/gpudrivers/marks"
VARIANT = "3f2a91c07b-ubuntu24.04-any"
TAINT = {"key": names.DRIVER_TAINT, "effect": "NoSchedule"}
ENDS_PODS = {**TAINT, "effect": "NoExecute"}
NOTED = json.dumps([{"key": "example.com/ours", "value": "", "effect": "NoSchedule", "pool": "a"}])
STARTUP = {"key": names.STARTUP_TAINT, "effect": "NoSchedule"}
READY = {"type": names.NODE_READY, "status": "True", "reason": "Ready"}
HANDED_OVER = {"type": names.NODE_HANDED_OVER, "status": "True", "reason": "HandedOver"}
KUBELETS = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
ADDRESS = {"type": "InternalIP", "address": "192.0.2.1"}
THEIR_CONDITION = {**KUBELETS, "status": "False"}
OURS, THEIRS = ({"key": f"example.com/{whose}", "effect": "NoSchedule"} for whose in ("ours", "theirs"))


@pytest.fixture(scope="module")
def users(kube: harness.Kube) -> dict[str, harness.Kube]:
    return {name: kube.account(name) for name in (INVENTORY, BOOTSTRAP, POOL, DRIVER)}


@pytest.fixture(scope="module", autouse=True)
def objects(kube: harness.Kube) -> None:
    """A card, a pool and a node with marks of everybody's."""
    annotations = {names.RETURN: "true", names.ASSIGNMENT: "a", names.RESUME: "true", "theirs": "x"}
    labels = {"theirs": "x", names.LABEL_VENDOR: "nvidia"}
    for plural, kind in (("gpudevices", "GPUDevice"), ("gpupools", "GPUPool"), ("gpudrivers", "GPUDriver")):
        meta = {"name": "marks", "annotations": annotations, "labels": labels, "finalizers": ["example.com/theirs"]}
        body = {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": kind, "metadata": meta}
        specs = {"GPUPool": {"spec": {}}, "GPUDriver": {"spec": {"version": "580.178.04"}}}
        answer = kube.create(f"{GROUP}/{plural}", body | specs.get(kind, {}))
        assert answer.code == 201, answer.message
    meta = {
        "name": "node-marks",
        "labels": {
            **labels,
            names.deploy_label("gfd"): "true",
            names.pool_node_label("a"): "true",
            names.DRIVER_VARIANT: VARIANT,
        },
        "annotations": {names.POOL_TAINTS: NOTED, names.DRIVER_RETRY: "true", "theirs": "x"},
    }
    assert kube.create("/api/v1/nodes", {"metadata": meta}).code == 201
    # The API server taints a new node, and no controller is here to take that off.
    assert kube.merge(NODE, {"spec": {"taints": [OURS, THEIRS, STARTUP]}}).code == 200
    assert kube.merge(f"{NODE}/status", {"status": {"conditions": [KUBELETS]}}).code == 200


MAY: list[tuple[str, str, dict[str, Any]]] = [
    (INVENTORY, CARD, {"metadata": {"labels": {names.LABEL_VENDOR: "amd", names.LABEL_FAMILY: "x"}}}),
    (BOOTSTRAP, CARD, {"metadata": {"annotations": {names.RETURN: None}}}),
    (POOL, CARD, {"metadata": {"annotations": {names.ASSIGNMENT: "b"}}}),
    (POOL, CARD, {"metadata": {"annotations": {names.ASSIGNMENT: None}}}),
    (POOL, GPUPOOL, {"metadata": {"annotations": {names.RESUME: None}}}),
    (POOL, GPUPOOL, {"metadata": {"finalizers": ["example.com/theirs", names.FINALIZER_POOL]}}),
    (BOOTSTRAP, NODE, {"metadata": {"labels": {names.deploy_label("gfd"): None, names.deploy_label("dcgm"): "true"}}}),
    (BOOTSTRAP, f"{NODE}/status", {"status": {"conditions": [KUBELETS, READY]}}),
    (BOOTSTRAP, f"{NODE}/status", {"status": {"conditions": [KUBELETS, READY, HANDED_OVER]}}),
    (BOOTSTRAP, f"{NODE}/status", {"status": {"conditions": [KUBELETS]}}),
    (POOL, NODE, {"metadata": {"labels": {names.pool_node_label("a"): None, names.pool_node_label("b"): "true"}}}),
    (POOL, NODE, {"metadata": {"annotations": {names.POOL_TAINTS: None}}, "spec": {"taints": [THEIRS, STARTUP]}}),
    (POOL, NODE, {"spec": {"taints": [OURS, THEIRS]}}),
    (DRIVER, NODE, {"metadata": {"labels": {names.DRIVER_VARIANT: "another"}}}),
    (DRIVER, NODE, {"metadata": {"labels": {names.DRIVER_VARIANT: None}}}),
    (DRIVER, NODE, {"metadata": {"annotations": {names.DRIVER_RETRY: None}}}),
    (DRIVER, NODE, {"spec": {"taints": [OURS, THEIRS, STARTUP, TAINT]}}),
    (DRIVER, NODE, {"metadata": {"annotations": {names.DRIVER_TAINTED: "main"}}}),
    (DRIVER, GPUDRIVER, {"metadata": {"finalizers": ["example.com/theirs", names.FINALIZER_DRIVER]}}),
    (DRIVER, GPUDRIVER, {"metadata": {"annotations": {names.RESUME: None}}}),
]
MAY_NOT: list[tuple[str, str, dict[str, Any], str]] = [
    (INVENTORY, CARD, {"metadata": {"labels": {names.LABEL_IGNORE: "true"}}}, f"label {names.LABEL_IGNORE}"),
    (INVENTORY, CARD, {"metadata": {"labels": {"theirs": None}}}, "label theirs"),
    (INVENTORY, CARD, {"metadata": {"annotations": {names.ASSIGNMENT: None}}}, f"annotation {names.ASSIGNMENT}"),
    (INVENTORY, CARD, {"metadata": {"finalizers": []}}, "the finalizers"),
    (BOOTSTRAP, CARD, {"metadata": {"annotations": {names.RETURN: "again"}}}, f"annotation {names.RETURN}"),
    (BOOTSTRAP, CARD, {"metadata": {"annotations": {names.ASSIGNMENT: "b"}}}, f"annotation {names.ASSIGNMENT}"),
    (BOOTSTRAP, CARD, {"metadata": {"labels": {"theirs": "y"}}}, "label theirs"),
    (POOL, CARD, {"metadata": {"annotations": {names.RETURN: None}}}, f"annotation {names.RETURN}"),
    (POOL, CARD, {"metadata": {"annotations": {"theirs": "y"}}}, "annotation theirs"),
    (POOL, CARD, {"metadata": {"labels": {names.LABEL_VENDOR: None}}}, f"label {names.LABEL_VENDOR}"),
    (POOL, CARD, {"metadata": {"finalizers": [names.FINALIZER_POOL]}}, "the finalizers"),
    (POOL, GPUPOOL, {"spec": {"allocation": {"mode": "TimeSlice"}}}, "the spec"),
    (POOL, GPUPOOL, {"metadata": {"annotations": {names.RESUME: "again"}}}, "an annotation"),
    (POOL, GPUPOOL, {"metadata": {"annotations": {"theirs": None}}}, "an annotation"),
    (POOL, GPUPOOL, {"metadata": {"labels": {"theirs": None}}}, "a label"),
    (POOL, GPUPOOL, {"metadata": {"finalizers": [names.FINALIZER_POOL]}}, "a finalizer of others"),
    (BOOTSTRAP, NODE, {"metadata": {"labels": {names.pool_node_label("a"): None}}}, "label gpu.deckhouse.io/pool.a"),
    (BOOTSTRAP, NODE, {"metadata": {"labels": {names.LABEL_ENABLED: "false"}}}, f"label {names.LABEL_ENABLED}"),
    (BOOTSTRAP, NODE, {"metadata": {"annotations": {names.POOL_TAINTS: None}}}, f"annotation {names.POOL_TAINTS}"),
    (BOOTSTRAP, NODE, {"spec": {"taints": [THEIRS]}}, "taint example.com/ours"),
    (BOOTSTRAP, f"{NODE}/status", {"status": {"conditions": [READY, THEIR_CONDITION]}}, "a condition of others"),
    (BOOTSTRAP, f"{NODE}/status", {"status": {"conditions": [READY]}}, "a condition of others"),
    (BOOTSTRAP, f"{NODE}/status", {"status": {"addresses": [ADDRESS]}}, "status.addresses"),
    (BOOTSTRAP, f"{NODE}/status", {"metadata": {"labels": {"theirs": None}}}, "label theirs"),
    (BOOTSTRAP, NODE, {"spec": {"taints": [OURS, THEIRS]}}, f"taint {names.STARTUP_TAINT}"),
    (BOOTSTRAP, NODE, {"spec": {"unschedulable": True}}, "the cordon"),
    (POOL, NODE, {"metadata": {"labels": {names.deploy_label("gfd"): None}}}, "label gpu.deckhouse.io/deploy.gfd"),
    (POOL, NODE, {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, "label node-role"),
    (POOL, NODE, {"metadata": {"annotations": {"theirs": None}}}, "annotation theirs"),
    (POOL, NODE, {"spec": {"taints": [OURS]}}, "taint example.com/theirs"),
    (POOL, NODE, {"spec": {"taints": [OURS, THEIRS, {**OURS, "key": "example.com/new"}]}}, "taint example.com/new"),
    (POOL, NODE, {"spec": {"unschedulable": True}}, "the cordon"),
    (POOL, NODE, {"metadata": {"labels": {names.DRIVER_VARIANT: None}}}, f"label {names.DRIVER_VARIANT}"),
    (BOOTSTRAP, NODE, {"metadata": {"annotations": {names.DRIVER_RETRY: None}}}, f"annotation {names.DRIVER_RETRY}"),
    (POOL, NODE, {"spec": {"taints": [OURS, THEIRS, STARTUP, TAINT]}}, f"taint {names.DRIVER_TAINT}"),
    (POOL, NODE, {"metadata": {"annotations": {names.DRIVER_TAINTED: "main"}}}, f"annotation {names.DRIVER_TAINTED}"),
    (DRIVER, NODE, {"metadata": {"annotations": {names.DRIVER_RETRY: "x"}}}, f"annotation {names.DRIVER_RETRY}"),
    (DRIVER, NODE, {"metadata": {"labels": {names.pool_node_label("a"): None}}}, "label gpu.deckhouse.io/pool.a"),
    (DRIVER, NODE, {"metadata": {"labels": {names.DRIVER_OPT_OUT: "true"}}}, f"label {names.DRIVER_OPT_OUT}"),
    (DRIVER, NODE, {"spec": {"taints": [THEIRS, STARTUP]}}, "taint example.com/ours"),
    (DRIVER, NODE, {"spec": {"taints": [OURS, THEIRS, STARTUP, ENDS_PODS]}}, f"taint {names.DRIVER_TAINT}"),
    (DRIVER, NODE, {"spec": {"unschedulable": True}}, "the cordon"),
    (DRIVER, GPUDRIVER, {"spec": {"version": "610.57.04"}}, "the spec"),
    (DRIVER, GPUDRIVER, {"metadata": {"annotations": {"theirs": None}}}, "an annotation"),
    (DRIVER, GPUDRIVER, {"metadata": {"finalizers": [names.FINALIZER_DRIVER]}}, "a finalizer of others"),
]  # fmt: skip


@pytest.mark.parametrize(("who", "path", "change"), MAY)
def test_a_process_changes_what_is_its_own(
    users: dict[str, harness.Kube], who: str, path: str, change: dict[str, Any]
) -> None:
    answer = users[who].merge(f"{path}?dryRun=All", change)
    assert answer.code == 200, answer.message


@pytest.mark.parametrize(("who", "path", "change", "what"), MAY_NOT)
def test_a_process_changes_nothing_else(
    users: dict[str, harness.Kube], who: str, path: str, change: dict[str, Any], what: str
) -> None:
    answer = users[who].merge(f"{path}?dryRun=All", change)
    assert answer.code == 403, answer.message
    assert f"{who} may not change {what}" in answer.message


def test_a_taint_comes_with_its_note(users: dict[str, harness.Kube]) -> None:
    new = {"key": "example.com/new", "effect": "NoSchedule"}
    note = json.dumps([*json.loads(NOTED), {**new, "pool": "b", "value": ""}])
    change = {"metadata": {"annotations": {names.POOL_TAINTS: note}}, "spec": {"taints": [OURS, THEIRS, new]}}
    answer = users[POOL].merge(f"{NODE}?dryRun=All", change)
    assert answer.code == 200, answer.message


@pytest.mark.parametrize("path", [CARD, GPUPOOL, GPUDRIVER, NODE])
def test_people_may(kube: harness.Kube, path: str) -> None:
    """An assignment apart: the webhook judges it, and is dead here."""
    marks = {"annotations": {names.RETURN: None, names.RESUME: None, "new": "x"}, "labels": {"theirs": None}}
    answer = kube.merge(f"{path}?dryRun=All", {"metadata": marks})
    assert answer.code == 200, answer.message
