"""Kubernetes Events about a GPUNodeInventory: conditions that changed, cards found and removed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.resources import GPUNODEINVENTORY
from controllers.domain.wording import format_message
from controllers.inventory.record.desired import DesiredCard, Removal
from controllers.runtime.plan import EmitEvent, PlanBuilder, Ref, ref

if TYPE_CHECKING:
    from controllers.api.meta import Condition
    from controllers.inventory.views import ObservedNode


FEATURE_MISSING = frozenset({"NotLabelled", "NoReport", "NodeFeatureNotServed", "RuleRefused"})
"""Reasons that say that nobody tells of a node's cards; the event about them is named as the alert."""


def condition_event(about: Ref, before: Condition | None, now: Condition) -> EmitEvent | None:
    """The event about a condition of the node, where it changed enough for a person to look."""
    text = format_message(f"{now.type} is {now.status} ({now.reason}): {now.message}")
    if now.status != "False":
        text += f" More: kubectl describe gpunodeinventory {about.name}"
    outdated = names.REASON_REPORT_OUTDATED
    if now.reason == outdated and (before is None or before.reason != outdated):
        return EmitEvent(about, "Warning", names.EVENT_INVENTORY_OUTDATED, text)
    if (before.status if before else "False") == now.status or (before is None and now.reason == "NoReport"):
        return None  # a node that has just joined waits for its agent: nothing has changed
    word = names.EVENT_NODE_FEATURE_MISSING if now.reason in FEATURE_MISSING else names.EVENT_INVENTORY_CONDITION
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
