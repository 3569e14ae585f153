"""A GPUPool's allocation mode: the one that its nodes are configured for, and the one that its spec asks for. Pure.

Only the mode and that mode's own block matter to a node: `maxDevicesPerNode` chooses cards and the blocks of other
modes are ignored, so a change of these reconfigures nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.gpupool import AllocationSpec, MpsShares, TimeSlice
from controllers.domain import mig

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool


def layout(allocation: AllocationSpec) -> AllocationSpec:
    """The part of an allocation that matters to nodes, with its defaults filled in."""
    match allocation.mode:
        case "TimeSlice":
            return AllocationSpec(mode="TimeSlice", time_slice=allocation.time_slice or TimeSlice())
        case "MPS":
            return AllocationSpec(mode="MPS", mps=allocation.mps or MpsShares())
        case "MIG":
            return AllocationSpec(mode="MIG", mig_profile=allocation.mig_profile)
        case _:
            return AllocationSpec()


def wanted(pool: GPUPool) -> AllocationSpec:
    """The layout that the pool's administrator asks for."""
    return layout(pool.spec.allocation)


def applied(pool: GPUPool) -> AllocationSpec:
    """The layout that the nodes are configured for: all but the change itself goes by it, and not by the spec."""
    return layout(pool.status.applied_allocation or pool.spec.allocation)


def is_applied(pool: GPUPool) -> bool:
    """Whether the nodes are configured as the spec asks."""
    told = pool.status.applied_allocation
    return told is not None and layout(told) == wanted(pool)


def slots_under(device: GPUDevice | None, allocation: AllocationSpec) -> int:
    """Slots that a card has under an allocation, whatever its plugin offers now; 0 where it cannot be divided so."""
    match allocation.mode:
        case "TimeSlice":
            return (allocation.time_slice or TimeSlice()).max_slices_per_device
        case "MPS":
            return (allocation.mps or MpsShares()).clients
        case "MIG":
            card = mig.card_of(device) if device is not None else None
            return mig.slots_of(card, allocation.mig_profile or "").count if card is not None else 0
        case _:
            return 1


def is_shared(allocation: AllocationSpec) -> bool:
    """Whether pods have a card together, with its memory and its errors: one has many tenants, at one time."""
    return allocation.mode in ("TimeSlice", "MPS")


def explain_mig_mismatch(pool: GPUPool, device: GPUDevice) -> str | None:
    """Why the card cannot be divided as the pool asks; None where it can, or need not be."""
    allocation = pool.spec.allocation
    card = mig.card_of(device) if allocation.mode == "MIG" else None
    if card is None:
        return None
    slots = mig.slots_of(card, allocation.mig_profile or "")
    return f"{slots.reason}: {slots.message}" if slots.profile is None else None


def spelled(allocation: AllocationSpec) -> str:
    """An allocation in a sentence."""
    match allocation.mode:
        case "TimeSlice":
            return f"TimeSlice ({(allocation.time_slice or TimeSlice()).max_slices_per_device} slots a card)"
        case "MPS":
            shares = allocation.mps or MpsShares()
            return f"MPS ({shares.clients} clients a card, memory {shares.memory}, threads {shares.threads})"
        case "MIG":
            return f"MIG ({allocation.mig_profile})"
        case _:
            return allocation.mode
