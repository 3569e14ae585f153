"""What a card's part of its node's MIG layout says, and whether it has come true. Pure.

The MIG manager acknowledges each version of a card's part in `migApply`, also where nothing had to be done: a report
of how the card is divided may lag, an acknowledgement of exactly this version cannot.

What a node does not report is not taken for granted where a card is to be divided; what it does report is believed in
every mode: a card in MIG mode is no whole card, whoever turned that on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from controllers.api.resources import CONFIGMAP
from controllers.domain.clock import stamp_exact
from controllers.domain.mig import DISABLED, NodeLayout, card_of, configmap
from controllers.runtime.plan import Apply, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, MigApply
    from controllers.api.gpupool import Mode
    from controllers.api.kube import ConfigMap
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.observe import NodeFacts, ObservedPool

MIG_ENABLED: Final = "MIGEnabled"
MIG_STATE_UNKNOWN: Final = "MIGStateUnknown"


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why a card cannot be served in a mode, as far as MIG goes."""

    reason: str
    what: str
    do: str

    def __str__(self) -> str:
        """As sentences, without the last full stop."""
        return f"{self.reason}: {self.what}. {self.do}"


def part_of(facts: NodeFacts, device: GPUDevice) -> PlannedCard | None:
    """The card's part of its node's layout; None where it has none."""
    hardware, layout = device.status.hardware, facts.layout
    if hardware is None or layout is None:
        return None
    return next((card for card in layout.cards if card.address == hardware.pci.address), None)


def acknowledged(part: PlannedCard, device: GPUDevice) -> MigApply | None:
    """What the MIG manager says of exactly this version; None where it has said nothing yet."""
    told = device.status.mig_apply
    return told if told is not None and told.version == part.version else None


def is_done(part: PlannedCard, device: GPUDevice) -> bool:
    """Whether the card is divided as its part says, by the MIG manager and by the report of its node."""
    told, card = acknowledged(part, device), card_of(device)
    return told is not None and told.phase == "Done" and card is not None and card.actual == part.layout


def is_left_alone(facts: NodeFacts, device: GPUDevice) -> bool:
    """Whether nothing of MIG is left for us to do to a card that is to be in no MIG pool.

    A part that is not ours to turn back has to leave the layout first: until then a MIG manager may be at it.
    """
    part = part_of(facts, device)
    return part is None or (part.ours and part.layout == DISABLED and is_done(part, device))


def is_whole(facts: NodeFacts, device: GPUDevice) -> bool:
    """Whether the card can be offered as a whole one: in MIG mode programs run on its instances only."""
    return is_left_alone(facts, device) and not _is_enabled(device)


def hindrance(mode: Mode, facts: NodeFacts, device: GPUDevice) -> Hindrance | None:
    """What only an administrator can change before the card can be served in a mode; None where there is nothing."""
    part = part_of(facts, device)
    if mode == "MIG":
        return untold(device) if part is None else None
    if not _is_enabled(device) or (part is not None and part.ours):
        return None  # what we turned on we turn off
    address = device.status.hardware.pci.address if device.status.hardware else "<card>"
    off = f"on node {device.status.node_name}: nvidia-smi -i {address} -mig 0"
    return Hindrance(
        MIG_ENABLED,
        "the card is in MIG mode, which somebody else turned on, and a pool of this mode offers whole cards",
        f"Turn MIG mode off ({off}), or have a pool of mode MIG take the card",
    )


def teller(device: GPUDevice) -> str:
    """Who tells how a card is divided."""
    return f"the validator of node {device.status.node_name}"


def untold(device: GPUDevice) -> Hindrance | None:
    """What is missing where nobody tells how the card is divided; None where somebody does."""
    hardware = device.status.hardware
    if hardware is None or hardware.mig is not None:
        return None
    return Hindrance(
        MIG_STATE_UNKNOWN,
        f"nobody has told yet whether the card is in MIG mode: {teller(device)} does once it runs and NVML answers it",
        "See whether it runs there (bootstrap.validator of the settings must be on, and kubectl describe"
        f" gpunodeinventory {device.status.node_name} says what it waits for); it goes on by itself once that is told",
    )


def _is_enabled(device: GPUDevice) -> bool:
    hardware = device.status.hardware
    return hardware is not None and hardware.mig is not None and hardware.mig.enabled


def ask_again(seen: ObservedPool, cards: dict[str, list[str]], now: float) -> tuple[Apply, ...]:
    """Writes that make MIG managers try cards again. `cards`: PCI addresses by node."""
    writes = []
    for name, addresses in sorted(cards.items()):
        facts = seen.facts(name)
        if facts.node is None or facts.layout is None or facts.written is None:
            continue
        asked = tuple(
            replace(card, asked=stamp_exact(now)) if card.address in addresses else card for card in facts.layout.cards
        )
        if (body := configmap(facts.node, NodeLayout(asked))) is not None:
            writes.append(rewrite(facts.written, body))
    return tuple(writes)


def rewrite(found: ConfigMap, body: dict[str, Any]) -> Apply:
    """A node's layout in place of exactly the one that it was made from.

    The pools of a node and the node itself write it, each as a whole: none may undo what another one has just asked.
    """
    meta = {**body["metadata"], "resourceVersion": found.metadata.resource_version}
    return Apply(ref(CONFIGMAP, found), {**body, "metadata": meta})
