"""Whether a pod's request makes sense, and whether its pool gives cards at all now. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import MAINTENANCE, MISCONFIGURED, find, is_true
from controllers.domain.request import effective
from webhook.verdict import INVALID, Ask, Denied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import PodSpec

SHOWN = 5


def asked(spec: PodSpec) -> Ask | Denied | None:
    """What the pod asks for; None where it reserves nothing (no pool, or quantity 0)."""
    try:
        needs = effective(spec)
    except ValueError as error:
        return Denied(INVALID, f"{error}; ask for whole cards, such as limits: {{{names.PREFIX}<pool>: 1}}")
    if not needs:
        return None
    if len(needs) > 1:
        found = listed(f"{short(pool)}: {units}" for pool, units in sorted(needs.items()))
        return Denied(
            names.MIXED_POOL_REQUEST,
            f"the pod asks for cards of {len(needs)} pools ({found}), and a pod gets cards of one."
            " Ask for one pool in all its containers, or split the pod.",
        )
    ((pool, units),) = needs.items()
    return Ask(pool, units)


def pool_gives(ask: Ask, pool: GPUPool | None, known: Iterable[str]) -> Denied | None:
    """Why the pool gives nothing to anybody now; None where it does."""
    if pool is None:
        pools = listed(sorted(known)) or "none yet"
        return Denied(
            names.POOL_NOT_FOUND,
            f"there is no GPUPool {short(ask.pool)!r}, for which the pod asks as {names.PREFIX}{short(ask.pool)}."
            f" Pools here: {pools}. Ask for one of them, or have an administrator create it.",
        )
    if pool.metadata.deletion_timestamp is not None:
        return Denied(
            names.POOL_NOT_FOUND, f"GPUPool {pool.name} is being deleted and gives no cards. Ask for another pool."
        )
    for kind, word, action in (
        (MAINTENANCE, names.POOL_IN_MAINTENANCE, "Try again when condition Maintenance is over"),
        (MISCONFIGURED, names.POOL_MISCONFIGURED, "Its administrator has to mend it"),
    ):
        if is_true(pool.status.conditions, kind):
            condition = find(pool.status.conditions, kind)
            why = condition.message.rstrip(".") if condition and condition.message else "no details were given"
            see = f"kubectl describe gpupool {pool.name}"
            return Denied(word, f"GPUPool {pool.name} gives no cards now: {why}. {action}: {see}.")
    return None


def listed(items: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    all_items = list(items)
    rest = len(all_items) - SHOWN
    return ", ".join(all_items[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def short(text: str) -> str:
    """A name that somebody else chose, fit for a sentence."""
    return text if len(text) <= names.LABEL_VALUE_MAX else text[: names.LABEL_VALUE_MAX] + "…"
