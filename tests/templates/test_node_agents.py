"""A node agent writes about its own node, and nobody else writes in its name."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api.resources import NODEFEATURE
from tests.kit import reports
from tests.kit.manifests import manifest
from tests.kit.versions import minor
from tests.templates import harness
from tests.templates.harness import FEATURES, GROUP

pytestmark = pytest.mark.cluster
DISCOVER, VALIDATE = "gpu-nodeagent-discover", "gpu-nodeagent-validate"
PLUGIN, MIG = "gpu-nodeagent-device-plugin", "gpu-nodeagent-mig"
NODE_LABEL = "nfd.node.kubernetes.io/node-name"
DRY = "dryRun=All"


def feature(name: str, node: str | None) -> dict[str, Any]:
    return manifest(reports.feature(name, node, reports.features({})), NODEFEATURE)


@pytest.mark.parametrize(
    ("bound", "name", "label", "code", "says"),
    [
        ("node-a", "gpu-node-a", "node-a", 201, ""),
        ("node-a", "gpu-node-b", "node-b", 403, "writes only NodeFeature gpu-node-a, not gpu-node-b"),
        ("node-a", "gpu-node-a", "node-b", 403, "must carry the label"),
        ("node-a", "gpu-node-a", None, 403, "must carry the label"),
        ("node-a", "node-a", "node-a", 403, "writes only NodeFeature gpu-node-a"),
        (None, "gpu-node-a", "node-a", 403, "must name its node"),
    ],
)
def test_discover_reports_its_own_node(
    kube: harness.Kube, *, bound: str | None, name: str, label: str | None, code: int, says: str
) -> None:
    agent = kube.account(DISCOVER, bound)
    for answer in (
        agent.create(f"{FEATURES}?{DRY}", feature(name, label)),
        agent.apply(f"{FEATURES}/{name}", feature(name, label), DISCOVER) if code == 403 else None,
    ):
        if answer is not None:
            assert answer.code == code, answer.message
            assert says in answer.message


def test_reports_are_changed_by_their_node_only(kube: harness.Kube) -> None:
    a, b = kube.account(DISCOVER, "node-a"), kube.account(DISCOVER, "node-b")
    answer = a.apply(f"{FEATURES}/gpu-node-a", feature("gpu-node-a", "node-a"), DISCOVER)
    assert answer.code == 201, answer.message
    path = f"{FEATURES}/gpu-node-a"
    try:
        change = {"spec": {"features": {"attributes": {"gpu.agent": {"elements": {"boot_id": "1"}}}}}}
        assert a.merge(path, change).code == 200
        assert b.merge(path, change).code == 403
        assert kube.account(VALIDATE, "node-a").merge(path, change).code == 200
        answer = kube.account(VALIDATE, "node-b").merge(path, {"spec": {}, "metadata": {"labels": {"x": "y"}}})
        assert answer.code == 403
        assert "writes only NodeFeature gpu-node-b" in answer.message
        # nfd-master would give the node whatever stands in spec.labels.
        answer = a.merge(path, {"spec": {"labels": {"node-role.example.com/own": "true"}}})
        assert answer.code == 403
        assert "gives its node no labels" in answer.message
        assert a.merge(path, {"spec": {"labels": {}}}).code == 200
        # Not by relabelling either.
        assert a.merge(path, {"metadata": {"labels": {NODE_LABEL: "node-b"}}}).code == 403
        assert a.merge(path, {"metadata": {"labels": {NODE_LABEL: None}}}).code == 403
    finally:
        kube.delete(path)


def attributes(**features: dict[str, str]) -> dict[str, Any]:
    made = {name.replace("_", "."): elements for name, elements in features.items()}
    return {"spec": {"features": reports.features(made)}}


def of_cards(name: str, *addresses: str) -> dict[str, Any]:
    """An instance feature about cards, each with as much as can be told of one."""
    profiles = ",".join(f"{n}g.{n}0gb" for n in range(1, 8))
    told = {"mig_profiles": profiles, "product": "x" * 64, "uuid": "GPU-" + "0" * 36}
    elements = [{"address": address, **told} for address in addresses]
    return {"spec": {"features": {"instances": reports.features({}, {name: elements})["instances"]}}}


def test_each_role_changes_its_own_part_of_a_report(kube: harness.Kube) -> None:
    discover, validate = kube.account(DISCOVER, "node-a"), kube.account(VALIDATE, "node-a")
    path = f"{FEATURES}/gpu-node-a"
    answer = discover.apply(path, feature("gpu-node-a", "node-a"), DISCOVER)
    assert answer.code == 201, answer.message
    try:
        assert discover.merge(path, attributes(gpu_driver={"version": "1"}, gpu_agent={"boot_id": "1"})).code == 200
        assert validate.merge(path, attributes(gpu_validation={"driver": "ok"})).code == 200
        assert validate.merge(path, of_cards("gpu.nvml", "0000:17:00.0")).code == 200
        assert discover.merge(path, attributes(gpu_driver={"version": "2"})).code == 200
        assert discover.merge(path, of_cards("gpu.device", "0000:17:00.0")).code == 200
        for change in (
            attributes(gpu_driver={"version": "3"}),
            attributes(gpu_toolkit={"installed": "true"}),
            {"spec": {"features": {"attributes": {"gpu.agent": None}}}},
            of_cards("gpu.device"),
            of_cards("gpu.other", "0000:17:00.0"),
            {"spec": {"features": {"instances": {"gpu.device": None}}}},
            {"spec": {"features": {"flags": {"x": {}}}}},
        ):
            answer = validate.merge(path, change)
            assert answer.code == 403, change
            assert "changes gpu.validation and gpu.nvml of a report, and nothing else" in answer.message
        for change in (
            attributes(gpu_validation={"driver": "failed"}),
            of_cards("gpu.nvml", "0000:18:00.0"),
            {"spec": {"features": {"instances": {"gpu.nvml": None}}}},
        ):
            answer = discover.merge(path, change)
            assert answer.code == 403, change
            assert "belong to gpu-nodeagent-validate" in answer.message
        assert validate.merge(path, of_cards("gpu.nvml", *(f"0000:{bus:02x}:00.0" for bus in range(64)))).code == 200
        assert discover.merge(path, attributes(gpu_driver={"version": "3"})).code == 200
        assert validate.merge(path, {"spec": {"features": {"attributes": {"gpu.validation": None}}}}).code == 200
        assert validate.merge(path, {"spec": {"features": {"instances": {"gpu.nvml": None}}}}).code == 200
    finally:
        kube.delete(path)


@pytest.mark.parametrize(
    ("form", "feature_name"),
    [("attributes", "cpu.security"), ("attributes", "system.osrelease"), ("instances", "pci.device"), ("flags", "x")],
)
def test_an_agent_tells_nfds_rules_of_nothing_but_cards(kube: harness.Kube, form: str, feature_name: str) -> None:
    """Rules of others make labels of these; what others wrote there stays, and keeps the agent from nothing."""
    discover, path = kube.account(DISCOVER, "node-a"), f"{FEATURES}/gpu-node-a"
    told = {"spec": {"features": {form: {feature_name: {"elements": [] if form == "instances" else {}}}}}}
    body = feature("gpu-node-a", "node-a")
    body["spec"]["features"].setdefault(form, {}).update(told["spec"]["features"][form])
    answer = discover.create(f"{FEATURES}?{DRY}", body)
    assert answer.code == 403, answer.message
    assert "adds features gpu.* alone" in answer.message
    assert discover.apply(path, feature("gpu-node-a", "node-a"), DISCOVER).code == 201
    try:
        answer = discover.merge(path, told)
        assert (answer.code, "adds features gpu.* alone" in answer.message) == (403, True), answer.message
        assert kube.merge(path, told).code == 200
        assert discover.merge(path, attributes(gpu_driver={"version": "1"})).code == 200
    finally:
        kube.delete(path)


@pytest.mark.parametrize(
    "mark",
    [
        {"finalizers": ["example.com/for-ever"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "u"}]},
    ],
    ids=lambda mark: next(iter(mark)),
)
def test_an_agents_report_can_be_deleted(kube: harness.Kube, mark: dict[str, Any]) -> None:
    discover, path = kube.account(DISCOVER, "node-a"), f"{FEATURES}/gpu-node-a"
    body = feature("gpu-node-a", "node-a")
    marked = {**body, "metadata": {**body["metadata"], **mark}}
    assert "no finalizers and no owners" in discover.create(f"{FEATURES}?{DRY}", marked).message
    assert discover.apply(path, body, DISCOVER).code == 201
    try:
        answer = discover.merge(path, {"metadata": mark})
        assert (answer.code, "no finalizers and no owners" in answer.message) == (403, True), answer.message
        assert kube.merge(path, {"metadata": mark}).code == 200
        assert discover.merge(path, attributes(gpu_driver={"version": "1"})).code == 200
    finally:
        kube.merge(path, {"metadata": {"finalizers": None}})
        kube.delete(path)


def test_validate_adds_to_a_report_and_makes_none(kube: harness.Kube) -> None:
    agent = kube.account(VALIDATE, "node-b")
    answer = agent.apply(f"{FEATURES}/gpu-node-b", feature("gpu-node-b", "node-b"), VALIDATE)
    assert answer.code == 403
    assert "cannot create" in answer.message or minor() < 32, answer.message  # 1.31 does not say why


@pytest.mark.parametrize(
    ("agent", "status"),
    [
        (PLUGIN, {"published": {"pool": "a", "configVersion": "1", "slots": 1}}),
        (MIG, {"migApply": {"version": "1", "phase": "Done"}}),
    ],
)
def test_agents_write_about_cards_of_their_node(kube: harness.Kube, agent: str, status: dict[str, Any]) -> None:
    own, none = kube.account(agent, "node-a"), kube.account(agent)
    patch = {"status": status}
    assert own.merge(f"{GROUP}/gpudevices/card-a/status?{DRY}", patch).code == 200
    answer = own.merge(f"{GROUP}/gpudevices/card-b/status?{DRY}", patch)
    assert answer.code == 403
    assert "the node agent of node-a may not write about card-b, a card of node-b" in answer.message
    answer = none.merge(f"{GROUP}/gpudevices/card-a/status?{DRY}", patch)
    assert answer.code == 403
    assert "must name its node" in answer.message


def test_no_other_program_writes_reports_of_ours(kube: harness.Kube) -> None:
    rule = {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeatures"], "verbs": ["create", "patch", "get"]}
    role = {"metadata": {"name": "stranger"}, "rules": [rule]}
    binding = {
        "metadata": {"name": "stranger"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "stranger"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert kube.create(f"{rbac}/clusterroles", role).code == 201
    assert kube.create(f"{rbac}/clusterrolebindings", binding).code == 201
    stranger = kube.account("default", namespace="default")
    answer = stranger.create(f"{FEATURES}?{DRY}", feature("gpu-node-a", "node-a"))
    assert answer.code == 403
    assert "written by the node agents of gpu-control-plane only" in answer.message
    # NFD's own objects, and ours in another namespace (which nobody believes), are not our business.
    assert stranger.create(f"{FEATURES}?{DRY}", feature("node-a", "node-a")).code == 201
    elsewhere = FEATURES.replace(harness.NAMESPACE, "default")
    body = feature("gpu-node-a", "node-a")
    body["metadata"]["namespace"] = "default"
    assert stranger.create(f"{elsewhere}?{DRY}", body).code == 201


def test_a_person_may_write_a_report_by_hand(kube: harness.Kube) -> None:
    assert kube.create(f"{FEATURES}?{DRY}", feature("gpu-by-hand", "by-hand")).code == 201
