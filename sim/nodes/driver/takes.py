"""How long the steps of a driver's installation take on a simulated node, in seconds. Pure.

Annotation `sim.gpu.deckhouse.io/takes` says otherwise for a node: `pull=2,prepare=1,install=10`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sim.nodes import names

if TYPE_CHECKING:
    from collections.abc import Mapping

SLOW_PULL: Final = 120
"""Of fault pull-slow."""


@dataclass(frozen=True, slots=True)
class Takes:
    """Seconds."""

    pull: int = 1
    """To pull the driver's image for the first time; where it was pulled before it is there at once."""
    look: int = 0
    prepare: int = 0
    install: int = 3
    """From the start of the driver's container until its start-up probe passes."""
    back_off: int = 10
    """Between two tries of a container that fails, or of an image that cannot be pulled."""


def takes(annotations: Mapping[str, str], kinds: frozenset[str]) -> Takes:
    """Of a node whose driver these faults befall."""
    words = (word.strip().partition("=") for word in annotations.get(names.TAKES, "").split(","))
    told = {key: int(value) for key, _, value in words if key in Takes.__slots__ and value.isdecimal()}
    found = replace(Takes(), **told)
    return replace(found, pull=max(found.pull, SLOW_PULL)) if "pull-slow" in kinds else found
