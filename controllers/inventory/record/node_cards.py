"""Which cards a node has: what its report says, joined with what is recorded. Pure.

A recorded card keeps what the report no longer tells: after a reboot the agent reports before
the driver is loaded, and a card whose uuid was forgotten then could be exchanged unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.conditions import Finding
from controllers.domain.approval import is_ignored
from controllers.domain.catalogue import VENDORS
from controllers.domain.position import is_lost, is_set_aside
from controllers.domain.precision import family
from controllers.domain.report import is_of_this_boot
from controllers.inventory import identity
from controllers.inventory.record import conditions
from controllers.inventory.record.remembered import is_recognised
from controllers.inventory.reports import gfd, nfd
from controllers.inventory.reports.discovered_cards import Card, Reading, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice, Hardware
    from controllers.inventory.record.remembered import Memory
    from controllers.inventory.views import ObservedNode

FORGOTTEN = "its Node was deleted, and nobody recognised the card for as long as it is remembered"
REMEMBERED = ("uuid", "product", "memory_mib", "numa_node", "compute_capability", "precision", "mig", "nvlink")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A card that is to be on record."""

    address: str
    hardware: Hardware | None
    incomplete: Finding
    device: GPUDevice | None
    """Its record so far."""
    gone_since: str | None = None
    """Since when its Node was deleted, while nobody has recognised it."""
    is_unreported: bool = False
    """Whether there is a report that does not name it."""
    is_lost: bool = False
    """Whether it is gone from its node for certain."""

    @property
    def is_recognised(self) -> bool:
        """Whether its record is that of a Node that was deleted, and serves again from now on."""
        return self.device is not None and self.device.is_remembered and self.gone_since is None

    @property
    def labels(self) -> dict[str, str]:
        """What its labels are made of."""
        if self.hardware is None:
            return {}
        vendor = self.hardware.pci.vendor
        return {
            names.LABEL_VENDOR: VENDORS[vendor].name if vendor in VENDORS else vendor,
            names.LABEL_PRODUCT: self.hardware.product or "",
            names.LABEL_FAMILY: family(self.hardware.compute_capability) or "",
        }

    @property
    def describe(self) -> str:
        """The card in a few words."""
        if self.hardware is None:
            return "not identified"
        pci = self.hardware.pci
        return self.hardware.product or f"PCI {pci.vendor}:{pci.device}"


@dataclass(frozen=True, slots=True)
class Removal:
    """A card whose record goes, and why."""

    device: GPUDevice
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be recorded of a node."""

    wanted: tuple[Wanted, ...] = ()
    removals: tuple[Removal, ...] = ()
    of_node: Mapping[str, Finding] = field(default_factory=dict)
    """Conditions of the node by type."""
    present: bool = False
    """Whether the node has a card, identified or not."""
    is_gpu_node: bool = False
    was_gpu_node: bool = False
    """Nothing speaks of cards any more: the summary, which says so, may go."""


def decide(seen: ObservedNode, memory: Memory) -> Decision:
    """Join the reports with the records of a node that exists."""
    node, models = seen.node, nfd.read(seen.bus)
    reading, left_over = _reading(seen), _is_left_over(seen, models)
    if left_over:
        reading = Reading()
    known = {address: d for d in seen.devices if (address := _address(seen.name, d)) is not None}
    speaks = bool(seen.labelled or known or (reading is not None and (reading.cards or reading.problems)))
    if node is None or not (speaks or seen.inventory):
        return Decision()
    if not speaks and seen.nfd:
        return Decision(
            of_node=_of_node(seen, conditions.node(seen.name, ())), is_gpu_node=True, was_gpu_node=_is_left(seen)
        )
    reported = reading.cards if reading else ()
    found = [_reported(seen, memory, card, known.pop(card.address, None)) for card in reported]
    places = _places(seen, [card for card in found if isinstance(card, Wanted)])
    confirmed = reading is not None and reading.all_named and (_is_fresh(seen) or (left_over and node.ready))
    for address, device in known.items():
        if device.is_remembered:
            found.append(_missing(seen, memory, device, confirmed=confirmed))
        else:
            found.append(_unreported(seen, reading, address, device, places, confirmed=confirmed))
    wanted = [card for card in found if isinstance(card, Wanted)]
    removals = [card for card in found if isinstance(card, Removal)]
    wanted, left_out = _within_limit(wanted)
    wanted.sort(key=lambda card: card.address)
    removals = [removal for removal in removals if removal.device.metadata.deletion_timestamp is None]
    of_node = _of_node(seen, _incomplete(seen, reading, wanted, models, left_out))
    unnamed = bool(reading.problems) if reading else seen.labelled
    return Decision(tuple(wanted), tuple(removals), of_node, present=bool(wanted) or unnamed, is_gpu_node=True)


def _reported(seen: ObservedNode, memory: Memory, card: Card, device: GPUDevice | None) -> Wanted | Removal:
    """A card that the report names, with its record if there is one."""
    if device is None:
        return Wanted(card.address, card.hardware, conditions.card(seen.name, card), None)
    if other := _another(device, card.hardware):
        return Removal(device, other)
    hardware = _remember(device.status.hardware, card.hardware)
    if device.is_remembered and (memory.left(device) <= 0 or not is_recognised(seen, device, card)):
        return _waits(memory, device, hardware) if memory.keeps(device) else Removal(device, FORGOTTEN)
    known = replace(card, hardware=hardware).but_known() if _is_same(device, card) else card
    return Wanted(card.address, hardware, conditions.card(seen.name, known), device)


def _missing(seen: ObservedNode, memory: Memory, device: GPUDevice, *, confirmed: bool) -> Wanted | Removal:
    """A card whose Node was deleted and is back, and that the report does not name."""
    if confirmed:
        return Removal(device, f"its Node was deleted, and a fresh report of node {seen.name} does not name it")
    return _waits(memory, device, device.status.hardware) if memory.keeps(device) else Removal(device, FORGOTTEN)


def _waits(memory: Memory, device: GPUDevice, hardware: Hardware | None) -> Wanted:
    """A card whose Node was deleted and is back, and that is not known to be the same yet."""
    address = hardware.pci.address if hardware else ""
    finding = conditions.unrecognised(device, memory.until(device))
    return Wanted(address, hardware, finding, device, memory.since(device))


def _within_limit(wanted: list[Wanted]) -> tuple[list[Wanted], int]:
    """So many cards as a node may have on record, and how many new ones are left out.

    A single report cannot have more; one after the other could, if none of them says that the cards before are gone.
    """
    room = names.CARDS_MAX - sum(card.device is not None for card in wanted)
    new = [card for card in wanted if card.device is None]
    if len(new) <= room:
        return wanted, 0
    taken = new[: max(0, room)]
    return [*(card for card in wanted if card.device is not None), *taken], len(new) - len(taken)


def _is_left_over(seen: ObservedNode, models: Sequence[nfd.Model] | None) -> bool:
    """Whether the agent's report speaks of cards that are no more.

    The agent runs where the node is labelled. When the last card goes, so does the label, and with it the
    agent, before it could say so: NFD, which looks at the same bus, sees none.
    """
    labelled = seen.node is not None and names.LABEL_PRESENT in seen.node.metadata.labels
    return not labelled and models is not None and not models


def _is_same(device: GPUDevice | None, card: Card) -> bool:
    """Whether the report says that the card is the one on record: then what is on record is known of it."""
    old = device.status.hardware if device else None
    now = card.hardware
    return old is not None and now is not None and now.uuid is not None and now.uuid == old.uuid


def _of_node(seen: ObservedNode, incomplete: Finding) -> dict[str, Finding]:
    """The conditions of the node."""
    return {
        kinds.INVENTORY_INCOMPLETE: incomplete,
        kinds.PREREQUISITE_NOT_MET: conditions.prerequisite(seen.name, nfd=seen.nfd, refused=seen.refused),
    }


def _is_left(seen: ObservedNode) -> bool:
    """Whether nobody needs the summary of a node without cards: bootstrap has closed the gates by what it says."""
    hw = seen.inventory.status.hw if seen.inventory else None
    labels = seen.node.metadata.labels if seen.node else {}
    return hw is not None and not hw.devices and not any(key.startswith(names.deploy_label("")) for key in labels)


def _reading(seen: ObservedNode) -> Reading | None:
    """The agent's report, completed by GFD's labels where they can be true of each card."""
    reading = read(seen.report)
    if reading is None or seen.node is None:
        return reading
    return replace(reading, cards=gfd.complete(reading.cards, seen.node.metadata.labels))


def _places(seen: ObservedNode, wanted: Sequence[Wanted]) -> dict[str, str]:
    """Where the cards with known uuids are now, in this node by its report and in others by record."""
    here = {
        card.hardware.uuid: identity.inventory_id(seen.name, card.address)
        for card in wanted
        if card.hardware is not None and card.hardware.uuid is not None
    }
    return {**seen.elsewhere, **here}


def _address(node: str, device: GPUDevice) -> str | None:
    """The address of a record of ours; None for one that somebody else made or moved here."""
    address = identity.address_of(device.name)
    return address if address is not None and identity.device_name(node, address) == device.name else None


def _another(device: GPUDevice, now: Hardware | None) -> str:
    """How the card in that slot differs from the one on record; empty where it is the same."""
    old = device.status.hardware
    if old is None or now is None:
        return ""
    if (old.pci.vendor, old.pci.device) != (now.pci.vendor, now.pci.device):
        return f"PCI {now.pci.vendor}:{now.pci.device} is in its slot instead of {old.pci.vendor}:{old.pci.device}"
    if old.uuid and now.uuid and old.uuid != now.uuid:
        return f"{now.uuid} is in its slot instead of {old.uuid}"
    return ""


def _remember(old: Hardware | None, now: Hardware | None) -> Hardware | None:
    """The hardware as reported, and for what the report does not tell, as last known."""
    if old is None or now is None:
        return now or old
    # A driver that told of MIG has been asked for links too: none means that there are none. The compute capability
    # says nothing here: a label of GFD may tell it.
    keys = [key for key in REMEMBERED if key != "nvlink" or now.mig is None]
    kept = {key: value for key in keys if getattr(now, key) is None and (value := getattr(old, key)) is not None}
    return replace(now, **kept) if kept else now


def _unreported(
    seen: ObservedNode,
    reading: Reading | None,
    address: str,
    device: GPUDevice,
    places: Mapping[str, str],
    *,
    confirmed: bool,
) -> Wanted | Removal:
    """A card on record that the report does not name."""
    status = device.status
    if reading is None:
        # Nobody speaks: what was last known of the card holds.
        old = kinds.find(status.conditions, kinds.INVENTORY_INCOMPLETE)
        held = kinds.carried(old) if old and old.status != "Unknown" else None
        unknown = Finding(None, "NoReport", f"{conditions.source(seen.name)} says nothing of the node's cards")
        return Wanted(address, status.hardware, held or unknown, device, is_lost=is_lost(status))
    place = places.get(status.hardware.uuid or "", "") if status.hardware else ""
    if confirmed and not (status.pool_ref or status.reservations or status.allocations):
        moved = f"; it is {place} now" if place else ""
        return Removal(device, f"a fresh report of node {seen.name} does not name it{moved}")
    lost = conditions.lost(seen.name, address, confirmed=confirmed, place=place)
    return Wanted(address, status.hardware, lost, device, is_unreported=True, is_lost=confirmed)


def _is_fresh(seen: ObservedNode) -> bool:
    """Whether the report can say that a card is gone: its agent runs since the last start, on a node that is Ready."""
    node, report = seen.node, seen.report
    return report is not None and node is not None and node.ready and is_of_this_boot(report, node)


def _incomplete(
    seen: ObservedNode,
    reading: Reading | None,
    cards: Sequence[Wanted],
    models: Sequence[nfd.Model] | None,
    left_out: int,
) -> Finding:
    """InventoryIncomplete of the node: first what makes all of it doubtful, then its single cards."""
    node, report = seen.node, seen.report
    if node is None or not seen.nfd:
        return conditions.unseen(seen.name)
    if models and not seen.labelled:
        return conditions.not_labelled(seen.name, nfd.describe(models))
    if reading is None or report is None:
        return conditions.silent(node, report, len(cards), nfd.describe(models or ()))
    if seen.labelled and not is_of_this_boot(report, node):
        return conditions.outdated(seen.name)
    gone = [card for card in cards if card.is_unreported]
    aside = {card.address for card in cards if _is_set_aside(card)}
    problems = [card.problem for card in reading.cards if card.problem and card.address not in aside]
    problems += [f"{card.address} is on record and not reported" for card in gone]
    problems += nfd.unreported(models or (), reading.cards)
    if not cards and not models and seen.labelled:
        problems.append(f"no card is reported, but label {names.LABEL_PRESENT}=true is set")
    if left_out:
        problems.append(
            f"{left_out} more reported than a node may have on record ({names.CARDS_MAX}), where cards that are not"
            " reported any more count until they are gone"
        )
    return conditions.node(seen.name, [*reading.problems, *problems], len(aside))


def _is_set_aside(card: Wanted) -> bool:
    """Whether nobody waits for the card: what it lacks makes no node incomplete."""
    ignored = card.device is not None and is_ignored(card.device.metadata)
    incomplete = card.incomplete.status is True
    return ignored or (card.hardware is not None and is_set_aside(card.hardware.pci, incomplete=incomplete))
