"""Which flavour of the kernel modules serves the cards of a node, and whether a version serves them at all. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.catalogue import is_older
from controllers.domain.catalogue.drivers import generation
from controllers.domain.driver.choice import Blocked
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudriver import GPUDriverSpec
    from controllers.domain.catalogue.drivers import Row
    from controllers.domain.driver.choice import Modules
    from controllers.domain.driver.node import Card

SERVED: Final[dict[str, frozenset[Modules]]] = {
    "open": frozenset(("Open",)),
    "proprietary": frozenset(("Proprietary",)),
    "either": frozenset(("Open", "Proprietary")),
}


def modules_for(spec: GPUDriverSpec, cards: Iterable[Card]) -> Modules | Blocked:
    """The flavour for a node with these cards; Auto takes the open one where it serves them all.

    A card that the catalogue does not know is newer than it, and counts as one that takes the open modules.
    """
    kinds = _generations(cards)
    return _version_refused(spec.version, kinds) or _flavour(spec, kinds)


def branch_of(version: str) -> str:
    """The branch of a version: 580 of 580.178.04."""
    return version.partition(".")[0]


def _generations(cards: Iterable[Card]) -> dict[str, Row | None]:
    """Each kind of card by what it is called, with its generation."""
    found = {}
    for card in cards:
        row = generation(card.device, card.compute)
        found[f"{next(iter(sorted(card.products)), '') or 'card'} ({row.name if row else card.device})"] = row
    return dict(sorted(found.items()))


def _version_refused(version: str, kinds: dict[str, Row | None]) -> Blocked | None:
    branch = int(branch_of(version))
    for name, row in kinds.items():
        if row is not None and row.last_branch is not None and branch > row.last_branch:
            return Blocked(
                "CardDropped",
                f"version {version} no longer serves {name}, expected branch {row.last_branch} or older: set "
                f"spec.version to a version of branch {row.last_branch} for nodes with such cards",
            )
        if row is not None and row.driver is not None and is_older(version, row.driver):
            return Blocked(
                "CardTooNew",
                f"version {version} does not know {name} yet, expected {row.driver} or newer: raise spec.version",
            )
    return None


def _flavour(spec: GPUDriverSpec, kinds: dict[str, Row | None]) -> Modules | Blocked:
    served = {name: SERVED[row.modules if row is not None else "open"] for name, row in kinds.items()}
    common: frozenset[Modules] = SERVED["either"].intersection(*served.values())
    if not common:
        return Blocked(
            "MixedFlavours",
            f"the node has cards that only the open modules serve and others that only the proprietary ones do: "
            f"{listed(f'{name}: {_words(flavours)}' for name, flavours in served.items())}; one node runs one driver: "
            "move cards to other nodes, or leave the node to its host's driver (label gpu.deckhouse.io/driver-opt-out)",
        )
    if spec.flavour != "Auto" and spec.flavour not in common:
        refused = listed(name for name, flavours in served.items() if spec.flavour not in flavours)
        return Blocked(
            "FlavourNotServed",
            f"spec.flavour is {spec.flavour}, and {refused} needs the other one: set spec.flavour to Auto, or leave "
            "such nodes out of spec.target",
        )
    modules: Modules = ("Open" if "Open" in common else "Proprietary") if spec.flavour == "Auto" else spec.flavour
    if spec.gds.enabled and modules == "Proprietary":
        return Blocked(
            "FlavourNotServed",
            f"spec.gds needs the open modules, which do not serve {listed(served)}: leave such nodes out of "
            "spec.target, or set spec.gds.enabled to false",
        )
    return modules


def _words(flavours: Iterable[Modules]) -> str:
    return " or ".join(sorted(flavour.lower() for flavour in flavours))
