"""Whether a card can be served in a mode of its pool as MIG mode is on it now. Pure.

What a node does not report is not taken for granted where a card is to be divided; what it does report is believed in
every mode: a card in MIG mode is no whole card, whoever turned that on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.eligibility.records import Ineligible

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import Mode
    from controllers.domain.mig import NodeLayout, PlannedCard

MIG_ENABLED: Final = "MIGEnabled"
MIG_STATE_UNKNOWN: Final = "MIGStateUnknown"


def part_of(layout: NodeLayout | None, device: GPUDevice) -> PlannedCard | None:
    """The card's part of its node's MIG layout; None where it has none."""
    hardware = device.status.hardware
    if hardware is None or layout is None:
        return None
    return next((card for card in layout.cards if card.address == hardware.pci.address), None)


def is_enabled(device: GPUDevice) -> bool:
    """Whether MIG mode is on, as far as anybody tells."""
    hardware = device.status.hardware
    return hardware is not None and hardware.mig is not None and hardware.mig.enabled


def check_mig_mode(mode: Mode, part: PlannedCard | None, device: GPUDevice) -> Ineligible | None:
    """What only an administrator can change before the card is served in a mode; None where there is nothing.

    `part`: the card's part of its node's layout.
    """
    if mode == "MIG":
        return check_mig_state(device) if part is None else None
    if not is_enabled(device) or (part is not None and part.ours):
        return None  # what we turned on we turn off
    address = device.status.hardware.pci.address if device.status.hardware else "<card>"
    off = f"on node {device.status.node_name}: nvidia-smi -i {address} -mig 0"
    return Ineligible(
        MIG_ENABLED,
        "the card is in MIG mode, which somebody else turned on, and a pool of this mode offers whole cards",
        f"Turn MIG mode off ({off}), or have a pool of mode MIG take the card",
        lasting=True,
    )


def check_mig_state(device: GPUDevice) -> Ineligible | None:
    """What is missing where nobody tells how the card is divided; None where somebody does."""
    hardware = device.status.hardware
    if hardware is None or hardware.mig is not None:
        return None
    return Ineligible(
        MIG_STATE_UNKNOWN,
        f"nobody has told yet whether the card is in MIG mode: {teller(device)} does once it runs and NVML answers it",
        "See whether it runs there (bootstrap.validator of the settings must be on, and kubectl describe"
        f" gpunodeinventory {device.status.node_name} says what it waits for); it goes on by itself once that is told",
        lasting=True,
    )


def teller(device: GPUDevice) -> str:
    """Who tells how a card is divided."""
    return f"the validator of node {device.status.node_name}"
