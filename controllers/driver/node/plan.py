"""The writes of one node: from a bare node to one whose driver serves, one conditional write for each step. Pure.

What may be begun is decided here, but for slots, which the view tells. A step that takes a slot is a write of its own
phase: whoever counts the phases knows who has which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, find, is_true
from controllers.api.resources import CONFIGMAP, DAEMONSET, GPUNODEINVENTORY, NODE, POD
from controllers.domain.clock import begun, seconds, stamp
from controllers.domain.driver.choice import Blocked, Install, Unknown, is_wanted
from controllers.domain.driver.node_work import limit_at
from controllers.domain.driver.variant import revision_of
from controllers.driver.node import look
from controllers.driver.node.pod import Outcome, fault_of, outcome
from controllers.driver.node.states import PREFLIGHT_HOLDS, STATES, UNDER_WAY, limit_of, retry_after
from controllers.driver.node.work import ended, step, write_work
from controllers.runtime.plan import Apply, Delete, EmitEvent, Merge, Plan, PlanBuilder, Ref, ref

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork, LastDriverWork, Phase
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.api.resources import Resource
    from controllers.driver.node.look import Verdict
    from controllers.driver.node.states import Slot
    from controllers.driver.views import Json, ObservedNode

LEAVING: Final = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption")
"""Keys of taints by which autoscalers say that a node goes."""
AWAITED: Final = 30.0
"""Seconds after which a node that waits for a slot asks again, should nobody have woken it."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node's plan, and what of it concerns others."""

    plan: Plan
    takes: Slot | None = None
    """The slot that its write takes: it must be made under the lock of the slots."""
    awaits: Slot | None = None
    """The slot for which the node waits."""
    missing: str | None = None
    """An image that the node's registry does not have."""


@dataclass(slots=True)
class Draft:
    """A node's plan while it is made."""

    observed: ObservedNode
    node: Node
    inventory: GPUNodeInventory
    now: float
    plan: PlanBuilder
    after: DriverWork | None
    """The node's work once the plan is carried out."""
    takes: Slot | None = None
    awaits: Slot | None = None
    missing: str | None = None

    def built(self) -> NodePlan:
        """The plan."""
        wanted = self.observed.wanted_check if self.after is not None and self.after.phase == "Preflight" else None
        for check in self.observed.checks:
            if (wanted is None or check.name != wanted.name) and check.metadata.deletion_timestamp is None:
                self.plan.add(Delete(ref(POD, check)))
        if self.awaits is not None:
            self.plan.requeue_within(AWAITED)
        return NodePlan(self.plan.build(), self.takes, self.awaits, self.missing)

    def write(self, work: DriverWork | None, last: LastDriverWork | None = None) -> None:
        """The node's work as it is from now on, where it is not so already."""
        self.after = work
        if work != self.observed.work or last is not None:
            self.plan.add(write_work(self.inventory, work, last))

    def enter(self, phase: Phase, target: Install, driver: str, **more: object) -> DriverWork:
        """The work in a phase on the way to that driver."""
        compiled, to = target.mode == "Compiled", target.variant.value
        return step(
            self.observed.work,
            phase,
            self.now,
            driver=driver,
            node=self.node,
            to=to,
            compiled=compiled,
            **more,  # type: ignore[arg-type]
        )


def plan_node(seen: ObservedNode, now: float) -> NodePlan:
    """The next writes of a node."""
    if seen.node is None or seen.inventory is None:
        return NodePlan(Plan())  # gpu-inventory-controller takes the record away, and the work with it
    work = seen.work
    draft = Draft(seen, seen.node, seen.inventory, now, PlanBuilder(), work)
    if work is not None and work.node_uid != seen.node.metadata.uid:
        draft.write(None)  # it was done to another machine of this name
    elif work is not None and work.phase in UNDER_WAY:
        _under_way(draft, work)
    elif isinstance(seen.choice, Unknown):
        _wait_for_facts(draft)
    elif seen.driver is None or not isinstance(seen.choice, Install | Blocked):
        draft.write(None)  # nobody wants a driver of the module there: what is on it stays
    elif work is None:
        _begin(draft, seen.driver)
    else:
        _at_work(draft, work, seen.driver)
    _retry_obeyed(draft)
    return draft.built()


def _at_work(draft: Draft, work: DriverWork, driver: GPUDriver) -> None:
    """A node that has not been begun, or has failed."""
    target, choice = draft.observed.target, draft.observed.choice
    if work.phase == "Failed":
        _failed(draft, work, driver)
    elif isinstance(choice, Blocked):
        _blocked(draft, work, driver, choice)
    elif target is None:
        draft.write(None)
    elif work.driver != driver.name or work.to != target.variant.value:
        _look_at(draft, driver, target)  # what has not been begun takes the new target at once
    elif work.phase == "Preflight":
        _preflight(draft, work, driver, target)
    elif work.phase == "Queued":
        _queued(draft, work, driver, target)
    elif work.retry_at is None or (left := seconds(work.retry_at) - draft.now) <= 0:
        _look_at(draft, driver, target, attempt=work.attempt + 1)
    else:
        draft.plan.requeue_within(left)


def _wait_for_facts(draft: Draft) -> None:
    """The node is being started, or its agent is silent: its work stands still, but for a look that takes too long."""
    work = draft.observed.work
    if work is not None and work.phase == "Preflight" and work.deadline is not None:
        if (left := _left(work.deadline, draft)) > 0:
            draft.plan.requeue_within(left)
        else:
            draft.write(None)


def _begin(draft: Draft, driver: GPUDriver) -> None:
    """A node to which nothing is done."""
    seen, target = draft.observed, draft.observed.target
    label = draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    if label is not None and not _failed_with(seen, label):
        return  # it has a driver of ours; another revision comes with a roll-out
    if seen.report is None:
        return  # nobody knows what is there
    if isinstance(seen.choice, Blocked):
        _blocked(draft, None, driver, seen.choice)
    elif label is None and seen.report.driver_version:
        return  # its driver is somebody else's
    elif target is not None and target.variant.value != label:
        _look_at(draft, driver, target)


def _failed_with(seen: ObservedNode, label: str) -> bool:
    """Whether the driver that the node's label names failed there, as its last work says, and never served since."""
    last = seen.inventory.status.last_driver_work if seen.inventory is not None else None
    failed = last is not None and last.result == "Failed" and last.revision == revision_of(label)
    return failed and not _in_service(seen)


def _blocked(draft: Draft, work: DriverWork | None, driver: GPUDriver, choice: Blocked) -> None:
    """No driver can come onto the node as it is, which is told there; it is left as it is."""
    made = step(
        None if work is None or work.driver != driver.name else work,
        "Blocked",
        draft.now,
        driver=driver.name,
        node=draft.node,
        to=None,
        reason=choice.reason,
        message=choice.message,
    )
    if work is not None and (work.phase, work.to, work.driver) == ("Blocked", None, driver.name):
        made = replace(made, since=work.since, boot_id=work.boot_id)
    draft.write(made)


def _look_at(draft: Draft, driver: GPUDriver, target: Install, attempt: int = 1) -> None:
    """Have the node looked at, as soon as another one may be."""
    seen = draft.observed
    if not seen.node or not seen.node.ready or seen.slots.held:
        return
    if not (seen.slots.preflight or (seen.work is not None and seen.work.phase == "Preflight")):
        draft.awaits = "preflight"
        return
    draft.write(draft.enter("Preflight", target, driver.name, attempt=attempt))
    draft.takes = "preflight"
    _make_check(draft)


def _preflight(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """A node that is being looked at."""
    seen = draft.observed
    wanted = seen.wanted_check.name if seen.wanted_check is not None else None
    check = next((pod for pod in seen.checks if pod.name == wanted), None)
    if check is None:
        _make_check(draft)
    found = look.verdict(check, target, driver.spec, draft.node.name) if check is not None else look.PENDING
    if found == look.PENDING:
        _late(draft, work, driver, target)
    elif found.good:
        draft.write(draft.enter("Queued", target, driver.name, attempt=work.attempt))
    else:
        _refused(draft, work, driver, target, found)


def _refused(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install, found: Verdict) -> None:
    """The look has found something: the node is untouched, and is looked at again after a while."""
    after = retry_after(work.attempt)
    told = {"reason": found.reason, "message": found.message, "retry_in": after, "attempt": work.attempt}
    draft.write(draft.enter("Blocked", target, driver.name, **told))
    draft.plan.requeue_within(after)
    draft.missing = target.image if found.image_missing else None
    _event(draft, names.EVENT_DRIVER_BLOCKED, found.message)


def _queued(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """A node that is known to be fit, and waits for its turn."""
    seen, fresh = draft.observed, begun(work.since, draft.now) + PREFLIGHT_HOLDS - draft.now
    if fresh <= 0:
        _look_at(draft, driver, target)
    elif may_start(draft.node) and not (driver.spec.rollout.paused or seen.slots.held):
        if seen.slots.install and seen.slots.proved:
            _install(draft, work, driver, target)
        else:
            draft.awaits = "install"
            draft.plan.requeue_within(fresh)
    else:
        draft.plan.requeue_within(fresh)


def may_start(node: Node) -> bool:
    """Whether work may begin on the node now: it is Ready, and neither a person nor an autoscaler takes it away."""
    leaving = any(taint.key in LEAVING for taint in node.spec.taints)
    return node.ready and not (node.spec.unschedulable or leaving)


def _install(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """The slot is taken by the write of the phase; the objects are there before it, the label comes after it."""
    objects = draft.observed.objects
    _make_objects(draft, (CONFIGMAP, objects.configmap), (DAEMONSET, objects.daemonset))
    draft.write(draft.enter("Installing", target, driver.name, attempt=work.attempt))
    draft.takes = "install"
    _label(draft, target.variant.value)


def _under_way(draft: Draft, work: DriverWork) -> None:
    """A node that has its label, or is about to: it is finished, whatever becomes of the GPUDriver."""
    boot, found = draft.node.status.node_info.boot_id, outcome(draft.observed.pod)
    if work.to is not None and draft.node.metadata.labels.get(names.DRIVER_VARIANT) != work.to:
        _label(draft, work.to)
    if work.boot_id is not None and boot and work.boot_id != boot:
        _restarted(draft, work)
    elif found.serves and work.phase == "Installing":
        _advance(draft, work, "Validating")
    elif found.serves and _is_done(draft.observed):
        _done(draft, work)
    elif found.fault is not None:
        _fail(draft, work, found)
    else:
        _overdue(draft, work, found)


def _restarted(draft: Draft, work: DriverWork) -> None:
    """Somebody has started the node anew: kubelet starts the driver again, and nothing counts as failed."""
    limit = limit_of("Installing")
    made = replace(
        work,
        phase="Installing",
        since=stamp(draft.now),
        deadline=stamp(draft.now + limit) if limit is not None else None,
        boot_id=draft.node.status.node_info.boot_id,
    )
    draft.write(made)


def _advance(draft: Draft, work: DriverWork, phase: Phase) -> None:
    limit = STATES[phase].limit
    deadline = stamp(draft.now + limit) if limit is not None else None
    draft.write(replace(work, phase=phase, since=stamp(draft.now), deadline=deadline, reason=None, message=None))


def _done(draft: Draft, work: DriverWork) -> None:
    """The driver serves, and the node's own checks say that it is ready."""
    draft.write(None, ended(work, draft.now, good=True))
    _event(draft, names.EVENT_DRIVER_INSTALLED, f"the driver {_version(draft.observed)} serves there", "Normal")


def _overdue(draft: Draft, work: DriverWork, found: Outcome) -> None:
    """The phase's limit: what was last seen is why."""
    left = _left(work.deadline, draft) if work.deadline is not None else None
    if left is None or left > 0:
        if left is not None:
            draft.plan.requeue_within(left)
        return
    if work.phase == "Validating":
        found = _not_validated(draft.observed)
    reason = found.reason or STATES[work.phase].late_reason or "InstallTimeout"
    message = found.message or "no pod of the driver became ready there in time"
    _fail(draft, work, Outcome(reason=reason, message=message, fault=fault_of(reason)))


def _not_validated(seen: ObservedNode) -> Outcome:
    """Why a node whose driver's pod is ready is not in service."""
    reported, wanted = _version(seen), seen.wanted_version
    if wanted and reported and not is_wanted(wanted, reported):
        return Outcome(reason="OtherVersion", message=f"the driver says that it is {reported}, and {wanted} is wanted")
    said = find(seen.inventory.status.conditions, READY_FOR_POOLING) if seen.inventory is not None else None
    told = f"ReadyForPooling says {said.reason}: {said.message}" if said is not None else "nobody has checked it"
    return Outcome(reason="ValidationTimeout", message=f"the driver's pod is ready, and the node is not: {told}")


def _fail(draft: Draft, work: DriverWork, found: Outcome) -> None:
    """The node keeps what it has, and is told; nothing more is done there until something is new."""
    message = f"{found.message[:900]}; kubectl annotate node {draft.node.name} {names.DRIVER_RETRY}=true tries again"
    made = replace(
        work,
        phase="Failed",
        reason=found.reason,
        message=message,
        fault="Revision" if found.fault == "revision" else "Node",
        since=stamp(draft.now),
        deadline=None,
        boot_id=draft.node.status.node_info.boot_id or None,
    )
    draft.write(made, ended(made, draft.now, good=False))
    _event(draft, names.EVENT_DRIVER_FAILED, f"{found.reason}: {found.message}")


def _failed(draft: Draft, work: DriverWork, driver: GPUDriver) -> None:
    """A node that failed: it may have come to itself; something new has it tried again."""
    seen, target = draft.observed, draft.observed.target
    if outcome(seen.pod).serves and _is_done(seen):
        _done(draft, work)
    elif target is not None and not _in_service(seen) and _is_new(draft, work, target):
        _look_at(draft, driver, target, attempt=work.attempt + 1)


def _is_new(draft: Draft, work: DriverWork, target: Install) -> bool:
    """Whether a node that failed is tried again."""
    seen, boot = draft.observed, draft.node.status.node_info.boot_id
    asked = draft.node.metadata.annotations.get(names.DRIVER_RETRY) == "true"
    resumed = seen.slots.resumed is not None and work.since < seen.slots.resumed
    rebooted = bool(work.boot_id and boot and work.boot_id != boot)
    return asked or resumed or rebooted or revision_of(work.to or "") != target.variant.revision


def _retry_obeyed(draft: Draft) -> None:
    """The annotation goes once what failed is tried again, or where nothing has failed."""
    asked = names.DRIVER_RETRY in draft.node.metadata.annotations
    work, waits = draft.observed.work, draft.takes is None
    if not asked or (work is not None and work.phase == "Failed" and waits):
        return
    body = {"metadata": {"annotations": {names.DRIVER_RETRY: None}}}
    draft.plan.add(Merge(ref(NODE, draft.node), draft.node.metadata.resource_version, body))


def _late(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """A look that does not come to an end."""
    left = _left(work.deadline, draft) if work.deadline is not None else None
    if left is None:
        return
    if left > 0:
        draft.plan.requeue_within(left)
        return
    minutes = int((STATES[work.phase].limit or 0) / 60)
    message = f"the check pod on node {draft.node.name} did not end within {minutes} minutes"
    _refused(draft, work, driver, target, look.Verdict(reason=STATES[work.phase].late_reason, message=message))


def _left(until: str, draft: Draft) -> float:
    """Seconds until a limit passes; it stands still for a while where the node is, or was, not Ready."""
    work, limit = draft.observed.work, seconds(until)
    if work is not None:
        limit = limit_at(limit, begun(work.since, draft.now), draft.node, draft.now)
    return limit - draft.now


def _is_done(seen: ObservedNode) -> bool:
    """Whether the node is in service with the driver that is wanted."""
    reported = _version(seen)
    fits = bool(reported) and (seen.wanted_version is None or is_wanted(seen.wanted_version, reported))
    return fits and _in_service(seen)


def _in_service(seen: ObservedNode) -> bool:
    return seen.inventory is not None and is_true(seen.inventory.status.conditions, READY_FOR_POOLING)


def _version(seen: ObservedNode) -> str:
    return seen.report.driver_version if seen.report is not None else ""


def _make_check(draft: Draft) -> None:
    """The pod that looks at the node, where it is not there."""
    wanted = draft.observed.wanted_check
    if wanted is not None and all(pod.name != wanted.name for pod in draft.observed.checks):
        _make_objects(draft, (CONFIGMAP, draft.observed.objects.configmap))  # which it mounts
        draft.plan.add(Apply(Ref(POD, wanted.name, names.NAMESPACE), wanted.body))


def _make_objects(draft: Draft, *objects: tuple[Resource, Json | None]) -> None:
    """What the target's pods need, where it is not there."""
    target = draft.observed.target
    for resource, body in objects:
        if body is not None and target is not None:
            draft.plan.add(Apply(Ref(resource, target.variant.object_name, names.NAMESPACE), body))


def _label(draft: Draft, value: str) -> None:
    draft.plan.add(Apply(ref(NODE, draft.node), {"metadata": {"labels": {names.DRIVER_VARIANT: value}}}))


def _event(draft: Draft, reason: str, message: str, kind: Literal["Normal", "Warning"] = "Warning") -> None:
    draft.plan.add(EmitEvent(ref(GPUNODEINVENTORY, draft.inventory), kind, reason, message))
