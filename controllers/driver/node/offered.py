"""Whether the cards of a node that is back are offered again, as far as they are to be. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.assignment import assigned_pool
from controllers.domain.eligibility.chain import check_card
from controllers.domain.issuing import offer_of
from controllers.driver.node.draft import in_service

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Offer
    from controllers.driver.views import ObservedNode

KEPT_OUT: Final[frozenset[Offer]] = frozenset(("KeptOut", "Drifted", "PoolUnknown"))
"""Words of gpupool for a card that is not offered until somebody does something."""


def is_offered(seen: ObservedNode) -> bool:
    """Whether the node serves, and no plugin is about to offer one of its cards."""
    return in_service(seen) and not any(_is_awaited(one, seen) for one in seen.devices)


def _is_awaited(device: GPUDevice, seen: ObservedNode) -> bool:
    """Whether a card that its plugin does not offer is to be.

    Of each card of a node that is out of service gpupool says that it is withdrawn, and goes on to say so only of one
    that is not to be offered. So that word, or none, or `Offered` of a time before, is one of a card at which it has
    yet to look, where nothing that is on record keeps the card from being offered.
    """
    home = device.home
    if home is None or device.status.published is not None or device.status.foreign_allocations:
        return False
    if assigned_pool(device) != home or home in seen.closed_pools or check_card(device, ready=True) is not None:
        return False
    return offer_of(device) not in KEPT_OUT
