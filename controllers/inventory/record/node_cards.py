"""The cards of one node: its reports joined with the GPUDevices on record. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.report import is_of_this_boot
from controllers.inventory import identity
from controllers.inventory.record import conditions
from controllers.inventory.record.card_matching import missing_card, reported_card, unreported_card
from controllers.inventory.record.desired import Decision, DesiredCard, Removal
from controllers.inventory.record.node_conditions import incomplete, node_conditions
from controllers.inventory.reports import gfd, nfd
from controllers.inventory.reports.discovered_cards import DiscoveredCards, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.settings import ManagedNodes
    from controllers.inventory.record.remembered import Retention
    from controllers.inventory.views import ObservedNode


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a node's reports and records say of its cards, before they are joined."""

    reading: DiscoveredCards | None
    """The agent's report; None where it does not speak of cards."""
    models: tuple[nfd.Model, ...] | None
    """The card models that NFD sees; None where it does not report the bus."""
    recorded: Mapping[str, GPUDevice]
    """GPUDevices of the node by PCI address."""
    is_conclusive: bool
    """Whether a recorded card that the report does not name is gone for certain."""

    def names_cards(self, seen: ObservedNode) -> bool:
        """Whether a label, a record or the report says that the node has cards."""
        reported = self.reading is not None and bool(self.reading.cards or self.reading.problems)
        return seen.has_card_label or bool(self.recorded) or reported


def decide(seen: ObservedNode, memory: Retention, managed_nodes: ManagedNodes) -> Decision:
    """The GPUDevices and conditions that a node is to have; nothing for a Node that does not exist."""
    node, evidence = seen.node, _evidence(seen)
    has_cards = evidence.names_cards(seen)
    if node is None or not (has_cards or seen.inventory):
        return Decision()
    if not has_cards and seen.nfd_served:
        of_node = node_conditions(seen, node, managed_nodes, conditions.node(seen.name, ()))
        return Decision(conditions=of_node, is_gpu_node=True, is_obsolete=_is_obsolete(seen))
    found = _joined(seen, memory, evidence)
    desired, left_out = _within_limit([card for card in found if isinstance(card, DesiredCard)])
    desired.sort(key=lambda card: card.address)
    removals = [one for one in found if isinstance(one, Removal) and one.device.metadata.deletion_timestamp is None]
    found_incomplete = incomplete(seen, evidence.reading, desired, evidence.models, left_out)
    unnamed = bool(evidence.reading.problems) if evidence.reading else seen.has_card_label
    return Decision(
        tuple(desired),
        tuple(removals),
        node_conditions(seen, node, managed_nodes, found_incomplete.finding),
        report=found_incomplete.report,
        present=bool(desired) or unnamed,
        is_gpu_node=True,
    )


def _evidence(seen: ObservedNode) -> Evidence:
    models, node = nfd.read(seen.nfd_reports), seen.node
    left_over = _is_report_left_over(seen, models)
    reading = DiscoveredCards() if left_over else _discovered(seen)
    recorded = {address: d for d in seen.devices if (address := _recorded_address(seen.name, d)) is not None}
    is_current = _is_fresh(seen) or (left_over and node is not None and node.ready)
    return Evidence(reading, models, recorded, reading is not None and reading.is_complete and is_current)


def _joined(seen: ObservedNode, memory: Retention, evidence: Evidence) -> list[DesiredCard | Removal]:
    """Reported cards with their records first, then the records that the report does not name."""
    recorded = dict(evidence.recorded)
    reported = evidence.reading.cards if evidence.reading else ()
    found = [reported_card(seen, memory, card, recorded.pop(card.address, None)) for card in reported]
    places = _inventory_ids_by_uuid(seen, [card for card in found if isinstance(card, DesiredCard)])
    confirmed = evidence.is_conclusive
    for address, device in recorded.items():
        if device.is_remembered:
            found.append(missing_card(seen, memory, device, confirmed=confirmed))
        else:
            found.append(unreported_card(seen, evidence.reading, address, device, places, confirmed=confirmed))
    return found


def _within_limit(wanted: list[DesiredCard]) -> tuple[list[DesiredCard], int]:
    """So many cards as a node may have on record, and how many new ones are left out.

    A single report cannot have more; one after the other could, if none of them says that the cards before are gone.
    """
    room = names.CARDS_MAX - sum(card.device is not None for card in wanted)
    new = [card for card in wanted if card.device is None]
    if len(new) <= room:
        return wanted, 0
    taken = new[: max(0, room)]
    return [*(card for card in wanted if card.device is not None), *taken], len(new) - len(taken)


def _is_report_left_over(seen: ObservedNode, models: Sequence[nfd.Model] | None) -> bool:
    """Whether the agent's report speaks of cards that are no more.

    The agent runs where the node is labelled. When the last card goes, so does the label, and with it the
    agent, before it could say so: NFD, which looks at the same bus, sees none.
    """
    labelled = seen.node is not None and names.LABEL_PRESENT in seen.node.metadata.labels
    return not labelled and models is not None and not models


def _is_obsolete(seen: ObservedNode) -> bool:
    """Whether nobody needs the summary of a node without cards: bootstrap has closed the gates by what it says."""
    hw = seen.inventory.status.hw if seen.inventory else None
    labels = seen.node.metadata.labels if seen.node else {}
    return hw is not None and not hw.devices and not any(key.startswith(names.deploy_label("")) for key in labels)


def _discovered(seen: ObservedNode) -> DiscoveredCards | None:
    """The agent's report, completed by GFD's labels where they can be true of each card."""
    reading = read(seen.report)
    if reading is None or seen.node is None:
        return reading
    return replace(reading, cards=gfd.complete(reading.cards, seen.node.metadata.labels))


def _inventory_ids_by_uuid(seen: ObservedNode, wanted: Sequence[DesiredCard]) -> dict[str, str]:
    """Where the cards with known uuids are now, in this node by its report and in others by record."""
    here = {
        card.hardware.uuid: identity.inventory_id(seen.name, card.address)
        for card in wanted
        if card.hardware is not None and card.hardware.uuid is not None
    }
    return {**seen.elsewhere, **here}


def _recorded_address(node: str, device: GPUDevice) -> str | None:
    """The address of a record of ours; None for one that somebody else made or moved here."""
    address = identity.address_of(device.name)
    return address if address is not None and identity.device_name(node, address) == device.name else None


def _is_fresh(seen: ObservedNode) -> bool:
    """Whether the report can say that a card is gone: its agent runs since the last start, on a node that is Ready."""
    node, report = seen.node, seen.report
    return report is not None and node is not None and node.ready and is_of_this_boot(report, node)
