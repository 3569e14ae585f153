"""What a pod asks for in its limits, and whether the pool that it names is open now. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import bounds, names
from controllers.api.conditions import MAINTENANCE, MISCONFIGURED, find, is_true
from controllers.domain import refusals
from controllers.domain.allocation import applied, offered_profiles, suffixes
from controllers.domain.pool_lifecycle import last_phase
from controllers.domain.request import PoolRequest, effective, largest, pool_of, profile_of, whole
from controllers.domain.wording import listed, short
from webhook.decision.verdict import INVALID, Denied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import PodSpec
    from controllers.api.meta import Condition
    from controllers.api.tenant import TenantSpec


def parse_pool_request(spec: PodSpec) -> PoolRequest | Denied | None:
    """What the pod asks for; None where it reserves nothing (no pool, or quantity 0)."""
    try:
        needs = effective(spec)
        refusal = _unlimited(spec) if needs else None  # it reads what `effective` leaves out: requests beside limits
    except ValueError as error:
        return Denied(INVALID, f"{error}; ask for whole cards, such as limits: {{{names.PREFIX}<pool>: 1}}")
    if not needs:
        return None
    if refusal is not None:
        return refusal
    if len(needs) > 1:
        found = listed(f"{short(pool)}: {units}" for pool, units in sorted(needs.items()))
        return Denied(
            names.MIXED_POOL_REQUEST,
            f"{refusals.SEVERAL_POOLS.begin(count=len(needs))}({found}), and a pod gets cards of one."
            " Ask for one pool in all its containers, or split the pod.",
        )
    ((suffix, units),) = needs.items()
    return PoolRequest(pool_of(suffix), units, profile_of(suffix))


def _unlimited(spec: PodSpec) -> Denied | None:
    """Why the API server will refuse the pod anyway: nothing is to be reserved for it.

    An extended resource needs a limit, and a request that is equal to it; a limit alone is both.
    """
    for container in (*spec.init_containers, *spec.containers):
        requests, limits = container.resources.requests, container.resources.limits
        for key, value in requests.items():
            if key.startswith(names.PREFIX) and (key not in limits or whole(limits[key]) != whole(value)):
                return Denied(
                    INVALID,
                    f"container {short(container.name)!r} requests {short(key)}: {value}, and its limit is"
                    f" {limits.get(key, 'not set')}; Kubernetes wants them to be equal. Set the limit, and leave the"
                    " request out.",
                )
    return None


def check_placement_bounds(spec: TenantSpec) -> Denied | None:
    """Why what the pod says about its nodes is more than each node of the pool is held against."""
    if (found := bounds.excess(spec, bounds.ASKED)) is None:
        return None
    return Denied(
        INVALID, f"a pod that asks for cards may not have {found}; name fewer nodes, or select them by a label"
    )


def check_clients(spec: PodSpec, pool: GPUPool | None) -> Denied | None:
    """Why a container asks for more of a pool of mode MPS than it could use; None elsewhere.

    Raises ValueError for quantities that `parse_pool_request` refuses.
    """
    if pool is None or applied(pool).mode != "MPS":
        return None
    most = largest(spec, pool.name)
    if most <= 1:
        return None
    return Denied(
        INVALID,
        f"a container asks for {most} of {names.resource_name(pool.name)}, and in mode MPS it can be one client of one"
        " card. Ask for 1 in each container; a larger share of the card is for the pool's administrator to set"
        " (spec.allocation.mps)",
    )


def check_pool_is_open(wanted: PoolRequest, pool: GPUPool | None, known: Iterable[str]) -> Denied | None:
    """Why the pool gives nothing to anybody now; None where it does."""
    if pool is None:
        pools = listed(sorted(known)) or "none yet"
        return Denied(
            names.POOL_NOT_FOUND,
            f"{refusals.POOL_ABSENT.begin(pool=short(wanted.pool))}for which the pod asks as"
            f" {names.PREFIX}{short(wanted.pool)}. Pools here: {pools}. Ask for one of them, or have an"
            " administrator create it.",
        )
    if pool.metadata.deletion_timestamp is not None:
        begin = refusals.POOL_DELETED.begin(pool=pool.name)
        return Denied(
            names.POOL_NOT_FOUND,
            f"{begin}and gives no cards. Ask for another pool.",
        )
    # What somebody has to mend comes first: a layout that failed is told by both, and there is nothing to wait for.
    for kind, error_code, action in (
        (MISCONFIGURED, names.POOL_MISCONFIGURED, "Its administrator has to mend it"),
        (MAINTENANCE, names.POOL_IN_MAINTENANCE, "Try again when condition Maintenance is over"),
    ):
        if is_true(pool.status.conditions, kind) and (condition := find(pool.status.conditions, kind)) is not None:
            see = f"kubectl describe gpupool {pool.name}"
            return Denied(error_code, f"{_why_closed(pool, condition)}. {action}: {see}.")
    return _check_profile(wanted, pool)


def _check_profile(wanted: PoolRequest, pool: GPUPool) -> Denied | None:
    """Why the pool has no such resource: one of a mixed layout has one for each profile, every other one alone."""
    allocation = applied(pool)
    if wanted.profile in offered_profiles(allocation):
        return None
    there = listed(names.resource_name(suffix) for suffix in suffixes(pool.name, allocation))
    begin = refusals.RESOURCE_ABSENT.begin(pool=pool.name, resource=names.resource_name(short(wanted.suffix)))
    return Denied(names.POOL_NOT_FOUND, f"{begin}its cards are asked for as {there}.")


def _why_closed(pool: GPUPool, condition: Condition) -> str:
    """Why a pool is closed, as tenants may read it: the messages can name other tenants' pods."""
    phase = last_phase(pool)
    if phase == "Disabled":
        begin = refusals.MODULE_DISABLED.begin(pool=pool.name, module=names.MODULE)
        return f"{begin}and pods that run keep their cards"
    if phase == "Halted":
        return refusals.NOT_DIVIDED.begin(pool=pool.name, reason=condition.reason)
    if condition.type == MAINTENANCE:
        return refusals.BEING_DIVIDED.begin(pool=pool.name, reason=condition.reason)
    message = f"{condition.message}".rstrip(".") or "no details were given"
    return f"{refusals.POOL_CLOSED.begin(pool=pool.name)}{message}"
