"""Each field of a status has one owner; everybody else is refused, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kit.manifests import body
from tests.kit.objects import allocation, pool_ref, published
from tests.templates import harness
from tests.templates.harness import GROUP

pytestmark = pytest.mark.cluster
NOW = "2026-01-01T00:00:00Z"
INVENTORY, BOOTSTRAP, POOL = "gpu-inventory-controller", "gpu-bootstrap-controller", "gpupool-controller"
DRIVER = "gpu-driver-controller"
WEBHOOK, PLUGIN, MIG = "gpu-admission-webhook", "gpu-nodeagent-device-plugin", "gpu-nodeagent-mig"
ADMIN, NAMESAKE = "admin", "a person called gpupool-controller"
AGENTS = {PLUGIN, MIG}


@dataclass(frozen=True)
class Kind:
    """A kind with a status: who may reach it by RBAC, and a value for each field by its owners."""

    plural: str
    writers: tuple[str, ...]
    empty: str
    full: str
    fields: dict[str, tuple[Any, tuple[str, ...]]]
    conditions: dict[str, str]


PCI = {"vendor": "10de", "device": "20b0", "class": "0302", "address": "0000:17:00.0"}
RESERVATION = {
    "requestID": "r", "namespace": "default", "pod": "p", "slots": 1, "since": NOW, "expiresAt": NOW, "seen": False
}  # fmt: skip
ALLOCATION = body(allocation())
TENANCY = {
    "pool": "a",
    "namespace": "default",
    "pod": "p",
    "uid": "u",
    "since": "2026-01-01T00:00:00Z",
    "until": "2026-01-01T01:00:00Z",
    "ended": "Finished",
}
ELSEWHERE = {"namespace": "default", "pod": "p", "container": "c", "resource": "nvidia.com/gpu"}
DEVICE = Kind(
    "gpudevices",
    (INVENTORY, BOOTSTRAP, POOL, WEBHOOK, PLUGIN, MIG, ADMIN, NAMESAKE),
    "card-a",
    "card-full",
    {
        "inventoryID": ("node-a-0000:17:00.0", (INVENTORY,)),
        "nodeGoneSince": ("2026-01-01T00:00:00Z", (INVENTORY,)),
        "lostSince": (NOW, (INVENTORY,)),
        "managed": (True, (INVENTORY,)),
        "hardware": ({"pci": PCI}, (INVENTORY,)),
        "health": ({"temperatureC": 40}, (BOOTSTRAP,)),
        "fault": ("CriticalXid", (BOOTSTRAP,)),
        "faultEnd": ("Validated", (BOOTSTRAP,)),
        "poolRef": (body(pool_ref("a")), (POOL,)),
        "autoAttach": (True, (POOL,)),
        "offer": ("Offered", (POOL,)),
        "missingPool": ({"name": "a", "since": NOW}, (POOL,)),
        "state": ("Assigned", (POOL, WEBHOOK)),
        "reservations": ([RESERVATION], (POOL, WEBHOOK)),
        "published": (body(published("a")), (PLUGIN,)),
        "allocations": ([ALLOCATION], (PLUGIN,)),
        "foreignAllocations": ([ELSEWHERE], (PLUGIN,)),
        "history": ([TENANCY], (POOL,)),
        "migApply": ({"version": "1", "phase": "Done"}, (MIG,)),
        "mps": ({"pool": "a", "phase": "Ready"}, (PLUGIN,)),
    },
    {
        "ManagedDisabled": INVENTORY, "InventoryIncomplete": INVENTORY, "Ignored": INVENTORY,
        "Faulted": BOOTSTRAP, "Configured": POOL,
    },
)  # fmt: skip
NODE = Kind(
    "gpunodeinventories",
    (INVENTORY, BOOTSTRAP, POOL, DRIVER, ADMIN, NAMESAKE),
    "node-a",
    "node-full",
    {
        "hw": ({"present": True}, (INVENTORY,)),
        "driver": ({"version": "570.1"}, (BOOTSTRAP,)),
        "monitoring": ({"dcgmReady": True}, (BOOTSTRAP,)),
        "bootstrap": ({"validated": True}, (BOOTSTRAP,)),
        "software": ([{"component": "kernel", "running": "6.8.0-60-generic"}], (BOOTSTRAP,)),
        "managedElsewhere": ({"plugin": "nvidia.com/gpu"}, (BOOTSTRAP,)),
        "runtime": ({"state": "Ready"}, (BOOTSTRAP,)),
        "driverWork": ({"driver": "a", "phase": "Queued", "since": NOW, "nodeUID": "u", "attempt": 1}, (DRIVER,)),
        "lastDriverWork": ({"driver": "a", "revision": "r", "at": NOW, "took": 1, "result": "Good"}, (DRIVER,)),
        "pools": ({"pending": [{"inventoryID": "x", "autoApproved": False, "reason": "NoPoolMatched"}]}, (POOL,)),
    },
    {
        "ManagedDisabled": INVENTORY, "InventoryIncomplete": INVENTORY, "PrerequisiteNotMet": INVENTORY,
        "DriverMissing": BOOTSTRAP, "DriverOutdated": BOOTSTRAP, "CudaOutdated": BOOTSTRAP,
        "ToolkitMissing": BOOTSTRAP, "MonitoringMissing": BOOTSTRAP, "ReadyForPooling": BOOTSTRAP,
        "InfraDegraded": BOOTSTRAP, "DegradedWorkloads": BOOTSTRAP, "ManagedElsewhere": BOOTSTRAP,
        "UnassignedDevice": POOL,
    },
)  # fmt: skip
GPUPOOL = Kind(
    "gpupools",
    (POOL, ADMIN, NAMESAKE),
    "pool-a",
    "pool-full",
    {
        "capacity": ({"unit": "card", "total": 1, "used": 0, "reserved": 0, "unavailable": 0, "available": 1}, (POOL,)),
        "appliedAllocation": ({"mode": "Exclusive"}, (POOL,)),
        "nodes": (
            [{"name": "n", "totalDevices": 1, "assignedDevices": 1, "slots": 1, "used": 0, "health": "Healthy"}],
            (POOL,),
        ),
        "devices": ([{"inventoryID": "x", "node": "n", "state": "Assigned", "autoAttach": False}], (POOL,)),
        "candidates": ([{"name": "c", "pools": []}], (POOL,)),
        "truncated": (True, (POOL,)),
        "passedOver": ([{"requestID": "r", "turns": 2, "until": NOW}], (POOL,)),
        "queue": ({"waiting": 1, "waitingUnits": 2}, (POOL,)),
        "phase": ("Serving", (POOL,)),
        "lastReconfigured": (NOW, (POOL,)),
    },
    {"Available": POOL, "Maintenance": POOL, "Misconfigured": POOL, "CapacityLow": POOL},
)
GPUDRIVER = Kind(
    "gpudrivers",
    (DRIVER, ADMIN, NAMESAKE),
    "driver-a",
    "driver-full",
    {
        "observedGeneration": (2, (DRIVER,)),
        "target": ("3f2a91c07b", (DRIVER,)),
        "current": ("3f2a91c07b", (DRIVER,)),
        "revisions": ([{"hash": "3f2a91c07b", "version": "580.178.04", "result": "Good", "since": NOW}], (DRIVER,)),
        "counts": ({"nodes": 1, "current": 1}, (DRIVER,)),
        "state": ("Ready", (DRIVER,)),
        "strata": ([{"key": "ubuntu24.04 6.8 Open 2330", "nodes": 1, "result": "Good"}], (DRIVER,)),
        "spent": ([{"hour": "2026-11-26T04:00:00Z", "gpuSeconds": 60}], (DRIVER,)),
        "eta": ("2026-11-26T05:00:00Z", (DRIVER,)),
        "versions": ([{"version": "580.178.04", "nodes": 1}], (DRIVER,)),
        "nodes": ([{"name": "n", "phase": "Current"}], (DRIVER,)),
        "truncated": (True, (DRIVER,)),
    },
    {
        "Ready": DRIVER, "Progressing": DRIVER, "Blocked": DRIVER, "Failed": DRIVER, "Halted": DRIVER,
        "Overlaps": DRIVER, "SettingsInvalid": DRIVER, "NextKernelUnserved": DRIVER,
    },
)  # fmt: skip
KINDS = (DEVICE, NODE, GPUPOOL, GPUDRIVER)
by_kind = pytest.mark.parametrize("kind", KINDS, ids=[k.plural for k in KINDS])


def condition(kind: str, status: str = "False") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": NOW}


@pytest.fixture(scope="module")
def users(kube: harness.Kube) -> dict[str, harness.Kube]:
    """Each writer under its own identity."""
    accounts = {name: kube.account(name) for name in (INVENTORY, BOOTSTRAP, POOL, DRIVER, WEBHOOK)}
    agents = {name: kube.account(name, "node-a") for name in AGENTS}
    return accounts | agents | {ADMIN: kube, NAMESAKE: kube.bearer(kube.namesake)}


@pytest.fixture(scope="module")
def full(kube: harness.Kube, users: dict[str, harness.Kube]) -> dict[str, dict[str, Any]]:
    """For each kind an object with all its fields, written by their owners as the processes do: by apply."""
    result = {}
    for kind in KINDS:
        path = f"{GROUP}/{kind.plural}/{kind.full}"
        current = kube.get(path).body
        for writer in kind.writers[:-2]:
            status: dict[str, Any] = {f: v for f, (v, owners) in kind.fields.items() if owners[0] == writer}
            if kind is DEVICE and writer == INVENTORY:
                status["nodeName"] = "node-a"
            if owned := [condition(c) for c, owner in kind.conditions.items() if owner == writer]:
                status["conditions"] = owned
            if status:
                body = {"apiVersion": current["apiVersion"], "kind": current["kind"], "status": status}
                body["metadata"] = {"name": kind.full, "uid": current["metadata"]["uid"]}
                answer = users[writer].apply(f"{path}/status", body, writer)
                assert answer.code == 200, answer.message
                assert answer.warnings == []
        result[kind.plural] = kube.get(path).body["status"]
        assert set(result[kind.plural]) >= set(kind.fields), "a field was pruned"
        assert {c["type"] for c in result[kind.plural]["conditions"]} == set(kind.conditions)
    return result


def judge(answer: harness.Answer, writer: str, field: str, owners: tuple[str, ...]) -> None:
    """An owner is let through; another reads which field it was, whose, and that it was him."""
    if writer in owners:
        assert answer.code == 200, (writer, field, answer.message)
        return
    assert answer.code == 403, (writer, field)
    assert f"status.{field} of " in answer.message, answer.message
    assert f"belongs to {' and '.join(sorted(owners))};" in answer.message, answer.message
    name = {ADMIN: "admin", NAMESAKE: harness.NAMESAKE}.get(writer, f"system:serviceaccount:d8-gpu-operator:{writer}")
    assert f"; {name} may not" in answer.message, answer.message


@by_kind
def test_a_field_is_set_by_its_owner_only(kind: Kind, users: dict[str, harness.Kube]) -> None:
    path = f"{GROUP}/{kind.plural}/{kind.empty}/status?dryRun=All"
    for writer in kind.writers:
        for field, (value, owners) in kind.fields.items():
            judge(users[writer].merge(path, {"status": {field: value}}), writer, field, owners)
        for name, owner in kind.conditions.items():
            answer = users[writer].merge(path, {"status": {"conditions": [condition(name)]}})
            judge(answer, writer, f"conditions[{name}]", (owner,))


@by_kind
def test_a_field_is_removed_by_its_owner_only(
    kind: Kind, users: dict[str, harness.Kube], full: dict[str, dict[str, Any]]
) -> None:
    path = f"{GROUP}/{kind.plural}/{kind.full}/status?dryRun=All"
    conditions = full[kind.plural]["conditions"]
    for writer in kind.writers:
        for field, (_, owners) in kind.fields.items():
            judge(users[writer].merge(path, {"status": {field: None}}), writer, field, owners)
        for name, owner in kind.conditions.items():
            rest = [c for c in conditions if c["type"] != name]
            answer = users[writer].merge(path, {"status": {"conditions": rest}})
            judge(answer, writer, f"conditions[{name}]", (owner,))
            other = [condition(name, "True") if c["type"] == name else c for c in conditions]
            answer = users[writer].merge(path, {"status": {"conditions": other}})
            judge(answer, writer, f"conditions[{name}]", (owner,))


def test_who_takes_a_card_out_of_its_pool_may_clear_what_the_plugin_said_with_it(
    users: dict[str, harness.Kube], full: dict[str, dict[str, Any]]
) -> None:
    """Of a pool that is gone no plugin is left to say it; to change it is still the plugin's."""
    path = f"{GROUP}/gpudevices/{DEVICE.full}/status?dryRun=All"
    cleared = {"poolRef": None, "published": None, "allocations": None}
    answer = users[POOL].merge(path, {"status": {**cleared, "state": "Unassigned"}})
    assert answer.code == 200, answer.message
    for changed in ({"published": full["gpudevices"]["published"] | {"slots": 2}}, {"allocations": []}):
        judge(users[POOL].merge(path, {"status": {**cleared, **changed}}), POOL, next(iter(changed)), (PLUGIN,))
    for writer in (WEBHOOK, PLUGIN, ADMIN, NAMESAKE):
        assert users[writer].merge(path, {"status": cleared}).code == 403, writer


def test_who_puts_cards_into_pools_may_clear_who_else_had_a_card_that_no_plugin_watches(
    users: dict[str, harness.Kube],
) -> None:
    """That is one in no pool; it says nothing of its own there, and of one in a pool it clears nothing."""
    path = f"{GROUP}/gpudevices/{DEVICE.empty}/status"
    said = users[PLUGIN].merge(path, {"status": {"foreignAllocations": [ELSEWHERE]}})
    assert said.code == 200, said.message
    for changed in ([], [{**ELSEWHERE, "pod": "q"}]):
        judge(
            users[POOL].merge(path, {"status": {"foreignAllocations": changed}}), POOL, "foreignAllocations", (PLUGIN,)
        )
    for writer in (WEBHOOK, ADMIN, NAMESAKE):
        assert users[writer].merge(path, {"status": {"foreignAllocations": None}}).code == 403, writer
    answer = users[POOL].merge(path, {"status": {"foreignAllocations": None}})
    assert answer.code == 200, answer.message


@by_kind
def test_who_owns_nothing_of_a_status_is_refused_before_the_policy(kind: Kind, kube: harness.Kube) -> None:
    """By RBAC: those of ours who have no field there, agents of whatever node, and a tenant."""
    ours = {
        INVENTORY: None, BOOTSTRAP: None, POOL: None, DRIVER: None, WEBHOOK: None,
        PLUGIN: "node-a", MIG: "node-a", "gpu-nodeagent-discover": "node-a", "gpu-nodeagent-validate": "node-a",
    }  # fmt: skip
    others = {name: kube.account(name, node) for name, node in ours.items() if name not in kind.writers}
    others["tenant"] = kube.account("default", namespace="default")
    for name, user in others.items():
        for path in (f"{kind.plural}/{kind.empty}/status", f"{kind.plural}/{kind.empty}"):
            answer = user.merge(f"{GROUP}/{path}?dryRun=All", {"status": {}, "metadata": {"labels": {"x": "y"}}})
            assert answer.code == 403, (name, path)
            assert "cannot patch resource" in answer.message, answer.message


def test_an_agent_of_another_node_owns_no_field_of_a_card(kube: harness.Kube) -> None:
    for agent in AGENTS:
        for node, says in (("node-b", "may not write about card-a, a card of node-a"), (None, "must name its node")):
            user = kube.account(agent, node)
            for field, (value, _) in DEVICE.fields.items():
                answer = user.merge(f"{GROUP}/gpudevices/card-a/status?dryRun=All", {"status": {field: value}})
                assert answer.code == 403, (agent, node, field)
                # Either policy may speak first; where the field is its own, only one has a reason.
                assert says in answer.message or f"status.{field} of " in answer.message
                assert says in answer.message or agent not in DEVICE.fields[field][1]


@by_kind
def test_writing_what_is_there_is_no_change(
    kind: Kind, users: dict[str, harness.Kube], full: dict[str, dict[str, Any]]
) -> None:
    path = f"{GROUP}/{kind.plural}/{kind.full}/status"
    for writer in kind.writers:
        again = {"status": {**full[kind.plural], "conditions": list(reversed(full[kind.plural]["conditions"]))}}
        answer = users[writer].merge(f"{path}?dryRun=All", again)
        assert answer.code == 200, (writer, answer.message)


@by_kind
def test_an_administrator_labels_and_annotates(kind: Kind, kube: harness.Kube) -> None:
    # An assignment is judged by the webhook, which is dead here; tests/webhook has it.
    marks = {"metadata": {"annotations": {"gpu.deckhouse.io/return": "true"}, "labels": {"some": "label"}}}
    answer = kube.merge(f"{GROUP}/{kind.plural}/{kind.empty}?dryRun=All", marks)
    assert answer.code == 200, answer.message


def test_the_longest_status_is_within_the_cost_budget(kube: harness.Kube, users: dict[str, harness.Kube]) -> None:
    """500 entries in each list of a pool, 64 reservations and 256 allocations of a card."""
    (node,), (device,), (candidate,) = (GPUPOOL.fields[f][0] for f in ("nodes", "devices", "candidates"))
    lists = {
        "nodes": [{**node, "name": f"node-{i}"} for i in range(500)],
        "devices": [{**device, "inventoryID": f"node-{i}-0000:17:00.0"} for i in range(500)],
        "candidates": [{**candidate, "name": f"node-{i}-0000-17-00-0"} for i in range(500)],
    }
    path = f"{GROUP}/gpupools/pool-long"
    made = kube.create(f"{GROUP}/gpupools", {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": "GPUPool",
                                             "metadata": {"name": "pool-long"}, "spec": {}})  # fmt: skip
    assert made.code == 201, made.message
    answer = users[POOL].merge(f"{path}/status", {"status": lists})
    assert answer.code == 200, answer.message
    for field, value in lists.items():
        changed = {"status": {field: value[:-1]}}
        assert users[POOL].merge(f"{path}/status?dryRun=All", changed).code == 200
        judge(kube.merge(f"{path}/status?dryRun=All", changed), ADMIN, field, (POOL,))
    card = f"{GROUP}/gpudevices/card-a/status?dryRun=All"
    reservations = {"status": {"reservations": [{**RESERVATION, "requestID": str(i)} for i in range(64)]}}
    allocations = {"status": {"allocations": [{**ALLOCATION, "podUID": str(i)} for i in range(256)]}}
    assert users[WEBHOOK].merge(card, reservations).code == 200
    assert users[PLUGIN].merge(card, allocations).code == 200
    judge(users[WEBHOOK].merge(card, allocations), WEBHOOK, "allocations", (PLUGIN,))


def test_the_garbage_collector_is_exempt(kube: harness.Kube) -> None:
    """No right of RBAC is tested here, hence by impersonation in a group that has them all."""
    collector = "system:serviceaccount:kube-system:generic-garbage-collector"
    person = ("someone", 1)
    for user, code in ((collector, 0), person):
        done = kube.kubectl(
            "patch", "gpudevice", "card-a", "--subresource=status", "--type=merge", "--dry-run=server",
            "-p", '{"status":{"managed":true}}', "--as", user, "--as-group", "system:masters",
        )  # fmt: skip
        assert done.returncode == code, (user, done.stderr)


def test_exempt_names_come_from_values() -> None:
    text = harness.render(harness.programs()["helm"], "gpuControlPlane.policies.statusWriters={admin,o'neill}")
    (policy,) = [
        o
        for o in harness.objects(text)
        if o["kind"] == "ValidatingAdmissionPolicy" and o["metadata"]["name"] == "gpu-control-plane-status-owners"
    ]
    assert '"admin", "o\'neill"' in policy["spec"]["matchConditions"][0]["expression"]


def test_the_policy_knows_every_field_and_condition_of_the_contract() -> None:
    """A field that is added to a model and not to the policy could be written by nobody."""
    from controllers.api import reasons as api
    from controllers.api.gpudevice import GPUDeviceStatus
    from controllers.api.gpudriver import GPUDriverStatus
    from controllers.api.gpunodeinventory import GPUNodeInventoryStatus
    from controllers.api.gpupool import GPUPoolStatus

    text = harness.render(harness.programs()["helm"])
    table = {
        plural: set(re.findall(r"'([^']+)': \[", part))
        for plural, part in re.findall(r"'(gpu\w+)': \{\n(.*?)\n\s*\}", text, re.DOTALL)
    }
    pool = {"Available", "Maintenance", "Misconfigured", "CapacityLow"}
    for plural, model, conditions in (
        ("gpudevices", GPUDeviceStatus, set(api.DEVICE_OWNERS)),
        ("gpunodeinventories", GPUNodeInventoryStatus, set(api.NODE_OWNERS)),
        ("gpupools", GPUPoolStatus, pool),
        ("gpudrivers", GPUDriverStatus, set(api.DRIVER_OWNERS)),
    ):
        fields = set(_aliases(model)) - {"conditions"}
        assert table[plural] == fields | {f"conditions[{c}]" for c in conditions}
    # The tests above cover the whole table.
    for kind in KINDS:
        covered = set(kind.fields) | {f"conditions[{c}]" for c in kind.conditions}
        assert table[kind.plural] - {"nodeName"} == covered


def _aliases(model: Any) -> list[str]:
    from pydantic import TypeAdapter

    return list(TypeAdapter(model).json_schema(by_alias=True)["properties"])
