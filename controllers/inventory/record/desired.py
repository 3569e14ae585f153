"""The GPUDevices and the GPUNodeInventory that a node is to have: the planner's decision as records. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from controllers.api import names
from controllers.domain.catalogue import VENDORS
from controllers.domain.precision import family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.conditions import Finding
    from controllers.api.gpudevice import GPUDevice, Hardware


ReportState = Literal["Current", "Outdated", "Absent", "NotLabelled", "NotServed"]
"""How the report of the node's agent is: of the node's present boot; of an earlier one; not there; not to be had, as
the node lacks the label by which the agent comes, or as the API server serves no such thing."""


@dataclass(frozen=True, slots=True)
class DesiredCard:
    """A card for which a GPUDevice is to exist, with the status to write."""

    address: str
    hardware: Hardware | None
    incomplete: Finding
    device: GPUDevice | None
    """Its GPUDevice so far; None for a new card."""
    gone_since: str | None = None
    """Since when its Node was deleted, while nobody has recognised it."""
    is_unreported: bool = False
    """Whether there is a report that does not name it."""
    is_lost: bool = False
    """Whether it is gone from its node for certain."""

    @property
    def is_recognised(self) -> bool:
        """Whether its record is that of a Node that was deleted, and serves again from now on."""
        return self.device is not None and self.device.is_remembered and self.gone_since is None

    @property
    def labels(self) -> dict[str, str]:
        """The GPUDevice's labels before they are made valid label values."""
        if self.hardware is None:
            return {}
        vendor = self.hardware.pci.vendor
        return {
            names.LABEL_VENDOR: VENDORS[vendor].name if vendor in VENDORS else vendor,
            names.LABEL_PRODUCT: self.hardware.product or "",
            names.LABEL_FAMILY: family(self.hardware.compute_capability) or "",
        }

    @property
    def describe(self) -> str:
        """The card in a few words."""
        if self.hardware is None:
            return "not identified"
        pci = self.hardware.pci
        return self.hardware.product or f"PCI {pci.vendor}:{pci.device}"


@dataclass(frozen=True, slots=True)
class Removal:
    """A GPUDevice to delete, and why."""

    device: GPUDevice
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The GPUDevices and the GPUNodeInventory that a node is to have."""

    cards: tuple[DesiredCard, ...] = ()
    removals: tuple[Removal, ...] = ()
    conditions: Mapping[str, Finding] = field(default_factory=dict)
    """All conditions of the GPUNodeInventory that this process owns, by type."""
    report: ReportState = "Current"
    present: bool = False
    """Whether the node has a card, identified or not."""
    is_gpu_node: bool = False
    is_obsolete: bool = False
    """No label, report or record names a card any more: the GPUNodeInventory is to be deleted."""
