"""How cards are shared, from the configurations of NVIDIA's device plugin. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from controllers.api.foreign import CARD
from controllers.api.gpudevice import SLOTS_MAX
from controllers.api.gpupool import EQUAL, MPS_CLIENTS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARED: Final = ".shared"
"""What the plugin puts behind a resource's name where the configuration says `renameByDefault`."""
Strategy = Literal["TimeSlice", "MPS"]
_STRATEGIES: Final[Mapping[str, Strategy]] = {"mps": "MPS", "timeSlicing": "TimeSlice"}
"""By the key of the configuration; where both stand there the plugin takes the first."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a card is shared under one configuration of the plugin."""

    strategy: Strategy | None = None
    """None: a card is one unit."""
    replicas: int = 1
    """Pods that share it."""
    resource: str = CARD
    """The resource that pods ask for there."""
    remarks: tuple[tuple[str, str], ...] = ()
    """What of it is otherwise here: the key, and the reason."""
    refused: str = ""
    """Why no pool can do it; empty where one can."""

    @property
    def allocation(self) -> dict[str, Any]:
        """The part of a GPUPool's spec."""
        if self.strategy == "TimeSlice":
            return {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": self.replicas}}
        if self.strategy == "MPS":
            return {"mode": "MPS", "mps": {"clients": self.replicas, "memory": EQUAL, "threads": EQUAL}}
        return {"mode": "Exclusive"}


def sharing(text: str) -> Sharing:
    """What a configuration's text asks for."""
    try:
        config = yaml.safe_load(text) or {}
        found = config.get("sharing") or {}
        strategies = [(key, found[key]) for key in _STRATEGIES if found.get(key)]
        if not strategies:
            return Sharing(remarks=_flags(config))
        key, block = strategies[0]
        both = ((key, "the plugin follows MPS where both are given, and so does this"),) if len(strategies) > 1 else ()
        return _shared(key, block, (*both, *_flags(config)))
    except (yaml.YAMLError, AttributeError, TypeError, KeyError, ValueError) as error:
        return Sharing(
            refused=f"it is no configuration of NVIDIA's device plugin: {' '.join(str(error).split())[:120]}"
        )


def _flags(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    known = {"version", "flags", "sharing", "resources"}
    remarks = [(str(key), "nothing in the module does this") for key in config if key not in known]
    if config.get("resources"):
        remarks.append(("resources", "names of resources are those of pools: gpu.deckhouse.io/<pool>"))
    return tuple(remarks)


def _shared(key: str, block: Mapping[str, Any], remarks: tuple[tuple[str, str], ...]) -> Sharing:
    replicas, resource, notes = 1, CARD, list(remarks)
    for entry in block.get("resources") or ():
        name, count, at = str(entry["name"]), int(entry["replicas"]), f"{key}.resources.{entry['name']}"
        if name != CARD:
            notes.append((at, "MIG instances are not shared: each is one unit of its pool"))
            continue
        if entry.get("devices", "all") != "all" or entry.get("rename"):
            notes.append((at, "the plugin does not follow `devices` and `rename` either"))
        replicas = count
        resource = f"{name}{SHARED}" if block.get("renameByDefault") else name
    if block.get("failRequestsGreaterThanOne") is False and replicas > 1:
        notes.append((f"{key}.failRequestsGreaterThanOne", "a pod that asks for several gets several shares"))
    most = MPS_CLIENTS_MAX if key == "mps" else SLOTS_MAX
    if replicas < 2:  # noqa: PLR2004 - fewer share nothing
        return Sharing(remarks=tuple(notes))
    refused = f"{replicas} share a card there, and here {most} at most" if replicas > most else ""
    return Sharing(_STRATEGIES[key], replicas, resource, tuple(notes), refused)
