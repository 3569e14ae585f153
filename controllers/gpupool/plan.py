"""One pool: from what is seen to what is to be written, in an order of which any prefix is safe.

Cards come in before anything offers them, and leave only after nothing does; operands exist
before nodes are told to run them; the finalizer is the first thing and goes last.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import (
    CAPACITY_LOW,
    CONFIGURED,
    MAINTENANCE,
    MISCONFIGURED,
    Finding,
    carried,
    find,
    is_true,
    said,
)
from controllers.api.gpupool import GPUPool
from controllers.api.meta import ObjectMeta
from controllers.api.record import to_json
from controllers.api.resources import CONFIGMAP, DAEMONSET, GPUDEVICE, GPUPOOL
from controllers.domain.allocation import spelled
from controllers.domain.approval import is_automatic
from controllers.domain.clock import stamp
from controllers.domain.eligibility import HELD_ELSEWHERE, mode_obstacle, part_of, untold_state
from controllers.domain.usage import foreign_users
from controllers.gpupool import migmanager, operands, unshown
from controllers.gpupool.again import is_of_another_boot
from controllers.gpupool.approve import deserted
from controllers.gpupool.assignment import assign, is_offered, is_turned_back, is_wanted, release
from controllers.gpupool.findings import NOT_OFFERED, Saying, aside, away, stray
from controllers.gpupool.free import own_status
from controllers.gpupool.gone import abandon
from controllers.gpupool.maintenance import is_kept_by_strays, is_ready, judge, look_again, offers, retry
from controllers.gpupool.migbuilder import progress
from controllers.gpupool.outlived import outlived
from controllers.gpupool.quorum import nobody_else_bound
from controllers.gpupool.status import pool_status
from controllers.install import dismantle
from controllers.runtime.drift import is_as_built, is_as_written
from controllers.runtime.plan import Action, Apply, Delete, Draft, Expect, Merge, Note, Plan, Ref, ref
from controllers.runtime.resting import rests

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice, Published
    from controllers.api.gpupool import GPUPoolStatus
    from controllers.api.kube import DaemonSet
    from controllers.api.meta import KubeObject
    from controllers.api.settings import DeviceStrategy
    from controllers.domain.agents import Variables
    from controllers.gpupool.maintenance import Standing
    from controllers.gpupool.observe import ObservedPool


SAID_AT_ONCE = 200
"""Cards of which one plan writes what they say: the pool's status does not wait for thousands of those."""


def act(seen: ObservedPool, now: float, *, lists_in: float = 0.0) -> Plan:
    """What somebody waits for: cards in and out, lists, operands; the status where it closes or opens the pool.

    `lists_in`: seconds until cards may be added to the lists again: each write wakes the plugins of all nodes.
    """
    if not seen.enabled:
        return _switched_off(seen, now)
    draft = Draft()
    deleting = seen.pool.metadata.deletion_timestamp is not None
    if deleting and not seen.members:
        draft.add(*_remove(seen, now))
        return draft.done()
    if names.FINALIZER_POOL not in seen.pool.metadata.finalizers and not deleting:
        draft.add(_finalizer(seen, [names.FINALIZER_POOL]))
    standing = judge(seen, now)
    draft.add(*_resume(seen, standing, now))
    draft.add(*_turn(seen, standing, now))
    draft.add(*_lists(seen, standing, lists_in, draft))
    draft.add(*_serve(seen, standing, now, draft))
    draft.add(*_manage(seen, standing, now, draft))
    if standing.phase == "Applying":
        draft.add(*_apply(seen, standing, now))
    else:
        draft.add(*release(seen, now))  # after the lists, which are not written while it is being applied
    draft.add(*outlived(seen, now))
    draft.add(*deserted(seen, seen.claimants))  # of those that have left: the last of the others may stay for long
    draft.add(*assign(seen, now))  # last: many writes, of which one may be refused, and no withdrawal waits for that
    if (overdue := look_again(seen, standing, now)) is not None:
        draft.look_again(overdue)
    return draft.done()


def say_cards(seen: ObservedPool, now: float) -> Plan:
    """What the pool's cards say of themselves."""
    draft = Draft()
    if seen.members:
        draft.add(*_configured(seen, judge(seen, now), now, draft))
    return draft.done()


def say_pool(seen: ObservedPool, now: float, *, status_in: float = 0.0) -> Plan:
    """The pool's status, where `act` does not write it. `status_in`: seconds until it may be written again."""
    draft = Draft()
    if seen.pool.metadata.deletion_timestamp is not None and not seen.members:
        return draft.done()
    if status_in > 0:
        draft.look_again(status_in)  # not even made: counting thousands of cards for each pod would cost more
        return draft.done()
    standing = judge(seen, now)
    if standing.phase != "Applying" and not _turns(seen, standing):
        status = pool_status(seen, standing, now)
        if status != seen.pool.status:
            draft.add(_status(seen, status), *_runs_low(seen, status))
        low = find(status.conditions, CAPACITY_LOW)
        if (left := unshown.next_in(seen, status, now)) is not None:
            draft.look_again(left)  # nor does a kubelet that does not show what its plugin offers
        if standing.offers and low is not None and low.reason == NOT_OFFERED:
            draft.look_again(seen.settings.pools.plugin_patience)  # a plugin that does not answer changes nothing
    if (overdue := look_again(seen, standing, now)) is not None:
        draft.look_again(overdue)  # it is said, too
    return draft.done()


def writes_lists(made: Plan) -> bool:
    """Whether a plan writes lists of allowed cards."""
    return any(isinstance(a, (Apply, Delete)) and a.ref.resource is CONFIGMAP for a in made.actions)


def writes_status(made: Plan) -> bool:
    """Whether a plan writes a pool's status."""
    return any(isinstance(a, Apply) and a.ref.resource is GPUPOOL and a.subresource for a in made.actions)


def orphans(seen: ObservedPool, now: float) -> Plan:
    """Let go of the cards of a pool that is gone without having done so, once a quorum read confirms that."""
    draft = Draft()
    if leaving := [*release(seen, now), *abandon(seen, now), *outlived(seen, now)]:
        draft.add(Expect(GPUPOOL, frozenset(), fields=f"metadata.name={seen.pool.name}"), *leaving)
    return draft.done()


def _finalizer(seen: ObservedPool, wanted: list[str]) -> Apply:
    return Apply(ref(GPUPOOL, seen.pool), {"metadata": {"finalizers": wanted}})


def _resume(seen: ObservedPool, standing: Standing, now: float) -> list[Action]:
    """Obey a person who says that what failed can be tried again; the word is taken off once it has been obeyed."""
    pool = seen.pool
    if pool.metadata.annotations.get(names.RESUME) != "true":
        return []
    if (again := retry(seen, standing, now)) is None:
        return []  # the word stays until it can be obeyed
    body = {"metadata": {"annotations": {names.RESUME: None}}}
    actions: list[Action] = [*again, Merge(ref(GPUPOOL, pool), pool.metadata.resource_version, body)]
    if again or standing.phase == "Halted":
        message = "What failed is tried again, as the annotation asked."
        actions.append(Note(ref(GPUPOOL, pool), "Normal", names.EVENT_RESUMED, message))
    return actions


def _turns(seen: ObservedPool, standing: Standing) -> list[str]:
    """Conditions that close or open the pool and do not say so yet: the webhook goes by them."""
    told = seen.pool.status.conditions
    wanted = {MAINTENANCE: standing.maintenance, MISCONFIGURED: standing.misconfigured}
    if standing.phase in ("Applying", "Deleting"):
        return []
    return [kind for kind, holds in wanted.items() if holds != is_true(told, kind)]


def _turn(seen: ObservedPool, standing: Standing, now: float) -> list[Action]:
    """The status at once, and first of all, where it closes or opens the pool."""
    turned = _turns(seen, standing)
    if not turned:
        return []
    status = pool_status(seen, standing, now)
    return [_status(seen, status), *_closed(seen, status, turned), *_runs_low(seen, status)]


def _closed(seen: ObservedPool, status: GPUPoolStatus, turned: Iterable[str]) -> list[Note]:
    """The events of conditions that close the pool, and did not before."""
    events = {MAINTENANCE: names.EVENT_MAINTENANCE, MISCONFIGURED: names.EVENT_MISCONFIGURED}
    return [
        Note(ref(GPUPOOL, seen.pool), "Warning", events[kind], found.message)
        for kind in turned
        if (found := find(status.conditions, kind)) is not None and found.status == "True"
    ]


def _apply(seen: ObservedPool, standing: Standing, now: float) -> list[Action]:
    """The nodes are clear: from now on all goes by what the spec asks for, and cards are offered again."""
    pool = seen.pool
    when = stamp(now) if standing.known else pool.status.last_reconfigured
    status = replace(pool.status, applied_allocation=standing.wanted, last_reconfigured=when)
    then = replace(seen, pool=replace(pool, status=status))
    actions: list[Action] = [*nobody_else_bound(seen)] if seen.members else []
    status = pool_status(then, judge(then, now), now)
    told = () if is_true(pool.status.conditions, MISCONFIGURED) else (MISCONFIGURED,)
    actions += [_status(seen, status), *_closed(seen, status, told), *_runs_low(seen, status)]
    if standing.known:
        message = f"The pool went from {spelled(standing.applied)} to {spelled(standing.wanted)}."
        actions.append(Note(ref(GPUPOOL, pool), "Normal", names.EVENT_RECONFIGURED, message))
    return actions


def _serves(seen: ObservedPool, standing: Standing) -> bool:
    """Whether the plugins are looked after now."""
    if not standing.known and seen.daemonset is None and not seen.configs:
        return False  # its mode is not served, or is written down as applied in a moment
    return standing.phase != "Applying"  # lists are written anew once it is


def _lists(seen: ObservedPool, standing: Standing, wait: float, draft: Draft) -> list[Action]:
    """The plugin's ConfigMaps, where they differ from what they should be.

    A card leaves them at once: whoever lets go of it goes by them.
    """
    if not _serves(seen, standing):
        return []
    offered = [device for device in seen.members if offers(seen, standing, device)]
    known = {config.name: config for config in seen.configs}
    wanted = operands.configmaps(seen.pool, offered, known)
    actions: list[Action] = [
        Apply(Ref(CONFIGMAP, name, names.NAMESPACE), body)
        for name, body in wanted.items()
        if name not in known or not is_as_written(known[name], body) or not _is_ours(known[name], seen)
    ]
    actions += [
        Delete(ref(CONFIGMAP, config), config.metadata.resource_version)
        for name, config in known.items()
        if name not in wanted
    ]
    listed = {card for config in seen.configs for card in operands.cards_in(config)}
    if actions and wait > 0 and listed <= {device.status.inventory_id for device in offered}:
        draft.look_again(wait)
        return []
    return actions


def _serve(seen: ObservedPool, standing: Standing, now: float, draft: Draft) -> list[Action]:
    """The plugin's DaemonSet, where it differs from what it should be."""
    if not _serves(seen, standing):
        return []
    divided = "MIG" in (standing.applied.mode, standing.wanted.mode)
    strategy = seen.settings.device_strategy
    daemonset = _plugin(
        seen.pool.name, seen.pool.metadata.uid, seen.agent_image, strategy, divided=divided, env=seen.agent_env
    )
    name = names.plugin_object(seen.pool.name)
    return _runs(seen, name, seen.daemonset, daemonset, now=now, draft=draft)


@lru_cache(maxsize=1024)
def _plugin(
    pool: str, uid: str, image: str, strategy: DeviceStrategy, *, divided: bool, env: Variables
) -> dict[str, Any]:
    """The plugin's DaemonSet, made and hashed once: each plan compares it."""
    owner = GPUPool(metadata=ObjectMeta(name=pool, uid=uid))
    return operands.daemonset(owner, image, strategy, divided=divided, env=env)


def _manage(seen: ObservedPool, standing: Standing, now: float, draft: Draft) -> list[Action]:
    """The MIG manager's DaemonSet, while there is something for it to do."""
    current = seen.mig_manager
    if not migmanager.is_needed(seen):
        return dismantle.operands((), (current,)) if current is not None else []
    if current is None and standing.phase == "NotServed":
        return []
    daemonset = migmanager.daemonset(seen.pool, seen.agent_image, env=seen.agent_env)
    return _runs(seen, names.mig_manager(seen.pool.name), current, daemonset, now=now, draft=draft)


def _runs(
    seen: ObservedPool, name: str, current: DaemonSet | None, wanted: dict[str, Any], *, now: float, draft: Draft
) -> list[Action]:
    """A DaemonSet as it is wanted; one that somebody deleted comes back after its name has been free for a while."""
    if current is not None and (dismantle.is_leaving(current) or _is_good(current, wanted, seen)):
        return []
    if current is None and (left := rests(seen.freed, name, now)) > 0:
        draft.look_again(left)
        return []
    return [Apply(Ref(DAEMONSET, name, names.NAMESPACE), wanted)]


def _is_good(found: DaemonSet, wanted: dict[str, Any], seen: ObservedPool) -> bool:
    return is_as_built(found.metadata, found.spec, wanted) and _is_ours(found, seen)


def _is_ours(operand: KubeObject, seen: ObservedPool) -> bool:
    """Whether this pool owns it: one of a deleted pool of the same name is about to be collected."""
    return [owner.uid for owner in operand.metadata.owner_references] == [seen.pool.metadata.uid]


def _configured(seen: ObservedPool, standing: Standing, now: float, draft: Draft) -> list[Action]:
    """The condition Configured of the pool's cards: published matches wanted."""
    settings = operands.offer(seen.pool.name, standing.applied, seen.members)
    # `free` says what a card says that is in no pool.
    gone = {action.ref.name for action in release(seen, now) if isinstance(action, Merge)}
    actions: list[Action] = []
    for device in seen.members:
        if device.name in gone:
            continue
        offered = offers(seen, standing, device)
        settled = standing.offers and is_offered(seen, device)
        kept = (_taken(device) or _strayed(seen, standing, device)) if settled else None
        offer_of_it = settings.of(device.status.inventory_id or "") if offered else None
        saying = kept or _divided(seen, standing, device, now) or _agreement(device, offer_of_it)
        found = saying.finding
        waits, node = not (found.status and is_wanted(seen, device)), device.status.node_name
        if waits and (why := away(seen.facts(node), node or "")):
            found = replace(found, message=f"{found.message} {why}")
        known, automatic = find(device.status.conditions, CONFIGURED), is_automatic(seen.pool, device, seen.settings)
        fields = (device.status.offer, device.status.auto_attach)
        if known is not None and carried(known) == found and fields == (saying.offer, automatic):
            continue
        # A card that is offered by then costs one write less; the pool's `status.nodes` says at once who is waited for.
        left = seen.joined.get(device.name, float("-inf")) + seen.settings.pools.plugin_patience - now
        if known is None and saying.offer == "AwaitingPlugin" and left > 0:
            draft.look_again(left)  # mostly it is offered by then, and that is all there is to say
            continue
        if len(actions) >= SAID_AT_ONCE:
            draft.look_again(0.0)
            break
        wanted = said(device.status.conditions, CONFIGURED, found, now=stamp(now))
        body = own_status(wanted, auto_attach=automatic, offer=saying.offer)
        actions.append(Apply(ref(GPUDEVICE, device), body, "status", together=True))
    return actions


def _strayed(seen: ObservedPool, standing: Standing, device: GPUDevice) -> Saying | None:
    """What Configured says of a card that is not offered for a pod that the cluster does not have; None elsewhere."""
    is_withdrawn = device.status.published is None
    return stray(device) if is_withdrawn and is_kept_by_strays(seen, standing, device) else None


def _taken(device: GPUDevice) -> Saying | None:
    """What Configured says of a card that others have by a resource that is not the module's; None where nobody has."""
    if (what := foreign_users(device)) is None:
        return None
    both = " Pods of this pool have it, too, and keep it: two tenants share its memory."
    own = both if device.status.allocations else ""
    message = f"The card is not offered: {what}.{own} It comes back once they have ended."
    return Saying(Finding(False, HELD_ELSEWHERE, message))


def _divided(seen: ObservedPool, standing: Standing, device: GPUDevice, now: float) -> Saying | None:
    """What Configured says of a card that waits for MIG, or that MIG has failed; None elsewhere."""
    if device.status.published is not None:
        return None
    node, told = device.status.node_name, device.status.mig_apply
    says = f"its MIG manager says {told.phase}" if told is not None else "its MIG manager has not answered"
    why = f" ({told.why})" if told is not None and told.why else ""
    if told is not None and is_of_another_boot(told, seen.facts(node).node):
        why = " and has not looked again since the node was started anew"
    missing = f" {unknown}." if (unknown := untold_state(device)) is not None else ""
    if not is_wanted(seen, device):
        if is_turned_back(seen, device):
            return None
        message = f"Node {node} has yet to turn MIG mode off: {says}{why}.{missing}"
        return Saying(Finding(False, "AwaitingTurnBack", message))
    if standing.offers and is_offered(seen, device) and not is_ready(seen, standing, device):
        message = f"Node {node} has yet to divide the card: {says}{why}.{missing}"
        still = Saying(Finding(False, "AwaitingLayout", message), "AwaitingLayout")
        return _undivided(seen, standing, device, now) or still
    return None


def _undivided(seen: ObservedPool, standing: Standing, device: GPUDevice, now: float) -> Saying | None:
    """What Configured says of a card that stands aside until a person does something; None where it is waited for."""
    part = part_of(seen.facts(device.status.node_name).layout, device)
    if (found := mode_obstacle(standing.applied.mode, part, device)) is not None:
        return Saying(Finding(False, found.kind, f"The card is not offered: {found.found}. {found.action}."))
    far = progress(seen, device, standing.applied, now)
    return aside(seen, device, far.failed, drifted=far.drifted) if far.failed is not None else None


def _agreement(device: GPUDevice, wanted: Published | None) -> Saying:
    """What Configured is to say; `wanted` None where the card is not to be offered."""
    published, node = device.status.published, device.status.node_name
    if wanted is None:
        if published is None:
            return Saying(Finding(True, "Withdrawn", "The card is not to be offered, and is not."), "Withdrawn")
        message = f"The device plugin on {node} has yet to withdraw the card."
        return Saying(Finding(False, names.REASON_AWAITING_WITHDRAWAL, message), "AwaitingWithdrawal")
    if published is None:
        message = f"The device plugin on {node} has yet to offer the card."
        return Saying(Finding(False, "AwaitingPlugin", message), "AwaitingPlugin")
    if published != wanted:
        found, expected = _spelled(published), _spelled(wanted)
        message = f"The device plugin on {node} offers {found}; {expected} is expected."
        return Saying(Finding(False, "SettingsDiffer", message))
    resource = names.resource_name(wanted.pool)
    return Saying(Finding(True, "Published", f"The device plugin on {node} offers the card as {resource}."), "Offered")


def _spelled(offer: Published) -> str:
    return f"pool {offer.pool}, settings {offer.config_version}, slots {offer.slots}"


def _remove(seen: ObservedPool, now: float) -> list[Action]:
    """Everything of a pool on the nodes, and the finalizer: it has let go of its last card, or the module is off."""
    daemonsets = [each for each in (seen.daemonset, seen.mig_manager) if each is not None]
    marks = deserted(seen, (*seen.members, *seen.claimants))
    return [*outlived(seen, now), *marks, *dismantle.operands(seen.configs, daemonsets), *dismantle.release(seen.pool)]


def _switched_off(seen: ObservedPool, now: float) -> Plan:
    """The module is disabled: the plugins withdraw the cards, then all of the pool goes but what it was told.

    Cards stay members and keep their annotations. A plugin that does not answer has `pools.pluginPatience`.
    """
    draft, standing = Draft(), judge(seen, now)
    if turned := _turn(seen, standing, now):
        draft.add(*turned)  # it brings the pool back
        return draft.done()
    began = standing.since if standing.since is not None else now
    left = began + seen.settings.pools.plugin_patience - now
    if standing.offered and seen.daemonset is not None and left > 0:
        draft.add(*_lists(seen, standing, 0.0, draft))
        draft.look_again(left)
    else:
        draft.add(*_remove(seen, now))
    return draft.done()


def _runs_low(seen: ObservedPool, status: GPUPoolStatus) -> list[Note]:
    """The event of a pool that comes to have few slots left, beside each write that may say so."""
    found = find(status.conditions, CAPACITY_LOW)
    if found is None or found.status != "True" or is_true(seen.pool.status.conditions, CAPACITY_LOW):
        return []
    message = f"{found.message} Add cards to the pool, or wait for pods to end; nothing is refused for this alone."
    return [Note(ref(GPUPOOL, seen.pool), "Warning", names.EVENT_CAPACITY_LOW, message)]


def _status(seen: ObservedPool, status: GPUPoolStatus) -> Apply:
    return Apply(ref(GPUPOOL, seen.pool), {"status": to_json(status)}, "status")
