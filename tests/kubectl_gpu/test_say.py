"""What is said, computed from frozen values."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from controllers.api import names, reasons
from controllers.api.gpudevice import ForeignAllocation, GPUDevice, Reservation
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.domain.clock import stamp
from controllers.domain.wording import format_message
from controllers.explain import card, choice, faults, lists, pod, words
from controllers.explain import node as nodes
from controllers.explain import pool as pools
from controllers.explain.explanation import Explanation, lines
from controllers.explain.records import SeenPod, Unreadable
from controllers.explain.table import Cell, Column, rendered
from controllers.runtime.errors import Forbidden, Invalid, NotFound, Unreachable
from tests.kit import objects
from tests.kit.pods import pod_body

NOW = 1_790_000_000.0
POOL = "training"


def made(cls: type[Any], **fields: Any) -> Any:
    return adapter(cls).validate_python(fields)


def device(address: str = "0000:17:00.0", node: str = "worker-01", **status: Any) -> GPUDevice:
    claim = status.pop("claim", POOL)
    meta = {"annotations": {names.ASSIGNMENT: claim} if claim else {}}
    hardware = {"product": "NVIDIA H100 80GB HBM3"}
    return objects.card(node, address, pool=POOL, hardware=hardware, meta=meta, **{"state": None, **status})


def pool(total: int = 2, used: int = 2, nodes: list[dict[str, Any]] | None = None, **more: Any) -> GPUPool:
    capacity = {"unit": "card", "total": total, "used": used, "available": total - used}
    return objects.pool(POOL, status={"capacity": capacity, "nodes": nodes or [], **more})


def a_pod(units: int = 1, node: str | None = None, status: dict[str, Any] | None = None, **meta: Any) -> SeenPod:
    annotations = {names.REQUEST_ID: "r1", names.DEVICES: "worker-01-0000:17:00.0", **meta.pop("annotations", {})}
    spec = {"nodeName": node, **meta.pop("spec", {})}
    metadata = {"uid": "u1", "creationTimestamp": stamp(NOW - 300), **meta, "annotations": annotations}
    found = pod_body("p", units, pool=POOL, meta=metadata, **spec)
    return adapter(SeenPod).validate_python(found | ({"status": status} if status else {}))


def seen(the_pod: SeenPod, **parts: Any) -> pod.PodSeen:
    base: dict[str, Any] = {"pool": pool(), "cards": (device(),), "node": None, "inventory": None, "events": ()}
    return pod.PodSeen(pod=the_pod, now=NOW, **{**base, **parts})


def text(answer: Explanation) -> str:
    return "\n".join(line for line, _ in lines(answer, ascii_only=False))


def reservation(until: float = 60, slots: int = 1) -> Reservation:
    return objects.reservation("r1", slots=slots, since=NOW - 10, until=NOW + until)


def ready(node: bool = True) -> Node:
    return objects.node("w", ready=node)


class TestPods:
    def test_it_waits_and_nothing_is_reserved(self) -> None:
        answer = pod.explained(seen(a_pod()))
        assert answer.verdict == "Pod team/p waits for 1 card of GPUPool training: nothing is reserved for it now"
        assert "Its reservation of worker-01-0000:17:00.0 has ended" in text(answer)
        assert "Of 2: 2 used, 0 reserved, 0 unavailable, 0 available" in text(answer)

    def test_a_live_reservation_is_told_of_and_an_expired_one_is_not(self) -> None:
        live = pod.explained(seen(a_pod(), cards=(device(reservations=[reservation()]),)))
        assert "reserved on worker-01 and waits for the scheduler" in live.verdict
        assert "is reserved for it, for 60s more" in text(live)
        over = pod.explained(seen(a_pod(), cards=(device(reservations=[reservation(until=-1)]),)))
        assert "nothing is reserved" in over.verdict

    def test_enough_cards_on_no_single_node(self) -> None:
        nodes = [
            {"name": n, "totalDevices": 2, "assignedDevices": 2, "slots": 2, "used": 1, "health": "Healthy"}
            for n in ("a", "b")
        ]
        answer = pod.explained(seen(a_pod(2), pool=pool(total=4, used=2, nodes=nodes)))
        assert "no node has more than 1 free" in text(answer)
        assert "Ask for 1 card at most" in text(answer)

    def test_what_the_scheduler_says_is_about_cards_or_not(self) -> None:
        def waits(message: str, **parts: Any) -> str:
            said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            return text(pod.explained(seen(a_pod(status={"phase": "Pending", "conditions": [said]}), **parts)))

        held = (device(reservations=[reservation()]),)
        assert "Cards are not what is lacking" in waits("0/4 nodes are available: 4 Insufficient cpu.", cards=held)
        lacking = f"0/4 nodes are available: 4 Insufficient {names.resource_name(POOL)}."
        assert "Wait for a pod of the pool to end" in waits(lacking)

    def test_what_the_pod_itself_makes_wait_comes_first(self) -> None:
        gated = pod.explained(seen(a_pod(spec={"schedulingGates": [{"name": "queue"}]})))
        assert gated.verdict.endswith("it has scheduling gates")
        unseen = pod.explained(
            seen(dataclasses.replace(a_pod(), metadata=made(SeenPod, metadata={"name": "p"}).metadata))
        )
        assert "the webhook never saw it" in unseen.verdict
        going = pod.explained(seen(a_pod(deletionTimestamp=stamp(NOW))))
        assert going.verdict.endswith("it is being deleted")
        assert pod.explained(seen(a_pod(), pool=None)).verdict.endswith("there is no GPUPool training any more")

    def test_it_runs_on_other_cards_than_were_reserved(self) -> None:
        taken = objects.allocation("p", "u1")
        other = device("0000:3b:00.0", allocations=[taken])
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        answer = pod.explained(seen(a_pod(node="worker-01", status=status), cards=(device(), other), node=ready()))
        assert answer.verdict == "Pod team/p runs on worker-01 with 1 card of GPUPool training"
        assert "as kubelet reports: worker-01-0000:3b:00.0 (NVIDIA H100 80GB HBM3)" in text(answer)
        assert "kubelet chose others, which count" in text(answer)

    def test_what_troubles_a_bound_pod(self) -> None:
        waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
        status = {"phase": "Pending", "containerStatuses": [waiting]}
        conditions = [
            {"type": "DegradedWorkloads", "status": "True", "reason": "NotReady", "message": "driver is gone"}
        ]
        inventory = made(GPUNodeInventory, metadata={"name": "worker-01"}, status={"conditions": conditions})
        faulty = {"type": "Faulted", "status": "True", "reason": "XidCritical", "message": "XID 79"}
        taken = objects.allocation("p", "u1")
        said = text(
            pod.explained(
                seen(
                    a_pod(node="worker-01", status=status),
                    cards=(device(allocations=[taken], conditions=[faulty]),),
                    node=ready(node=False),
                    inventory=inventory,
                )
            )
        )
        for found in ("Node worker-01 is not Ready", "ImagePullBackOff", "driver is gone", "XidCritical"):
            assert found in said

    def test_one_that_has_ended(self) -> None:
        failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"}
        said = text(pod.explained(seen(a_pod(node="worker-01", status=failed))))
        assert "has ended (Failed) and holds no cards" in said
        assert "Kubelet had no card left" in said

    def test_what_may_not_be_read_is_said_and_nothing_is_made_up(self) -> None:
        no = Unreadable("dev may not list gpudevices.")
        answer = pod.explained(seen(a_pod(), cards=no, pool=no))
        assert answer.verdict == "Pod team/p waits for 1 card of GPUPool training"
        assert answer.findings == ()
        assert answer.unread == (no.reason, no.reason)


class TestPools:
    @pytest.mark.parametrize(
        ("reason", "cure"),
        [
            ("LayoutFailed", f"mend the nodes and resume: kubectl annotate gpupool {POOL} {names.RESUME}=true"),
            (names.REASON_MODULE_DISABLED, f"spec.enabled: true in ModuleConfig {names.MODULE}"),
            ("WaitingForPods", "wait, no pod is killed for it; or put spec.allocation back"),
            ("PodsOverdue", f"For an administrator: end the pods (kubectl get pods -A -l {names.LABEL_POOL}={POOL})"),
            ("PluginsOverdue", f"kubectl label gpudevice <card> {names.LABEL_IGNORE}=true"),
            ("OfAnotherVersion", "docs/conditions.md says of each reason what to do"),
        ],
    )
    def test_the_cure_of_a_maintenance_is_that_of_its_reason(self, reason: str, cure: str) -> None:
        closed = {"type": "Maintenance", "status": "True", "reason": reason, "message": "so it is"}
        answer = pools.explained(pools.PoolSeen(pool(conditions=[closed]), ()))
        assert cure in answer.findings[0].do
        assert cure in text(pod.explained(seen(a_pod(), pool=pool(conditions=[closed]))))

    @pytest.mark.parametrize(
        ("reason", "cure"),
        [("InvalidMIGProfile", "change spec.allocation.migProfile"), ("ModeNotServed", "change spec.allocation.mode")],
    )
    def test_the_cure_of_a_bad_spec_is_that_of_its_reason(self, reason: str, cure: str) -> None:
        bad = {"type": "Misconfigured", "status": "True", "reason": reason, "message": "so it is"}
        (found, *_) = pools.explained(pools.PoolSeen(pool(conditions=[bad]), ())).findings
        assert found.do.startswith(f"For an administrator: {cure}")
        assert f"kubectl edit gpupool {POOL}" in found.do

    def test_a_layout_that_failed_is_told_once(self) -> None:
        failed = [
            {"type": kind, "status": "True", "reason": "LayoutFailed", "message": "gpu-1 did not"}
            for kind in ("Maintenance", "Misconfigured")
        ]
        answer = pools.explained(pools.PoolSeen(pool(conditions=failed), ()))
        assert [finding.level for finding in answer.findings].count("bad") == 2, "this, and that nothing is free"
        assert "mends the spec" not in text(answer)
        alone = pools.explained(pools.PoolSeen(pool(conditions=failed[1:]), ()))
        assert "resume: kubectl" in alone.findings[0].do


class TestCards:
    def test_one_that_others_have_names_their_pod_and_the_resource(self) -> None:
        taken = ForeignAllocation(namespace="legacy", pod="train", container="main", resource="nvidia.com/gpu")
        found = device(foreign_allocations=(taken,), published=None)
        answer = card.explained(card.CardSeen(found, None, NOW))
        assert answer.verdict.endswith(f"is in GPUPool {POOL} and cannot be issued now")
        assert "Pod legacy/train (container main) has it by nvidia.com/gpu" in text(answer)
        assert "legacy/train (nvidia.com/gpu)" in [cell.text for cell in lists.card(found, NOW)]

    def test_one_that_is_faulted_says_what_to_do_about_that_fault(self) -> None:
        bad = {"type": "Faulted", "status": "True", "reason": "RowRemapFailure", "message": "rows"}
        found = device(conditions=[bad])
        answer = card.explained(card.CardSeen(found, None, NOW))
        accept = f"kubectl annotate gpudevice {found.name} {names.RETURN}=true accepts it as it is"
        assert answer.findings[0].do == f"replace the card; {accept}"
        unknown = device(conditions=[bad | {"reason": "OfAnotherVersion"}])
        assert card.explained(card.CardSeen(unknown, None, NOW)).findings[0].do.startswith("docs/conditions.md")

    def test_one_that_leaves_its_pool(self) -> None:
        answer = card.explained(card.CardSeen(device(claim=None), Unreadable("no"), NOW))
        assert answer.verdict.endswith("is leaving GPUPool training")
        assert "its annotation was removed" in text(answer)

    def test_one_that_waits_for_a_person(self) -> None:
        free = device(claim=None, pool_ref=None, published=None)
        entry = {"pool": POOL, "inventoryID": free.status.inventory_id, "reason": "AwaitingApproval"}
        ok = {"type": "ReadyForPooling", "status": "True", "reason": "Ready", "message": ""}
        status = {"pools": {"pending": [entry]}, "conditions": [ok]}
        inventory = made(GPUNodeInventory, metadata={"name": "worker-01"}, status=status)
        said = text(card.explained(card.CardSeen(free, inventory, NOW)))
        assert f"→ kubectl gpu assign {free.name} {POOL}" in said.splitlines()[-1]

    @pytest.mark.parametrize("reason", ["AwaitingApproval", "NoPoolMatched", "OutOfSelector"])
    def test_why_one_is_in_no_pool_stands_as_in_the_catalogue_of_reasons(self, reason: str) -> None:
        free = device(claim=None, pool_ref=None, published=None)
        entry = {"pool": POOL, "inventoryID": free.status.inventory_id, "reason": reason}
        inventory = objects.inventory("worker-01", (free,), pools={"pending": [entry]})
        row = reasons.find("node", "UnassignedDevice", "True", reason)
        assert row is not None
        meaning, named = row.meaning.replace("`", ""), {"node": "worker-01", "pool": POOL}

        of_card = card.explained(card.CardSeen(free, inventory, NOW)).findings[-1]
        assert of_card.text == f"{reason} (GPUPool {POOL}): {meaning}"
        assert of_card.do == row.spoken(card=free.name, **named)
        of_node = nodes.explained(nodes.NodeSeen(inventory)).findings[-1]
        assert of_node.text == f"1 card in no pool, {reason} for {POOL}: {meaning}"
        assert of_node.do == row.spoken(**named)

    def test_no_pool_is_chosen_for_a_node_whose_cards_several_would_take(self) -> None:
        free = device(claim=None, pool_ref=None, published=None)
        about = {"inventoryID": free.status.inventory_id, "reason": "AwaitingApproval"}
        inventory = objects.inventory("worker-01", pools={"pending": [about | {"pool": name} for name in "ab"]})
        found = nodes.explained(nodes.NodeSeen(inventory)).findings[-1]
        assert found.text.startswith("1 card in no pool, AwaitingApproval for a or b: ")
        assert "kubectl gpu assign --node worker-01 <pool>" in found.do

    def test_one_that_is_declined_says_so(self) -> None:
        free = device(claim=None, pool_ref=None, published=None)
        entry = {"inventoryID": free.status.inventory_id, "reason": "Declined"}
        inventory = objects.inventory("worker-01", (free,), pools={"pending": [entry]})
        assert "Declined: marked to be ignored" in text(card.explained(card.CardSeen(free, inventory, NOW)))

    def test_a_row_tells_whom_it_serves(self) -> None:
        taken = objects.allocation("p", "u1")
        row = lists.card(device(allocations=[taken], reservations=[reservation()]), NOW)
        assert "team/p, team/p (reserved)" in [cell.text for cell in row]


class TestChoice:
    def test_an_inventory_id_is_a_name(self) -> None:
        assert choice.object_name("worker-01-0000:17:00.0") == "worker-01-0000-17-00-0"
        assert choice.object_name("a.b-0000:17:00.0") == "a.b-0000-17-00-0"
        assert choice.object_name("worker-01-0000-17-00-0") == "worker-01-0000-17-00-0"

    def test_of_a_node_only_free_cards_and_named_ones_always(self) -> None:
        mine, other, free = device(), device("0000:3b:00.0", claim="b"), device("0000:4c:00.0", claim=None)
        changed, notes = choice.changes([], [mine, other, free], POOL)
        assert [(c.device.name, c.is_one) for c in changed] == [(mine.name, False), (free.name, True)]
        assert other.name in notes[0]
        changed, notes = choice.changes([other], [mine, other, free], POOL)
        assert (len(changed), notes) == (3, [])
        changed, _ = choice.changes([], [mine, other, free], None)
        assert [c.is_one for c in changed] == [True, True, False]

    def test_of_a_node_what_cannot_come_is_left_alone_unless_it_is_named(self) -> None:
        faulted = {"type": "Faulted", "status": "True", "reason": "XidCritical", "message": "XID 79"}
        free = device("0000:4c:00.0", claim=None, pool_ref=None)
        broken = device("0000:5d:00.0", claim=None, pool_ref=None, conditions=[faulted])
        leaving = device("0000:6e:00.0", claim=None, pool_ref=objects.pool_ref("b"))
        every = [free, broken, leaving]
        changed, notes = choice.changes([], every, POOL)
        assert [(c.device.name, c.named) for c in changed] == [(free.name, False)]
        assert f"{broken.name} (Faulted: XidCritical)" in "".join(notes)
        assert f"{leaving.name} (b)" in "".join(notes)
        changed, notes = choice.changes(every, every, POOL)
        assert ([c.named for c in changed], notes) == ([True] * 3, [])
        assert len(choice.changes([], every, None)[0]) == 3, "what is blocked may leave"

    def test_a_pool_that_takes_its_card_back_is_told_of(self) -> None:
        own, other = device(auto_attach=True), device("0000:3b:00.0")
        (said,) = choice.taken_back(choice.changes([own, other], [], None)[0])
        assert said.startswith(f"GPUPool {POOL} takes {own.name} back by itself")
        assert f"kubectl label gpudevice {own.name} {names.LABEL_IGNORE}=true" in said
        assert choice.taken_back(choice.changes([own], [], "b")[0]) == []


class TestWords:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("node gpu-1 is prepared", "Node gpu-1 is prepared."),
            ("worker-01 is away", "worker-01 is away."),
            ("XID 79: it fell off the bus.", "XID 79: it fell off the bus."),
            ("kubectl gpu pools", "kubectl gpu pools"),
            ("Look at it: kubectl describe node a", "Look at it: kubectl describe node a"),
            ("see `kubectl describe pod` there", "See `kubectl describe pod` there."),
            ("", ""),
        ],
    )
    def test_a_sentence(self, given: str, said: str) -> None:
        assert format_message(given) == said
        assert format_message(said) == said

    def test_ages(self) -> None:
        assert [words.span(s) for s in (-1, 5, 119, 120, 7199, 7200, 200_000)] == [
            "0s",
            "5s",
            "119s",
            "2m",
            "119m",
            "2h",
            "2d",
        ]
        assert words.since(None, NOW) == "<unknown>"

    def test_a_table_is_padded_before_it_is_painted(self) -> None:
        rows = [(Cell("a", "red"), Cell("x")), (Cell("long", ""), Cell("y"))]
        columns = (Column("A"), Column("B"))
        made = rendered(columns, rows, wide=False, headers=True, paint=lambda text, tone: f"<{text}>" if tone else text)
        assert made == ["A      B", "<a   >   x", "long   y"]


class TestFaults:
    def test_each_is_a_sentence_with_a_cure(self) -> None:
        message = 'gpudevices.gpu.deckhouse.io is forbidden: User "joe" cannot list resource "gpudevices" in API group'
        message += ' "gpu.deckhouse.io" at the cluster scope'
        said = faults.describe_fault(Forbidden(403, "Forbidden", message))
        assert said.startswith("joe may not list gpudevices.gpu.deckhouse.io in the whole cluster.")
        events = 'events is forbidden: User "joe" cannot list resource "events" in API group "" in the namespace "team"'
        assert "create role --namespace=team gpu-list --verb=list --resource=events," in faults.describe_fault(
            Forbidden(403, "Forbidden", events)
        )
        assert "Log in again" in faults.describe_fault(Forbidden(401, "Unauthorized", "Unauthorized"))
        assert "installed?" in faults.describe_fault(
            NotFound(404, "NotFound", "the server could not find the requested resource")
        )
        assert "kubectl cluster-info" in faults.describe_fault(Unreachable("GET /x: refused"))
        denied = 'admission webhook "gpudevices.gpu.deckhouse.io" denied the request: DeviceBusy: it serves a pod.'
        assert faults.describe_fault(Invalid(422, "Invalid", denied)) == "DeviceBusy: it serves a pod."
