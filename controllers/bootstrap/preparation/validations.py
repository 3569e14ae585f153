"""What the node agent's validators found on a node since it last started, read from its NodeFeature. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import validation
from controllers.domain.report import is_of_this_boot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.component import Component
    from controllers.api.validation import Validation
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.views import ObservedNode

MESSAGE_MAX: Final = 600
"""Characters of a validator's message that are passed on."""
VALIDATORS: Final = {validation.DRIVER: "driver-validator", validation.CONTAINER: "validator"}
"""Roles of the node agent's validators, and the components that run them."""


def enabled_roles(phases: Iterable[Component]) -> tuple[str, ...]:
    """The validators among the components that are to run."""
    components = {phase.name for phase in phases}
    return tuple(role for role, component in VALIDATORS.items() if component in components)


def validation_of(seen: ObservedNode, role: str) -> Validation | None:
    """What a validator found since the node last started; None where it has not looked since."""
    features = seen.report.spec.features.attributes.validation if seen.report else None
    found = validation.read(features.elements, role) if features else None
    if found is None or seen.node is None or seen.report is None or not is_of_this_boot(seen.report, seen.node):
        return None
    booted = seen.node.status.node_info.boot_id
    if found.boot_id and booted and found.boot_id != booted:
        return None
    return found.cut(MESSAGE_MAX)


def passes(seen: ObservedNode, card: Card, roles: Iterable[str]) -> bool:
    """Whether every one of these validators has looked, and finds fault with neither node nor card."""
    found = [validation_of(seen, role) for role in roles]
    return all(one is not None and one.result == validation.OK and not fails(one, card) for one in found)


def fails(found: Validation, card: Card) -> bool:
    """Whether a validator finds fault with that card alone."""
    hardware = card.status.hardware
    return hardware is not None and hardware.pci.address in found.cards_failed
