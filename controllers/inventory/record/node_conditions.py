"""The conditions of a GPUNodeInventory that the inventory controller owns, decided in one place. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.domain.approval import is_ignored
from controllers.domain.position import is_set_aside
from controllers.domain.report import is_of_this_boot
from controllers.inventory.record import conditions
from controllers.inventory.reports import nfd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.conditions import Finding
    from controllers.api.kube import Node
    from controllers.api.settings import ManagedNodes
    from controllers.inventory.record.desired import DesiredCard, ReportState
    from controllers.inventory.reports.discovered_cards import DiscoveredCards
    from controllers.inventory.views import ObservedNode


def node_conditions(
    seen: ObservedNode, node: Node, managed_nodes: ManagedNodes, incomplete: Finding
) -> dict[str, Finding]:
    """All of them by type, in the order in which the status lists them."""
    return {
        kinds.MANAGED_DISABLED: conditions.managed(node, managed_nodes),
        kinds.INVENTORY_INCOMPLETE: incomplete,
        kinds.PREREQUISITE_NOT_MET: conditions.prerequisite(seen.name, nfd=seen.nfd_served, refused=seen.rule_error),
    }


class Completeness(NamedTuple):
    """InventoryIncomplete of the node, and how the report is that it rests on."""

    finding: Finding
    report: ReportState = "Current"


def incomplete(
    seen: ObservedNode,
    reading: DiscoveredCards | None,
    cards: Sequence[DesiredCard],
    models: Sequence[nfd.Model] | None,
    left_out: int,
) -> Completeness:
    """InventoryIncomplete of the node: first what makes all of it doubtful, then its single cards."""
    node, report = seen.node, seen.report
    if node is None or not seen.nfd_served:
        return Completeness(conditions.unseen(seen.name), "NotServed")
    if models and not seen.has_card_label:
        return Completeness(conditions.not_labelled(seen.name, nfd.describe(models)), "NotLabelled")
    if reading is None or report is None:
        return Completeness(conditions.silent(node, report, len(cards), nfd.describe(models or ())), "Absent")
    if seen.has_card_label and not is_of_this_boot(report, node):
        return Completeness(conditions.outdated(seen.name), "Outdated")
    gone = [card for card in cards if card.is_unreported]
    aside = {card.address for card in cards if _is_set_aside(card)}
    problems = [card.problem for card in reading.cards if card.problem and card.address not in aside]
    problems += [f"{card.address} is on record and not reported" for card in gone]
    problems += nfd.unreported(models or (), reading.cards)
    if not cards and not models and seen.has_card_label:
        problems.append(f"no card is reported, but label {names.LABEL_PRESENT}=true is set")
    if left_out:
        problems.append(
            f"{left_out} more reported than a node may have on record ({names.CARDS_MAX}), where cards that are not"
            " reported any more count until they are gone"
        )
    return Completeness(conditions.node(seen.name, [*reading.problems, *problems], len(aside)))


def _is_set_aside(card: DesiredCard) -> bool:
    """Whether nobody waits for the card: what it lacks makes no node incomplete."""
    ignored = card.device is not None and is_ignored(card.device.metadata)
    incomplete = card.incomplete.status is True
    return ignored or (card.hardware is not None and is_set_aside(card.hardware.pci, incomplete=incomplete))
