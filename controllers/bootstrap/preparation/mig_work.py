"""MIG work on a node's GPUs, as an operation that suspends the node's preparation. Pure.

The node's MIG manager tells of its work in each card's `migApply`. The preparation is suspended while a card waits or
is being changed (`controllers.domain.node_operation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.components import HOLDING_GPU_OPEN, VALIDATOR
from controllers.api.gpudevice import MIG_WORK
from controllers.domain.catalogue import model
from controllers.domain.node_operation import NodeOperation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.bootstrap.records import Card

WITNESS: Final = frozenset({VALIDATOR})
"""What goes in any case: a container has the device nodes of the moment when it was made, and NVML shows it no instance
whose nodes it lacks. The one that comes when the work is done tells how the cards are divided. One that nobody sent
away ends itself (`nodeagent.validate.checks.renewal`), but after each division kubelet restarts it later."""


def mig_work(cards: Iterable[Card]) -> NodeOperation | None:
    """The MIG work on a node with these cards; None without any."""
    working = [card for card in cards if _is_at_work(card)]
    if not working:
        return None
    return NodeOperation(
        "MigWork",
        title="MIG work",
        effect="its cards are divided anew",
        progress="migApply of its GPUDevices",
        closes=HOLDING_GPU_OPEN if any(map(_is_reset, working)) else WITNESS,
    )


def _is_at_work(card: Card) -> bool:
    """Whether the MIG manager has to do with the card."""
    return card.status.mig_apply is not None and card.status.mig_apply.phase in MIG_WORK


def _is_reset(card: Card) -> bool:
    """Whether the GPU may be reset, so that its clients must go first.

    The catalogue says it of entering and leaving MIG mode; which of these the work is, the manager knows. A card that
    is not in the catalogue is taken to need it: to send clients away in vain costs a minute, to keep them the work.
    """
    pci = card.status.hardware.pci if card.status.hardware else None
    known = model(pci.vendor, pci.device) if pci else None
    return known is None or known.mig_needs_reset is not False
