"""How the cards of a simulated node are divided: the hardware's own state, in an annotation of the Node. Pure.

As mode and instances do in a real card, it outlives every program.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from controllers.domain.mig import DISABLED, CardLayout
from controllers.domain.pci import canonical
from sim.nodes import names

if TYPE_CHECKING:
    from collections.abc import Mapping


def held(annotations: Mapping[str, str]) -> dict[str, CardLayout]:
    """How the cards are divided, by address: those in MIG mode, each with its instances."""
    try:
        found: dict[str, Any] = json.loads(annotations.get(names.MIG, "{}"))
        divided = {
            canonical(address): CardLayout(enabled=True, instances={str(name): int(n) for name, n in each.items()})
            for address, each in found.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
    return {address: layout for address, layout in divided.items() if address is not None}


def text(divided: Mapping[str, CardLayout]) -> str | None:
    """The same as the annotation has it; None where no card is in MIG mode."""
    found = {address: dict(layout.instances) for address, layout in divided.items() if layout != DISABLED}
    return json.dumps(found, sort_keys=True) if found else None
