"""The checks in the order in which they are told: one chain, for everybody who asks.

gpupool-controller goes by it when it takes cards in, offers them and says what waits; the webhook when somebody assigns
a card; kubectl when it assigns a node's cards. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controllers.domain.eligibility.checks import (
    card_stays,
    hardware_is_known,
    mode_fits,
    mode_is_served,
    no_condition_blocks,
    nobody_else_has_it,
    nobody_uses_it,
    node_has_room,
    node_is_ready,
    pool_exists,
    pool_stays,
    selectors_match,
)
from controllers.domain.eligibility.records import CardContext, Ineligible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice

Check = Callable[[CardContext], Ineligible | None]

POOL_CHECKS: Final[tuple[Check, ...]] = (pool_exists, pool_stays, mode_is_served, selectors_match)
"""Whether the pool takes such cards."""
CARD_CHECKS: Final[tuple[Check, ...]] = (no_condition_blocks, hardware_is_known, node_is_ready)
"""Whether the card can be in any pool, and be offered there; these ask nothing about the pool."""
PLACE_CHECKS: Final[tuple[Check, ...]] = (mode_fits, node_has_room, nobody_else_has_it, nobody_uses_it)
"""Whether it can come now."""
CHECKS: Final[tuple[Check, ...]] = (card_stays, *POOL_CHECKS, *CARD_CHECKS, *PLACE_CHECKS)
SAME_FOR_ALL_POOLS: Final[frozenset[Check]] = frozenset((card_stays, *CARD_CHECKS, nobody_else_has_it, nobody_uses_it))
"""Checks that ask nothing about the pool, nor about its cards."""


def failed_checks(seen: CardContext, checks: Iterable[Check] = CHECKS) -> list[Ineligible]:
    """What all checks say that the card does not pass, in their order."""
    return [found for check in checks if (found := check(seen)) is not None]


def first_failed(seen: CardContext, checks: Iterable[Check] = CHECKS) -> Ineligible | None:
    """What the first check says that the card does not pass; None where it passes all."""
    for check in checks:
        if (found := check(seen)) is not None:
            return found
    return None


def checks_left(seen: CardContext) -> tuple[Check, ...]:
    """The chain for one card and any pool: what is the same for all of them is looked up here, and not once more.

    The order stays: a check that the card passes is left out, and one that it does not pass ends the chain.
    """
    left: list[Check] = []
    for check in CHECKS:
        if check not in SAME_FOR_ALL_POOLS:
            left.append(check)
        elif (found := check(seen)) is not None:
            return (*left, _fails_with(found))
    return tuple(left)


def _fails_with(found: Ineligible) -> Check:
    return lambda _seen: found


def check_card(device: GPUDevice, *, ready: bool) -> Ineligible | None:
    """Why the card cannot be in any pool now, nor be offered. `ready`: its node is ReadyForPooling."""
    return first_failed(_of_no_pool(device, ready=ready), CARD_CHECKS)


def check_free_card(device: GPUDevice, *, ready: bool) -> Ineligible | None:
    """Why no pool could take the card now, whichever it is. `ready`: its node is ReadyForPooling."""
    return first_failed(_of_no_pool(device, ready=ready), (card_stays, *CARD_CHECKS))


def _of_no_pool(device: GPUDevice, *, ready: bool) -> CardContext:
    return CardContext(device, "", None, None, ready, None, 0, maybe_in_use=False)
