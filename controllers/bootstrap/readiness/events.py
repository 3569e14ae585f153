"""Kubernetes events about a node's readiness: when it becomes ready, is no more, or is kept in service. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.resources import GPUNODEINVENTORY
from controllers.bootstrap.readiness import conditions
from controllers.bootstrap.readiness.recorded_stage import recorded_stage
from controllers.domain.wording import format_message
from controllers.runtime.plan import EmitEvent, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.conditions import Finding
    from controllers.api.gpunodeinventory import GPUNodeInventory, Kept
    from controllers.api.meta import Condition


def readiness_changed(draft: PlanBuilder, inventory: GPUNodeInventory, found: Finding, kept: Kept | None) -> None:
    """An event when the node becomes ready, when it is no more, and when a fuse keeps it so."""
    before = kinds.find(inventory.status.conditions, kinds.READY_FOR_POOLING)
    was, about = before is not None and before.status == "True", ref(GPUNODEINVENTORY, inventory)
    if found.status and not was:
        draft.add(EmitEvent(about, "Normal", names.EVENT_NODE_READY, found.message))
    elif was and not found.status:
        text = format_message(f"{kinds.READY_FOR_POOLING} is False ({found.reason}): {found.message}")
        text += f" Its free cards leave circulation: kubectl describe gpunodeinventory {inventory.name}"
        draft.add(EmitEvent(about, "Warning", names.EVENT_INVENTORY_CONDITION, text))
    elif (
        kept == conditions.HELD
        and (last := recorded_stage(inventory.status.bootstrap, before))
        and last.kept != conditions.HELD
    ):
        draft.add(EmitEvent(about, "Warning", names.EVENT_FUSE_HELD, found.message))


def driver_missing(draft: PlanBuilder, inventory: GPUNodeInventory, now: Condition | None) -> None:
    """An event when the node's driver goes, or was never there: for people, and named as the alert."""
    if now is not None and now.status == "True" and not kinds.is_true(inventory.status.conditions, now.type):
        draft.add(EmitEvent(ref(GPUNODEINVENTORY, inventory), "Warning", names.EVENT_DRIVER_MISSING, now.message))


def managed_elsewhere(draft: PlanBuilder, inventory: GPUNodeInventory, now: Condition | None) -> None:
    """An event when others are found to serve the node's cards, too."""
    if now is not None and now.status == "True" and not kinds.is_true(inventory.status.conditions, now.type):
        text = format_message(f"{now.type} is True ({now.reason}): {now.message}")
        draft.add(EmitEvent(ref(GPUNODEINVENTORY, inventory), "Warning", names.EVENT_INVENTORY_CONDITION, text))
