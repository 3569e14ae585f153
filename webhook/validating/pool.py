"""Validation of a GPUPool that is created, changed or deleted (docs/dev/design.md, What the webhooks refuse). Pure.

The form of a spec is judged by the CRD. Here is what needs the catalogue and the cluster: a MIG profile that no card
has is refused, and one that no card of a pool holds which has some; all else is allowed with a warning, since cards and
nodes may come later and nothing that runs is hurt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.queue import EVERY_NAMESPACE
from controllers.domain import taints
from controllers.domain.allocation import (
    division_of,
    explain_mig_mismatch,
    layout,
    mig_key,
    profiles_of,
    spelled,
    wanted,
)
from controllers.domain.catalogue import canonical_profile
from controllers.domain.catalogue.lookup import GEOMETRIES
from controllers.domain.mig.placement import places
from controllers.domain.node_fit import REPELLING
from controllers.domain.position import positions
from controllers.domain.queue.policy import queue_of
from controllers.domain.selectors.explain import Mismatch, explain_mismatch, explain_node_mismatch
from controllers.domain.wording import counted_pods, listed
from webhook.decision import affinity
from webhook.decision.verdict import Denied
from webhook.validating.result import ReviewResult, warned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec, GPUPool

IN_CATALOGUE = frozenset(profile for geometry in GEOMETRIES.values() for profile in geometry.profiles)
"""Every MIG profile that a known card holds, in the driver's spelling."""
COMMON = 24
"""So many profiles fit a message."""


@dataclass(slots=True)
class SelectorSearch:
    """Cards that a pool's selectors match, found node by node; `profiles` are those that the cluster's cards offer."""

    pool: GPUPool
    cards: int = 0
    matched: int = 0
    members: int = 0
    mig_mismatches: list[str] = field(default_factory=list)
    """Why members cannot be divided as the pool asks."""
    strays: int = 0
    """Members that the pool's selectors do not match (any more)."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Cards by the key that leaves them out."""
    first: dict[str, Mismatch] = field(default_factory=dict)
    profiles: set[str] = field(default_factory=set)
    shared: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Nodes on which another pool has cards too, by that pool."""

    def look(self, labels: Mapping[str, str], devices: Sequence[GPUDevice]) -> None:
        """Look at all cards of a node, which come by address."""
        outside = explain_node_mismatch(self.pool, labels)
        homes = {device.home for device in devices if device.home is not None}
        if self.pool.name in homes:
            for other in homes - {self.pool.name}:
                self.shared[other].add(devices[0].status.node_name or "")
        for position, device in zip(positions(devices), devices, strict=True):
            if device.is_remembered:
                continue  # it has its place, and no more
            hardware = device.status.hardware
            if hardware is not None and hardware.mig is not None:
                self.profiles.update(canonical_profile(name) or name for name in hardware.mig.profiles_supported)
            mismatch = outside or explain_mismatch(self.pool, device, labels, position)
            is_member = device.home == self.pool.name
            self.cards += 1
            self.members += is_member
            if is_member and (why := explain_mig_mismatch(self.pool, device)) is not None:
                self.mig_mismatches.append(why)
            self.matched += mismatch is None
            if mismatch is not None:
                self.strays += is_member
                self.reasons[mismatch.key] += 1
                self.first.setdefault(mismatch.key, mismatch)


def validate(old: GPUPool | None, new: GPUPool, search: SelectorSearch, holders: tuple[str, ...]) -> ReviewResult:
    """Validate a pool that is made or changed. `holders`: pods that have its cards or are promised some."""
    is_divided_anew = old is None or wanted(old) != wanted(new)
    denied = _profile(new, search) if is_divided_anew else None
    if denied is not None:
        return ReviewResult(denied)
    is_selected_anew = is_divided_anew or old is None or _selectors(old) != _selectors(new)
    return warned(
        _nothing_matched(search) if is_selected_anew else None,
        _strays(search) if is_selected_anew else None,
        _affinity(new) if old is None or _added(old) != _added(new) else None,
        _maintenance(old, new, holders) if old is not None and is_divided_anew else None,
        _guarantees(new) if old is None or _promised(old) != _promised(new) else None,
        _taints(old, new, search.shared),
    )


def validate_deletion(old: GPUPool, members: int, holders: tuple[str, ...]) -> ReviewResult:
    """What happens to a pool that somebody deletes."""
    if not members or old.metadata.deletion_timestamp is not None:
        return warned()
    if not holders:
        return warned(f"GPUPool {old.name} goes once its {_cards(members)} withdrawn, in a moment: nobody uses them")
    return warned(
        f"GPUPool {old.name} gives no more cards from now on, and stays until the end of {counted_pods(holders)};"
        " nothing is killed. This cannot be taken back. Cards that somebody confirmed keep their annotation: a new pool"
        " of this name takes them, but for cards whose Node is away by then, which lose it. Those that it took by"
        " itself are free for the next pool"
    )


def _guarantees(pool: GPUPool) -> str | None:
    """Guarantees that do nothing, or that cannot all be met; a pool without cards may yet get them."""
    capacity, queue = pool.status.capacity, queue_of(pool)
    guaranteed = sum(each.guaranteed for each in queue.namespaces if each.name != EVERY_NAMESPACE)
    if queue.order != "Fair":
        has = any(each.guaranteed for each in queue.namespaces)
        return (
            f"guarantees of namespaces have no effect in order {queue.order}: they are of order Fair" if has else None
        )
    if capacity is None or not capacity.total or guaranteed <= capacity.total:
        return None
    return (
        f"GPUPool {pool.name} guarantees {guaranteed} slots to namespaces and has {capacity.total}: the guarantees"
        " cannot all be met at once, and among namespaces below theirs the weights decide"
    )


def _taints(old: GPUPool | None, new: GPUPool, shared: Mapping[str, set[str]]) -> str | None:
    """Whom a taint does not keep off the pool's nodes, although its author may think so."""
    before = taints.wanted(old) if old is not None else ()
    added = [one for one in taints.wanted(new) if one not in before and one.effect in REPELLING]
    if not added or not shared:
        return None
    nodes = sorted(set().union(*shared.values()))
    put = listed(f"{one.key}={one.value or ''}:{one.effect}" for one in added)
    others = f"GPUPool{'s' if len(shared) > 1 else ''} {listed(sorted(shared))}"
    return (
        f"GPUPool {new.name} shares {len(nodes)} node{'s' if len(nodes) > 1 else ''} ({listed(nodes)}) with {others}:"
        f" {put} keeps other pods off, and not those of {others}, which tolerate it since their cards are there. For"
        f" nodes of {new.name} alone, take the other cards there out of {others} first"
    )


def _selectors(pool: GPUPool) -> object:
    return pool.spec.node_selector, pool.spec.device_selector


def _promised(pool: GPUPool) -> object:
    return queue_of(pool).order, queue_of(pool).namespaces


def _added(pool: GPUPool) -> Mapping[str, Any] | None:
    """The affinity that pods of the pool get."""
    return pool.spec.scheduling.affinity if pool.spec.scheduling is not None else None


def _affinity(pool: GPUPool) -> str | None:
    """What is wrong with it; the CRD cannot tell."""
    try:
        affinity.read(_added(pool) or {})
    except ValueError as error:
        return f"GPUPool {pool.name} gives no cards until this is mended: {error}"
    return None


def _profile(pool: GPUPool, search: SelectorSearch) -> Denied | None:
    allocation = pool.spec.allocation
    if allocation.mode != "MIG" or (allocation.mig_profile is None and not allocation.mig_layout):
        return None  # a missing one is the CRD's to refuse
    named = [share.profile for share in allocation.mig_layout] or [allocation.mig_profile or ""]
    denied = (_unknown(mig_key(allocation), each, search) for each in named)
    unknown = next((found for found in denied if found is not None), None)
    return unknown or _unplaceable(allocation) or _of_members(pool, search)


def _unknown(key: str, profile: str, search: SelectorSearch) -> Denied | None:
    name = canonical_profile(profile)
    if name is not None and (name in IN_CATALOGUE or name in search.profiles):
        return None
    memory = (name or "").partition(".")[2]
    near = sorted(known for known in IN_CATALOGUE if memory and known.partition(".")[2] == memory)
    some = near or sorted(search.profiles) or sorted(IN_CATALOGUE)
    which = "Profiles of that size" if near else "Profiles that cards here offer" if search.profiles else "Known are"
    return Denied(
        names.INVALID_MIG_PROFILE,
        f"{key} is {profile!r}, and no known card, here or in the catalogue,"
        f" can be divided so. {which}: {', '.join(some[:COMMON])}. nvidia-smi mig -lgip lists those of a card.",
    )


def _unplaceable(allocation: AllocationSpec) -> Denied | None:
    """A mixed layout for which no GPU of the catalogue has places; one with profiles that it does not know may fit."""
    layout = profiles_of(allocation)
    if not layout or not layout.keys() <= IN_CATALOGUE:
        return None
    if any(layout.keys() <= cut.profiles.keys() and places(cut, layout) is not None for cut in GEOMETRIES.values()):
        return None
    return Denied(
        names.INVALID_MIG_PROFILE,
        f"spec.allocation.migLayout asks each card for {division_of(allocation)}, and no GPU in the catalogue has"
        " places for that: nvidia-smi mig -lgipp lists those of a card. Ask for fewer instances, or for smaller ones.",
    )


def _of_members(pool: GPUPool, search: SelectorSearch) -> Denied | None:
    """A pool with cards of which none can be divided so would be closed at once, and stay closed."""
    if not search.members or len(search.mig_mismatches) < search.members:
        return None
    return Denied(
        names.INVALID_MIG_PROFILE,
        f"{mig_key(pool.spec.allocation)} is {str(division_of(pool.spec.allocation))!r}, and none of the cards in"
        f" GPUPool {pool.name} ({search.members}) can be divided so: {search.mig_mismatches[0]}. Name a profile that"
        f" they hold, or take them out first: kubectl annotate gpudevice <card> {names.ASSIGNMENT}-",
    )


def _nothing_matched(search: SelectorSearch) -> str | None:
    if search.matched or not search.cards:
        return None
    found = "; ".join(f"{search.first[key]} ({count} in all)" for key, count in search.reasons.most_common(3))
    return f"GPUPool {search.pool.name} matches none of the {search.cards} cards that are known now: {found}"


def _strays(search: SelectorSearch) -> str | None:
    if not search.strays:
        return None
    return (
        f"{_cards(search.strays)} in GPUPool {search.pool.name} and no longer matched by its selectors; what is in it"
        f" stays until its annotation {names.ASSIGNMENT} is removed"
    )


def _cards(count: int) -> str:
    return f"{count} card{'s are' if count != 1 else ' is'}"


def _maintenance(old: GPUPool, new: GPUPool, holders: tuple[str, ...]) -> str | None:
    now = layout(old.status.applied_allocation or old.spec.allocation)
    if not holders or now == wanted(new):
        return None
    return (
        f"GPUPool {new.name} goes into Maintenance: new pods are refused ({names.POOL_IN_MAINTENANCE}) until the end of"
        f" {counted_pods(holders)}, and nothing is killed. Set back to {spelled(now)} it serves at once"
    )
