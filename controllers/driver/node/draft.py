"""A node's plan while it is made, and the writes that several of its steps have in common. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.resources import CONFIGMAP, GPUNODEINVENTORY, NODE, POD
from controllers.domain.clock import begun, seconds
from controllers.domain.driver.choice import is_wanted
from controllers.domain.driver.node_work import limit_at
from controllers.domain.driver.variant import serves
from controllers.driver.node.work import step, write_work
from controllers.runtime.plan import Apply, Delete, EmitEvent, Merge, Plan, PlanBuilder, Ref, ref

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork, LastDriverWork, Phase
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.api.reasons.typed import Reason
    from controllers.api.resources import Resource
    from controllers.domain.driver.choice import Install
    from controllers.domain.driver.states import StartPermit
    from controllers.driver.views import Json, ObservedNode

LOOKED_AT: Final = ("Preflight", "Queued", "Blocked", "Deferred")
"""Phases of a node whose driver is to be replaced, and that still has it."""
AWAITED: Final = 30.0
"""Seconds after which a node that waits for a permit asks again, should nobody have woken it."""
KERNEL_CHANGED: Final[Reason] = "KernelChanged"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node's plan, and what of it concerns others."""

    plan: Plan
    takes: StartPermit | None = None
    """The permit that its write takes: it must be made under the lock of the permits."""
    awaits: StartPermit | None = None
    """The permit for which the node waits."""
    missing: str | None = None
    """An image that the node's registry does not have."""
    found: str | None = None
    """An image that the node has got, which had been missing."""


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
    takes: StartPermit | None = None
    awaits: StartPermit | None = None
    missing: str | None = None
    found: str | None = None

    def built(self) -> NodePlan:
        """The plan."""
        phase = self.after.phase if self.after is not None else None
        kept = {"Preflight": self.observed.wanted_check, "Clearing": self.observed.wanted_clearing_check}
        wanted = kept.get(phase) if phase is not None else None
        for check in self.observed.checks:
            if (wanted is None or check.name != wanted.name) and check.metadata.deletion_timestamp is None:
                self.plan.add(Delete(ref(POD, check)))
        if self.awaits is not None:
            self.plan.requeue_within(AWAITED)
        return NodePlan(self.plan.build(), self.takes, self.awaits, self.missing, self.found)

    def write(self, work: DriverWork | None, last: LastDriverWork | None = None) -> None:
        """The node's work as it is from now on, where it is not so already."""
        self.after = work
        if work != self.observed.work or last is not None:
            self.plan.add(write_work(self.inventory, work, last))

    def enter(self, phase: Phase, target: Install, driver: str, **more: object) -> DriverWork:
        """The work in a phase on the way to that driver."""
        compiled, to = target.mode == "Compiled", target.variant.value
        made = step(
            self.observed.work,
            phase,
            self.now,
            driver=driver,
            node=self.node,
            to=to,
            compiled=compiled,
            stratum=self.observed.stratum,
            **{"missing": target.missing, **self._kernel_changed(), **more},  # type: ignore[arg-type]
        )
        return self._continued(made)

    def _continued(self, made: DriverWork) -> DriverWork:
        """The work with what a node whose driver is to be replaced keeps until it is begun."""
        before = self.observed.work
        if before is None or before.wave is None or before.phase not in LOOKED_AT:
            return made
        made = replace(made, wave=before.wave, undoes=before.undoes, gpu_seconds=before.gpu_seconds)
        if before.undoes is None or made.phase == "Blocked":
            return made
        return replace(made, reason=before.reason, message=before.message, fault=before.fault)

    def _kernel_changed(self) -> dict[str, str]:
        """Why a node that has a label gets a driver like a bare one, where that is for a kernel that ran before."""
        label, kernel = self.node.metadata.labels.get(names.DRIVER_VARIANT), self.node.status.node_info.kernel_version
        if label is None or serves(label, kernel):
            return {}
        message = f"the node runs kernel {kernel}, and its driver ({label}) is for another: it gets one for this kernel"
        return {"reason": KERNEL_CHANGED, "message": message}


def time_left(until: str, draft: Draft) -> float:
    """Seconds until a limit passes; it stands still for a while where the node is, or was, not Ready."""
    work, limit = draft.observed.work, seconds(until)
    if work is not None:
        limit = limit_at(limit, begun(work.since, draft.now), draft.node, draft.now)
    return limit - draft.now


def make_check(draft: Draft) -> None:
    """The pod that looks at the node, where it is not there."""
    wanted = draft.observed.wanted_check
    if wanted is not None and all(pod.name != wanted.name for pod in draft.observed.checks):
        make_objects(draft, (CONFIGMAP, draft.observed.objects.configmap))  # which it mounts
        draft.plan.add(Apply(Ref(POD, wanted.name, names.NAMESPACE), wanted.body))


def make_objects(draft: Draft, *objects: tuple[Resource, Json | None]) -> None:
    """What the target's pods need, where it is not there."""
    target = draft.observed.target
    for resource, body in objects:
        if body is not None and target is not None:
            draft.plan.add(Apply(Ref(resource, target.variant.object_name, names.NAMESPACE), body))


def set_label(draft: Draft, value: str) -> None:
    """Have the DaemonSet of a variant come to the node."""
    draft.plan.add(Apply(ref(NODE, draft.node), {"metadata": {"labels": {names.DRIVER_VARIANT: value}}}))


def take_label(draft: Draft) -> None:
    """Have the DaemonSet of the node's variant leave the node, if nothing about it has changed since it was read."""
    body = {"metadata": {"labels": {names.DRIVER_VARIANT: None}}}
    draft.plan.add(Merge(ref(NODE, draft.node), draft.node.metadata.resource_version, body))


def event(draft: Draft, reason: str, message: str, kind: Literal["Normal", "Warning"] = "Warning") -> None:
    """Tell people of the node's inventory, after the writes before."""
    draft.plan.add(EmitEvent(ref(GPUNODEINVENTORY, draft.inventory), kind, reason, message))


def in_service(seen: ObservedNode) -> bool:
    """Whether the node is ready for pooling, as its own checks say."""
    return seen.inventory is not None and is_true(seen.inventory.status.conditions, READY_FOR_POOLING)


def may_relabel(draft: Draft, value: str) -> bool:
    """Whether the node's label may name that variant: the driver of another one, which would go, serves nobody."""
    seen, label = draft.observed, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    return label in (None, value) or not (in_service(seen) or seen.used)


def is_done(seen: ObservedNode) -> bool:
    """Whether the node is in service with the driver that is wanted."""
    reported = reported_version(seen)
    fits = bool(reported) and (seen.wanted_version is None or is_wanted(seen.wanted_version, reported))
    return fits and in_service(seen)


def reported_version(seen: ObservedNode) -> str:
    """The driver that runs, as the agent says; empty without one."""
    return seen.report.driver_version if seen.report is not None else ""
