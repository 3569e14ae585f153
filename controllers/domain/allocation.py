"""A GPUPool's allocation mode: the one that its nodes are configured for, and the one that its spec asks for. Pure.

Only the mode and that mode's own block matter to a node: `maxDevicesPerNode` chooses cards and the blocks of other
modes are ignored, so a change of these reconfigures nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from controllers.api.gpupool import AllocationSpec, MIGShare, MpsShares, TimeSlice
from controllers.domain import mig
from controllers.domain.request import suffixes_for

if TYPE_CHECKING:
    from collections.abc import Mapping

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
            shares = (MIGShare(profile=name, count=count) for name, count in profiles_of(allocation).items())
            return AllocationSpec(mode="MIG", mig_profile=allocation.mig_profile, mig_layout=tuple(shares))
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


def profiles_of(allocation: AllocationSpec) -> Mapping[str, int]:
    """The mixed layout of an allocation: instances of each profile (in the driver's spelling) on each card, sorted.

    Empty where all slots of a card are alike.
    """
    asked = division_of(allocation)
    return dict(asked.instances) if asked is not None else {}


def suffixes(pool: str, allocation: AllocationSpec) -> tuple[str, ...]:
    """What stands after `gpu.deckhouse.io/` in each resource under which a pool's cards are offered."""
    return suffixes_for(pool, profiles_of(allocation))


def offered_profiles(allocation: AllocationSpec) -> tuple[str | None, ...]:
    """The profiles of a mixed layout, each with a resource of its own; None alone where the pool has one resource."""
    return tuple(profiles_of(allocation)) or (None,)


def division_of(allocation: AllocationSpec) -> mig.Division | None:
    """How an allocation asks for cards to be divided; None in other modes than MIG."""
    if allocation.mode != "MIG":
        return None
    return _division(allocation.mig_profile or "", allocation.mig_layout)


@lru_cache(maxsize=256)
def _division(profile: str, shares: tuple[MIGShare, ...]) -> mig.Division:
    """The same for every card of a pool, and asked for each."""
    return mig.mixed((share.profile, share.count) for share in shares) if shares else mig.Division(profile)


def mig_key(allocation: AllocationSpec) -> str:
    """The key of a pool's spec that says how cards are divided by MIG."""
    return "spec.allocation.migLayout" if allocation.mig_layout else "spec.allocation.migProfile"


def slots_under(device: GPUDevice | None, allocation: AllocationSpec, profile: str | None = None) -> int:
    """Slots that a card has under an allocation, whatever its plugin offers now; 0 where it cannot be divided so.

    `profile`: of this one alone, in a mixed layout.
    """
    match allocation.mode:
        case "TimeSlice":
            return (allocation.time_slice or TimeSlice()).max_slices_per_device
        case "MPS":
            return (allocation.mps or MpsShares()).clients
        case "MIG":
            found = divided(device, allocation)
            if not isinstance(found, mig.CardLayout):
                return 0
            return sum(found.instances.values()) if profile is None else found.instances.get(profile, 0)
        case _:
            return 1


def is_shared(allocation: AllocationSpec) -> bool:
    """Whether pods have a card together, with its memory and its errors: one has many tenants, at one time."""
    return allocation.mode in ("TimeSlice", "MPS")


def explain_mig_mismatch(pool: GPUPool, device: GPUDevice) -> str | None:
    """Why the card cannot be divided as the pool asks; None where it can, or need not be."""
    found = divided(device, pool.spec.allocation)
    return found if isinstance(found, str) else None


def divided(device: GPUDevice | None, allocation: AllocationSpec) -> mig.CardLayout | str | None:
    """How a card is to be divided in mode MIG, or why it cannot be; None in other modes, and where it is not known."""
    asked = division_of(allocation)
    card = mig.card_of(device) if device is not None and asked is not None else None
    return mig.divide(card, asked) if card is not None and asked is not None else None


def spelled(allocation: AllocationSpec) -> str:
    """An allocation in a sentence."""
    match allocation.mode:
        case "TimeSlice":
            return f"TimeSlice ({(allocation.time_slice or TimeSlice()).max_slices_per_device} slots a card)"
        case "MPS":
            shares = allocation.mps or MpsShares()
            return f"MPS ({shares.clients} clients a card, memory {shares.memory}, threads {shares.threads})"
        case "MIG":
            return f"MIG ({division_of(allocation)})"
        case _:
            return allocation.mode
