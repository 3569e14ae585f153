"""What a card's part of its node's MIG layout says, and whether it has come true. Pure.

The MIG manager acknowledges each version of a card's part in `migApply`, also where nothing had to be done: a report
of how the card is divided may lag, an acknowledgement of exactly this version cannot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CONFIGMAP
from controllers.domain.clock import stamp_exact
from controllers.domain.mig import DISABLED, NodeLayout, card_of, configmap
from controllers.runtime.plan import Apply, Ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, MigApply
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.observe import NodeFacts, ObservedPool


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


def is_whole(facts: NodeFacts, device: GPUDevice) -> bool:
    """Whether nothing of MIG is left to be done to a card that is to be in no MIG pool.

    A part that is not ours to turn back has to leave the layout first: until then a MIG manager may be at it.
    """
    part = part_of(facts, device)
    return part is None or (part.ours and part.layout == DISABLED and is_done(part, device))


def ask_again(seen: ObservedPool, cards: dict[str, list[str]], now: float) -> tuple[Apply, ...]:
    """Writes that make MIG managers try cards again. `cards`: PCI addresses by node."""
    writes = []
    for name, addresses in sorted(cards.items()):
        facts = seen.facts(name)
        if facts.node is None or facts.layout is None:
            continue
        asked = tuple(
            replace(card, asked=stamp_exact(now)) if card.address in addresses else card for card in facts.layout.cards
        )
        if (body := configmap(facts.node, NodeLayout(asked))) is not None:
            writes.append(Apply(Ref(CONFIGMAP, names.mig_layout(name), names.NAMESPACE), body))
    return tuple(writes)
