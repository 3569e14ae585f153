"""The decision about a pod: asked for what, allowed, possible, where. Pure.

Checks run in the order in which a person can act on them: the request itself, the pool,
access, and only then capacity, which tells much about the pool. `View` is frozen; whoever
made it has chosen the time that it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.fits import Wants
from webhook import access, mutate, place, validate
from webhook.verdict import Ask, Denied, Granted, Untouched, Verdict

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Namespace
    from controllers.api.settings import Settings
    from controllers.domain.waiting import Waiting
    from webhook.place import Placement, Shelf
    from webhook.review import Request


@dataclass(frozen=True, slots=True)
class View:
    """What is known about a pool and a namespace at one moment."""

    pool: GPUPool | None
    known_pools: tuple[str, ...]
    namespace: Namespace | None
    unseen: int
    """Reservations of the namespace whose pods should have appeared by now."""
    shelves: tuple[Shelf, ...]
    settings: Settings
    waiting: tuple[Waiting, ...] = ()
    """Pods that have been admitted, lost their reservations, and come before newcomers."""


def decide(request: Request, ask: Ask, view: View, *, request_id: str, avoid: frozenset[str] = frozenset()) -> Verdict:
    """Judge a pod that asks for cards. `avoid`: cards that turned out to be gone."""
    spec, pool = request.pod.spec, view.pool
    refusal = validate.pool_gives(ask, pool, view.known_pools)
    if refusal is not None or pool is None:
        return refusal or Untouched()
    refusal = access.judge(
        pool, namespace=request.namespace, labels=view.namespace, account=spec.service_account_name
    ) or _over_cap(request, view)
    if refusal is not None:
        return refusal
    scheduling, defaults = pool.spec.scheduling, view.settings.scheduling
    present = {taint for shelf in view.shelves if shelf.node for taint in shelf.node.spec.taints}
    added = (
        mutate.pool_tolerations(scheduling.taints, present, scheduling.tolerations) if scheduling is not None else []
    )
    rules = place.Rules(
        (scheduling.strategy if scheduling else None) or defaults.default_strategy,
        (scheduling.topology_key if scheduling else None) or defaults.topology_key,
    )
    shelves = place.without(view.shelves, avoid) if avoid else view.shelves
    shelves = place.keep(shelves, view.waiting) if view.waiting else shelves
    placement = _place(ask, shelves, Wants.of(spec, added), rules, request_id)
    if placement is None:
        return shortage(ask, pool, shelves)
    patch = mutate.admitted(
        request.raw,
        pool=pool.name,
        node=placement.node,
        request_id=request_id,
        devices=placement.devices,
        tolerations=added,
        runtime_class=view.settings.admission.runtime_class_name,
    )
    return Granted(ask, request_id, placement, patch)


def _place(
    ask: Ask, shelves: tuple[Shelf, ...] | list[Shelf], wants: Wants, rules: place.Rules, seed: str
) -> Placement | None:
    for node, shelf in place.candidates(shelves, ask, wants, rules, seed):
        if (placement := place.pick(node.name, shelf, ask.units, rules, seed)) is not None:
            return placement
    return None


def _over_cap(request: Request, view: View) -> Denied | None:
    cap = view.settings.admission.max_unseen
    if view.unseen < cap:
        return None
    return Denied(
        names.INSUFFICIENT_CAPACITY,
        f"namespace {request.namespace} has {view.unseen} reservations whose pods never appeared, and"
        f" admission.maxUnseen allows {cap}: something after this webhook, such as a ResourceQuota, refuses its pods."
        " Mend that; the reservations end by themselves in seconds.",
    )


def shortage(ask: Ask, pool: GPUPool, shelves: tuple[Shelf, ...] | list[Shelf]) -> Denied:
    """Say what there is, why that is not enough, and who will try again."""
    total = sum(shelf.total for shelf in shelves)
    used = sum(card.used for shelf in shelves for card in shelf.slots.cards) + sum(s.slots.overflow for s in shelves)
    reserved = sum(card.reserved for shelf in shelves for card in shelf.slots.cards) + sum(s.held for s in shelves)
    free, most = sum(shelf.free for shelf in shelves), max((shelf.free for shelf in shelves), default=0)
    unavailable = sum(card.unavailable for shelf in shelves for card in shelf.slots.cards)
    kept = sum(shelf.kept for shelf in shelves)
    if total == 0:
        why = "no card has been assigned to it yet"
    elif kept and max(shelf.free + shelf.kept for shelf in shelves) >= ask.units > most:
        why = f"{kept} free ones are kept for pods that were admitted earlier and are still waiting to be scheduled"
    elif most >= ask.units:
        why = "the nodes with enough free ones do not match the pod's node selector, affinity or tolerations"
    elif free >= ask.units:
        why = f"a pod's cards are on one node, and no node has more than {most} free"
    else:
        why = "there are not enough free ones"
    return Denied(
        names.INSUFFICIENT_CAPACITY,
        f"GPUPool {pool.name} cannot give {ask.units} now: {why}"
        f" (total {total}, used {used}, reserved {reserved}, unavailable {unavailable}, free {free})."
        " A controller such as ReplicaSet or Job tries again by itself;"
        " a pod created by hand has to be created again when cards are free.",
    )
