"""Where a pool stands between what its spec asks for and what its nodes are configured for. Pure.

A change takes every card off the allowed lists, waits until the plugins have withdrawn them and nobody uses or awaits
one, has the nodes rebuilt where the mode needs that, and only then becomes `status.appliedAllocation`; from then on the
cards are offered anew. Until then everything else goes by what is applied. All of it is decided from what is there, so
a controller that dies goes on where it was, a spec that is put back ends the change, and of two changes the newer wins
(docs/design.md, Maintenance).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from controllers.api.conditions import (
    FAULTED,
    IGNORED,
    INVENTORY_INCOMPLETE,
    MANAGED_DISABLED,
    MISCONFIGURED,
    find,
    is_true,
)
from controllers.domain.allocation import applied, is_applied, wanted
from controllers.domain.eligibility import SERVED_MODES
from controllers.domain.pool_lifecycle import BEHAVIOUR, PoolFacts, last_phase, phase_of
from controllers.domain.usage import pool_users
from controllers.gpupool.assignment import is_offered
from controllers.gpupool.building import Built, maintenance_since
from controllers.gpupool.migbuilder import Divided, Whole
from controllers.gpupool.operands import cards_in, offer

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec, Mode
    from controllers.domain.pool_lifecycle import Phase
    from controllers.gpupool.building import Builder
    from controllers.gpupool.observe import ObservedPool
    from controllers.runtime.plan import Action


LOST = (FAULTED, INVENTORY_INCOMPLETE)
"""Conditions of a card that nobody can be asked to withdraw."""
LEFT_OUT = (IGNORED, MANAGED_DISABLED)
"""Conditions of a card that an administrator has taken out of service."""

BUILDERS: dict[Mode, Builder] = {"Exclusive": Whole(), "TimeSlice": Whole(), "MIG": Divided()}
"""One for each mode that this version hands out."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a pool stands."""

    phase: Phase
    applied: AllocationSpec
    """What the nodes are configured for."""
    wanted: AllocationSpec
    """What the spec asks for."""
    known: bool
    """Whether the pool's status has told what is applied: nothing is offered before."""
    offered: tuple[str, ...] = ()
    """Cards (inventoryIDs) whose plugin has yet to withdraw them."""
    holders: tuple[str, ...] = ()
    """Pods (namespace/name) that hold a card or are promised one."""
    built: Built = field(default_factory=Built)
    since: float | None = None
    """When Maintenance began; None outside it."""
    overdue: bool = False
    """Whether the pods have had their time."""
    undividable: str = ""
    """Why a pool without cards will get none: none that its selectors mean can be divided as it asks."""

    @property
    def offers(self) -> bool:
        """Whether cards are on the allowed lists."""
        return self.known and BEHAVIOUR[self.phase].offers

    @property
    def maintenance(self) -> bool:
        """Whether condition Maintenance holds."""
        return BEHAVIOUR[self.phase].maintenance

    @property
    def misconfigured(self) -> bool:
        """Whether condition Misconfigured holds."""
        return BEHAVIOUR[self.phase].misconfigured or bool(self.undividable)


def judge(seen: ObservedPool, now: float) -> Standing:
    """Where a pool stands now."""
    pool = seen.pool
    facts = PoolFacts(
        disabled=not seen.enabled,
        deleting=pool.metadata.deletion_timestamp is not None,
        served=pool.spec.allocation.mode in SERVED_MODES,
        changed=not is_applied(pool),
    )
    standing = Standing(phase_of(facts), applied(pool), wanted(pool), pool.status.applied_allocation is not None)
    if facts.disabled:
        return replace(standing, offered=_still_offered(seen), since=maintenance_since(pool))
    if facts.deleting or not facts.served:
        return standing
    built = _built(seen, now)
    facts = replace(facts, failed=built.hopeless, built=built.done)
    if not facts.changed and not facts.failed:
        return replace(standing, built=built, undividable=_undividable(seen))
    began = maintenance_since(pool)
    deadline = began + seen.settings.maintenance.deadline if began is not None else None
    overdue = deadline is not None and now >= deadline
    offered, using = _still_offered(seen, overdue=overdue), pool_users(seen.members, seen.pods, now)
    if not standing.known and offered and _as_wanted(seen):
        offered, using = (), ()  # a status that was lost: what the cards say is what was applied
    facts = replace(facts, drained=not offered and not using)
    return replace(
        standing,
        phase=phase_of(facts),
        offered=offered,
        holders=using,
        built=built,
        since=began,
        overdue=overdue,
    )


def _undividable(seen: ObservedPool) -> str:
    """Why no card can come into a pool of mode MIG that has none; empty where one can, or none is known at all."""
    if seen.members or seen.pool.spec.allocation.mode != "MIG":
        return ""
    if seen.fit is None:  # not all nodes have been looked at: what was said stands
        told = find(seen.pool.status.conditions, MISCONFIGURED)
        # Of a pool that serves nothing else is Misconfigured.
        is_said = told is not None and told.status == "True" and last_phase(seen.pool) == "Serving"
        return f"{told.message}" if told is not None and is_said else ""
    if seen.fit.able or not seen.fit.unable:
        return ""
    profile = seen.pool.spec.allocation.mig_profile
    return (
        f"None of the {seen.fit.unable} cards that the pool's selectors mean can be divided into {profile}"
        f" ({seen.fit.why}). Change spec.allocation.migProfile, or the selectors."
    )


def offers(seen: ObservedPool, standing: Standing, device: GPUDevice) -> bool:
    """Whether the node's plugin is to offer a member now."""
    if not standing.offers or not is_offered(seen, device) or is_kept_by_strays(seen, standing, device):
        return False
    return is_ready(seen, standing, device)


def is_kept_by_strays(seen: ObservedPool, standing: Standing, device: GPUDevice) -> bool:
    """Whether a card stays off the lists, since kubelet tells of a pod on it that the cluster does not have.

    One that is offered as the pool has it now stays so: most such pods have just ended. What is still offered as before
    a change nobody may have waited for: more slots of it would be others' beside whoever runs there.
    """
    if device.name not in seen.strays:
        return False
    now = offer(seen.pool.name, standing.applied, (device,)).of(device.status.inventory_id or "")
    return device.status.published != now


def is_ready(seen: ObservedPool, standing: Standing, device: GPUDevice) -> bool:
    """Whether a card is as the applied layout wants it."""
    facts = seen.facts(device.status.node_name)
    return all(builder.is_ready(facts, device, standing.applied) for builder in _builders(standing.applied))


def look_again(seen: ObservedPool, standing: Standing, now: float) -> float | None:
    """Seconds until the time of pods, or of nodes that are at it, is over; None where they have none, or it is."""
    if standing.phase in ("Serving", "Rebuilding") and standing.built.due is not None:
        return max(0.05, standing.built.due - now)
    if standing.phase != "Draining" or standing.overdue:
        return None
    began = standing.since if standing.since is not None else now
    return max(0.05, began + seen.settings.maintenance.deadline - now)


def retry(seen: ObservedPool, standing: Standing, now: float) -> list[Action] | None:
    """Writes that make the nodes try again what failed there; None while that has to wait for somebody."""
    found: list[Action] = []
    for each in _builders(standing.wanted, standing.applied):
        if (writes := each.retry(seen, now)) is None:
            return None
        found += (action for action in writes if action not in found)
    return found


def _builders(*layouts: AllocationSpec) -> list[Builder]:
    """Whoever has to build some of these layouts, or to take them away."""
    return [BUILDERS[mode] for mode in dict.fromkeys(each.mode for each in layouts) if mode in BUILDERS]


def _built(seen: ObservedPool, now: float) -> Built:
    """How far the nodes are, by the mode that they are to have and by the one that they leave."""
    layout = wanted(seen.pool)
    found = [builder.built(seen, layout, now) for builder in _builders(layout, applied(seen.pool))]
    return Built(
        all(each.done for each in found),
        tuple(dict.fromkeys(node for each in found for node in each.pending)),
        {node: why for each in found for node, why in each.failed.items()},
        min((each.due for each in found if each.due is not None), default=None),
        any(each.hopeless for each in found),
    )


def _still_offered(seen: ObservedPool, *, overdue: bool = False) -> tuple[str, ...]:
    """Cards that a plugin offers, or is told to offer by a list that we have yet to rewrite.

    `overdue`: the plugins have had their time; what an administrator has taken out of service is waited for no more.
    """
    listed = frozenset(card for config in seen.configs for card in cards_in(config))
    out = LOST + LEFT_OUT if overdue else LOST
    found = (device for device in seen.members if _may_be_offered(seen, device, listed, out))
    return tuple(sorted(device.status.inventory_id or device.name for device in found))


def _may_be_offered(seen: ObservedPool, device: GPUDevice, listed: frozenset[str], out: tuple[str, ...]) -> bool:
    if device.status.inventory_id in listed:
        return True
    if device.status.published is None:
        return False
    # Nobody can withdraw a card in the name of a node that is away, nor has to for one that is lost: no new pod
    # comes to them. Who is there is among the holders, or the card is kept off the lists (`is_kept_by_strays`).
    node = seen.facts(device.status.node_name).node
    gone = any(is_true(device.status.conditions, kind) for kind in out)
    return node is not None and node.ready and not gone


def _as_wanted(seen: ObservedPool) -> bool:
    """Whether every card that is offered is offered as the spec asks."""
    offered = [device for device in seen.members if device.status.published is not None]
    settings = offer(seen.pool.name, wanted(seen.pool), offered)
    return all(device.status.published == settings.of(device.status.inventory_id or "") for device in offered)
