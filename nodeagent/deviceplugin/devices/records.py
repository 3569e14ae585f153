"""Records of the device plugin: what a scan found, kubelet's holdings, the list for kubelet. Pure.

A card goes by its inventoryID in what the cluster writes and by its uuid in what kubelet and the
container runtime write; both are the GPUDevice's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from nodeagent.host.mpsfiles import Daemons

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import ForeignAllocation
    from nodeagent.host.facts.records import MigDevice

SEPARATOR: Final = "::"
"""Between a card's uuid and the number of one of its slots, in an id that kubelet sees; as NVIDIA's plugin does."""
UUIDS: Final = ("GPU-", "MIG-")
"""How the ids of cards and of MIG instances begin, whichever plugin made them."""
UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A uuid within another name."""
DRA_DRIVER: Final = "gpu.nvidia.com"
"""NVIDIA's DRA driver for cards; it names one after its minor number."""
DRA_DEVICE: Final = re.compile(r"gpu-([0-9]+)(?:-mig-.*)?")
"""Such a name: of the card, or of a MIG instance of it."""


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
    daemon: bool = False
    """Whether the card is shared by its MPS control daemon."""
    suffix: str = ""
    """What stands after `gpu.deckhouse.io/` in the resource under which it is offered."""


@dataclass(frozen=True, slots=True)
class NodeScan:
    """What was last seen on the node; addresses are spelled as in a GPUDevice."""

    lost: frozenset[str] = frozenset()
    """Cards that are not on the bus. Where the bus cannot be read none is claimed to be lost."""
    unresponsive: frozenset[str] = frozenset()
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
    daemons: Daemons = field(default_factory=Daemons)
    """What the pool's MPS role says of its cards; in other modes nothing."""
    runtime_cdi: bool = False
    """Whether the container runtime applies CDI names that a device plugin gives."""


@dataclass(frozen=True, slots=True)
class ContainerHolding:
    """Devices of one resource that a container holds, as kubelet tells it."""

    namespace: str
    pod: str
    container: str
    ids: tuple[str, ...]
    resource: str = ""
    """The extended resource; for what a ResourceClaim gave, the name of its DRA driver."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """All that the node's containers hold of cards."""

    ours: tuple[ContainerHolding, ...] = ()
    """By resources of the module, of every pool."""
    foreign: tuple[ContainerHolding, ...] = ()
    """By anything else: another device plugin's resource, or a ResourceClaim."""


@dataclass(frozen=True, slots=True)
class ForeignUsage:
    """Who has the node's cards by a resource that is not the module's."""

    users: Mapping[str, tuple[ForeignAllocation, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By the card's object; cards that nobody has so may be left out."""
    is_current: bool = True
    """Whether kubelet has just said so; where it has not, it is what was reported before."""

    def holds(self, card: str) -> bool:
        """Whether somebody has the card so."""
        return bool(self.users.get(card))


def uuid_of(device_id: str) -> str:
    """The uuid in an id that kubelet has: of the card, or of the MIG instance.

    Drivers before 470 named an instance after its card: `MIG-GPU-<uuid>/<GPU instance>/<compute instance>`.
    """
    plain = device_id.partition(SEPARATOR)[0]
    return plain.removeprefix("MIG-").partition("/")[0] if plain.startswith("MIG-GPU-") else plain
