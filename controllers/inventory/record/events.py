"""Kubernetes Events about a GPUNodeInventory: conditions that changed, cards found and removed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, PREREQUISITE_NOT_MET
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.resources import GPUNODEINVENTORY
from controllers.domain.wording import format_message
from controllers.inventory.record.desired import DesiredCard, Removal
from controllers.runtime.plan import EmitEvent, PlanBuilder, Ref, ref

if TYPE_CHECKING:
    from controllers.api.meta import Condition
    from controllers.inventory.record.desired import ReportState
    from controllers.inventory.views import ObservedNode


UNTOLD: frozenset[ReportState] = frozenset({"NotLabelled", "Absent", "NotServed"})
"""Nobody tells of a node's cards; the event about that is named as the alert."""


def condition_event(about: Ref, before: Condition | None, now: Condition, report: ReportState) -> EmitEvent | None:
    """The event about a condition of the node, where it changed enough for a person to look.

    `report`: how the report is on which InventoryIncomplete rests. While it is outdated the condition says one and the
    same, so any change of it is that it has become so.
    """
    text = format_message(f"{now.type} is {now.status} ({now.reason}): {now.message}")
    if now.status != "False":
        text += f" More: kubectl describe gpunodeinventory {about.name}"
    rests_on = report if now.type == INVENTORY_INCOMPLETE else None
    if rests_on == "Outdated" and now != before:
        return EmitEvent(about, "Warning", names.EVENT_INVENTORY_OUTDATED, text)
    if (before.status if before else "False") == now.status or (before is None and rests_on == "Absent"):
        return None  # a node that has just joined waits for its agent: nothing has changed
    is_untold = rests_on in UNTOLD or (now.type == PREREQUISITE_NOT_MET and now.status == "True")
    word = names.EVENT_NODE_FEATURE_MISSING if is_untold else names.EVENT_INVENTORY_CONDITION
    return EmitEvent(about, "Warning" if now.status == "True" else "Normal", word, text)


def add_card_events(
    draft: PlanBuilder, seen: ObservedNode, cards: tuple[DesiredCard, ...], removals: tuple[Removal, ...]
) -> None:
    """Events about the node, one for all its cards: a rack that is switched on is no flood."""
    about = ref(GPUNODEINVENTORY, seen.inventory or GPUNodeInventory()) if seen.inventory else None
    about = about or Ref(GPUNODEINVENTORY, seen.name)
    if detected := [card for card in cards if card.device is None]:
        shown = ", ".join(f"{card.address} ({card.describe})" for card in detected)
        draft.add(EmitEvent(about, "Normal", names.EVENT_DEVICE_DETECTED, f"{len(detected)} cards found: {shown}"))
    if recognised := [card for card in cards if card.is_recognised]:
        shown = ", ".join(f"{card.address} ({card.describe})" for card in recognised)
        text = f"{len(recognised)} cards recognised on a Node that was deleted; what was said of them holds: {shown}"
        draft.add(EmitEvent(about, "Normal", names.EVENT_DEVICE_RECOGNISED, text))
    for removal in removals:
        text = f"GPUDevice {removal.device.name} is removed: {removal.reason}"
        draft.add(EmitEvent(about, "Normal", names.EVENT_DEVICE_REMOVED, text))
