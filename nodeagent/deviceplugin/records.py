"""What the plugin knows of its node, and what it tells kubelet: records. Pure.

A card goes by its inventoryID in what the cluster writes and by its uuid in what kubelet and the
container runtime write; both are the GPUDevice's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.host.facts import MigDevice

SEPARATOR: Final = "::"
"""Between a card's uuid and the number of one of its slots, in an id that kubelet sees."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One device in the list that kubelet has: a card, a slot of it, or a MIG instance."""

    id: str
    uuid: str
    """Of the card, or of the instance: what the container is given."""
    card: str
    """The card's GPUDevice."""
    address: str
    healthy: bool = True
    numa: int | None = None
    """NUMA node; None where the machine does not say."""
    instance: MigDevice | None = None
    """The MIG instance that this is."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last seen on the node; addresses are spelled as in a GPUDevice."""

    lost: frozenset[str] = frozenset()
    """Cards that are not on the bus. Where the bus cannot be read none is claimed to be lost."""
    silent: frozenset[str] = frozenset()
    """Cards that their driver does not answer for, while it answers for others."""
    instances: Mapping[str, tuple[MigDevice, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """MIG instances by card, of the cards whose driver has told, now or earlier."""
    remembered: frozenset[str] = frozenset()
    """Of these cards, those whose driver told earlier and does not now."""
    minors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The number N of a card's /dev/nvidiaN."""
    access: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The numbers N of the /dev/nvidia-caps/nvidia-capN that a MIG instance needs, by its uuid."""
    nodes: frozenset[str] = frozenset()
    """Device nodes of the driver that are there, as paths below /dev."""
    cdi: frozenset[str] = frozenset()
    """What the node's CDI specifications name (`nvidia.com/gpu=GPU-…`)."""
    runtime_cdi: bool = False
    """Whether the container runtime applies CDI names that a device plugin gives."""


@dataclass(frozen=True, slots=True)
class Held:
    """Devices of one of our resources that a container holds, as kubelet tells it."""

    namespace: str
    pod: str
    container: str
    ids: tuple[str, ...]


def uuid_of(device_id: str) -> str:
    """The uuid in an id that kubelet has: of the card, or of the MIG instance."""
    return device_id.partition(SEPARATOR)[0]
