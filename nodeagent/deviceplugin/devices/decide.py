"""One reconciliation of a pool's device plugin, from its inputs to the status writes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeagent.deviceplugin.devices import allocations, card_status, mps, offers
from nodeagent.deviceplugin.devices.records import ForeignUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.gpudevice import Allocation, GPUDevice
    from controllers.api.kube import Pod
    from controllers.runtime.plan import Merge
    from nodeagent.deviceplugin.devices.offers import DesiredOffer
    from nodeagent.deviceplugin.devices.records import Holdings, NodeScan
    from nodeagent.host.mpsfiles import WantedDaemon


@dataclass(frozen=True, slots=True)
class Basis:
    """What a pass is decided by, from its first step to its last."""

    pool: str
    asked: DesiredOffer
    scan: NodeScan
    held: Holdings | None
    """What containers hold; None where kubelet does not say."""
    pods: Mapping[str, Pod]
    """Those bound to the node, by namespace/name."""


def foreign(cards: Sequence[GPUDevice], basis: Basis) -> ForeignUsage:
    """Who has the cards by resources that are not the module's; what was reported, where kubelet does not say."""
    if basis.held is None:
        return offers.reported(cards)
    owners, unobservable = offers.owners(cards, basis.scan), offers.unobservable(cards, basis.scan)
    held, minors = basis.held.foreign, basis.scan.minors
    return ForeignUsage(allocations.foreign(cards, held, basis.pods, owners, minors=minors, unobservable=unobservable))


def writes(cards: Sequence[GPUDevice], basis: Basis, foreign: ForeignUsage) -> tuple[Merge, ...]:
    """The writes."""
    wanted = offers.wanted(basis.pool, cards, basis.asked, basis.scan, foreign)
    # A plugin that has no card here any more is about to end, and leaves it to the others to tell of the rest.
    telling = foreign.is_current and any(offers.is_member(basis.pool, card) for card in cards)
    users = foreign.users if telling else None
    daemons = mps.reported(basis.pool, cards, basis.asked, basis.scan)
    return card_status.writes(basis.pool, cards, wanted, _served(cards, basis), users, daemons=daemons)


def daemons(cards: Sequence[GPUDevice], basis: Basis, now: float) -> Mapping[str, WantedDaemon]:
    """What the pool's MPS role is to do; nothing in other modes."""
    return mps.wanted(basis.pool, cards, basis.asked, basis.scan, pods=basis.pods.values(), now=now)


def _served(cards: Sequence[GPUDevice], basis: Basis) -> dict[str, tuple[Allocation, ...]] | None:
    """Each card's `allocations`; None where kubelet does not say."""
    if basis.held is None:
        return None
    owners, unobservable = offers.owners(cards, basis.scan), offers.unobservable(cards, basis.scan)
    return allocations.allocations(cards, basis.held.ours, basis.pods, owners, unobservable)
