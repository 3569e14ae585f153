"""Validation of a GPUDevice's annotations and labels (docs/dev/design.md, What the webhooks refuse). Pure.

The checks are the controller's own (`domain.eligibility`). Refused is an assignment by which a person probably means
another pool or another card: the pool is not there or does not match the card, or the card is not fit to be in any
pool, even where that ends by itself (`REFUSED`). Of a pool that matches a fit card and cannot take it now, or not as
the pool is written, a warning tells, and the card waits. A removal is never refused: pods end first, so what a person
should know about it is a warning. Putting a card back into the pool that it is still in is a removal undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import FAULTED, MAINTENANCE, MISCONFIGURED, find, is_true
from controllers.domain.approval import is_automatic
from controllers.domain.assignment import assigned_pool
from controllers.domain.eligibility import (
    CARD_CHECKS,
    CARD_DELETING,
    HARDWARE_UNKNOWN,
    MIG_ENABLED,
    NODE_NOT_READY,
    OUT_OF_SELECTOR,
    PLACE_CHECKS,
    POOL_CHECKS,
    POOL_DELETING,
    POOL_UNKNOWN,
    CardContext,
    card_stays,
    count_members,
    count_places,
    failed_checks,
    first_failed,
    nobody_uses_it,
    part_of,
    pool_exists,
    pool_stays,
    serves,
)
from controllers.domain.issuing import BLOCKING
from controllers.domain.position import positions
from controllers.domain.selectors.explain import explain_mismatch
from controllers.domain.wording import counted_pods, listed
from webhook.decision.verdict import Denied
from webhook.validating.result import ALLOWED, ReviewResult, warned

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.settings import Settings
    from controllers.domain.eligibility import Check, Ineligible
    from controllers.domain.mig import NodeLayout
    from controllers.domain.selectors.explain import Mismatch

POOLS_MAX = 200
"""Pools that are asked whether they would match a card which another does not."""
REFUSED: Final = {
    CARD_DELETING: names.DEVICE_NOT_READY,
    POOL_UNKNOWN: names.UNKNOWN_POOL,
    POOL_DELETING: names.UNKNOWN_POOL,
    OUT_OF_SELECTOR: names.DEVICE_NOT_IN_SELECTOR,
    **dict.fromkeys(BLOCKING, names.DEVICE_NOT_READY),
    HARDWARE_UNKNOWN: names.DEVICE_NOT_READY,
    NODE_NOT_READY: names.DEVICE_NOT_READY,
    MIG_ENABLED: names.DEVICE_NOT_READY,
}
"""Error codes by the reason for which a card would stay out; every other reason is a warning."""


@dataclass(frozen=True, slots=True)
class CardView:
    """What is known about a card, its node and all pools at one moment."""

    pools: Mapping[str, GPUPool]
    """All pools by name."""
    labels: Mapping[str, str]
    """Of the card's node."""
    cards: Collection[GPUDevice]
    """Of the node, by address, the card itself among them."""
    ready: bool | None
    """Whether the node is ReadyForPooling; None where that could not be read."""
    holders: tuple[str, ...]
    """Pods that have the card or are about to get it; of a card in no pool, those that kubelet names."""
    maybe_in_use: Collection[str]
    """Cards (inventoryIDs) of the node that its bound pods were given, and of which kubelet has not told otherwise."""
    layout: NodeLayout | None
    """How the node's cards are to be divided by MIG; None where it has no layout, or it was not needed."""
    knows_layout: bool
    """Whether that is so; not where it could not be read."""
    settings: Settings


def validate(old: GPUDevice, new: GPUDevice, view: CardView) -> ReviewResult:
    """Validate a change of a card's annotations and labels."""
    before, after = assigned_pool(old), assigned_pool(new)
    if after is not None and after != before:
        return _assigned(new, after, view)
    return warned(
        _removed(old, new, view) if before is not None and after is None else None,
        _returned(new) if _turned_on(old, new, names.RETURN) else None,
        _ignored(new, view) if _turned_on(old, new, names.LABEL_IGNORE) else None,
    )


def _assigned(device: GPUDevice, named: str, view: CardView) -> ReviewResult:
    context = _context(device, named, view)
    if device.home == named and first_failed(context, (pool_exists, pool_stays)) is None:
        return ALLOWED  # the removal is taken back
    context = context._replace(siblings=_count_places(device, named, view))
    of_pool = failed_checks(context, (card_stays, *POOL_CHECKS))
    of_card = failed_checks(context, (*CARD_CHECKS, *_place_checks(device)))
    refused = next((found for found in of_pool if found.kind in REFUSED), None)
    denied = _refusal(device, refused, context.pool, view) if refused is not None else _busy(device, named, view)
    if denied is None and (unready := next((found for found in of_card if found.kind in REFUSED), None)) is not None:
        denied = _refusal(device, unready, context.pool, view)
    if denied is not None:
        return ReviewResult(denied)
    waits = (f"card {device.name} waits: {found.message}. {found.action}" for found in (*of_pool, *of_card))
    return warned(*waits, _is_closed(context.pool) if context.pool is not None else None)


def _context(device: GPUDevice, named: str, view: CardView, siblings: int = 0) -> CardContext:
    pool = view.pools.get(named)
    return CardContext(
        device=device,
        name=named,
        pool=pool,
        mismatch=_mismatch(device, pool, view) if pool is not None else None,
        ready=view.ready,
        part=part_of(view.layout, device),
        siblings=siblings,
        maybe_in_use=device.status.inventory_id in view.maybe_in_use,
        knows_layout=view.knows_layout,
    )


def _mismatch(device: GPUDevice, pool: GPUPool, view: CardView) -> Mismatch | None:
    places = zip(positions(view.cards), view.cards, strict=True)
    position = next((at for at, other in places if other.name == device.name), 0)
    return explain_mismatch(pool, device, view.labels, position)


def _count_places(device: GPUDevice, named: str, view: CardView) -> int:
    """Places of the node that a pool has taken with other cards than this one."""
    others = [other for other in view.cards if other.name != device.name]
    members = count_members(others)[named]

    def comes(other: GPUDevice) -> bool:
        return assigned_pool(other) == named and first_failed(_context(other, named, view, members)) is None

    return count_places(others, comes)[named]


def _place_checks(device: GPUDevice) -> tuple[Check, ...]:
    """What a card has to pass to come now; one that is in another pool is offered there until it leaves."""
    moves = device.status.pool_ref is not None
    return tuple(check for check in PLACE_CHECKS if not (moves and check is nobody_uses_it))


def _refusal(device: GPUDevice, found: Ineligible, pool: GPUPool | None, view: CardView) -> Denied:
    error_code = REFUSED[found.kind]
    match error_code:
        case names.UNKNOWN_POOL:
            return Denied(error_code, f"{found.message}. {_pools_here(view)}")
        case names.DEVICE_NOT_IN_SELECTOR:
            return Denied(error_code, f"{found.message}. {_pools_that_match(device, pool, view)}")
    what = f"{found.message}{found.detail}. {found.action}"
    return Denied(error_code, f"card {device.name} cannot be pooled now: {what}; then assign it again.")


def _pools_here(view: CardView) -> str:
    pools = listed(sorted(pool.name for pool in view.pools.values() if serves(pool))) or "none yet"
    return f"Pools here: {pools}. Name one of them, or create the pool first."


def _pools_that_match(device: GPUDevice, pool: GPUPool | None, view: CardView) -> str:
    some = list(view.pools.values())[:POOLS_MAX]
    others = sorted(
        other.name for other in some if first_failed(_context(device, other.name, view), POOL_CHECKS) is None
    )
    found = f"Pools that match it: {listed(others)}." if others else "No pool matches it."
    return f"{found} Name one that does, or change the selectors of {pool.name if pool is not None else 'the pool'}."


def _busy(device: GPUDevice, named: str, view: CardView) -> Denied | None:
    """A card that pods have goes to another pool in two steps, so that nobody counts on a card that may never come."""
    if not view.holders:
        return None
    home = device.status.pool_ref
    where = f"in GPUPool {home.name}" if home is not None else "in no pool any more"
    step = f"kubectl annotate gpudevice {device.name} {names.ASSIGNMENT}-" if home is not None else "end the pods"
    return Denied(
        names.DEVICE_BUSY,
        f"card {device.name} is {where} and held by, or promised to, {counted_pods(view.holders)}."
        f" Take it out first ({step}), wait until it is Unassigned, then assign it to {named}.",
    )


def _is_closed(pool: GPUPool) -> str | None:
    found = find(pool.status.conditions, MISCONFIGURED)
    if found is not None and found.status == "True":
        return (
            f"GPUPool {pool.name} is Misconfigured ({found.reason}): the card is offered to pods once that is mended"
            f" (kubectl describe gpupool {pool.name})"
        )
    if not is_true(pool.status.conditions, MAINTENANCE):
        return None
    return f"GPUPool {pool.name} is in Maintenance: the card is offered to pods when that is over"


def _removed(old: GPUDevice, new: GPUDevice, view: CardView) -> str | None:
    home = old.status.pool_ref
    pool = view.pools.get(home.name if home is not None else assigned_pool(old) or "")
    warnings = []
    if home is not None and view.holders:
        warnings.append(
            f"card {old.name} stays with {counted_pods(view.holders)} until the end; it is given to no new pod, and"
            f" leaves GPUPool {home.name} then"
        )
    if pool is not None and _says(new, names.LABEL_IGNORE) != "true" and is_automatic(pool, new, view.settings):
        warnings.append(
            f"GPUPool {pool.name} takes this card by itself, so the annotation comes back; to keep the card out:"
            f" kubectl label gpudevice {old.name} {names.LABEL_IGNORE}=true"
        )
    return ". ".join(warnings) or None


def _returned(device: GPUDevice) -> str | None:
    if _says(device, names.RETURN) != "true":
        return f"{names.RETURN} is obeyed as =true only"
    if not is_true(device.status.conditions, FAULTED):
        return f"card {device.name} is not Faulted: there is nothing to return"
    return None


def _ignored(device: GPUDevice, view: CardView) -> str | None:
    if _says(device, names.LABEL_IGNORE) != "true":
        return f"{names.LABEL_IGNORE} is obeyed as =true only"
    if not view.holders:
        return None
    return f"card {device.name} stays with {counted_pods(view.holders)} until the end; it is given to no new pod"


def _says(device: GPUDevice, key: str) -> str | None:
    """The value of a mark, which may be a label or an annotation."""
    values = device.metadata.labels.get(key), device.metadata.annotations.get(key)
    return "true" if "true" in values else next((value for value in values if value is not None), None)


def _turned_on(old: GPUDevice, new: GPUDevice, key: str) -> bool:
    return _says(new, key) is not None and _says(new, key) != _says(old, key)
