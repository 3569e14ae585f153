"""One pool: from what is seen to what is to be written, in an order of which any prefix is safe.

Cards come in before anything offers them, and leave only after nothing does; operands exist
before nodes are told to run them; the finalizer is the first thing and goes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import CONFIGURED, condition, find
from controllers.api.record import to_json
from controllers.api.resources import CONFIGMAP, DAEMONSET, GPUDEVICE, GPUPOOL
from controllers.domain.clock import stamp
from controllers.gpupool import operands
from controllers.gpupool.assignment import assign, is_offered, release
from controllers.gpupool.select import SERVED_MODES
from controllers.gpupool.status import pool_status
from controllers.runtime.plan import Action, Apply, Delete, Draft, Expect, Merge, Plan, Ref, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.meta import KubeObject
    from controllers.gpupool.observe import ObservedPool


def plan(seen: ObservedPool, now: float, *, status_in: float = 0.0) -> Plan:
    """Plan for a pool. `status_in`: seconds until its status may be written again."""
    draft = Draft()
    deleting = seen.pool.metadata.deletion_timestamp is not None
    if deleting and not seen.members:
        draft.add(*_remove(seen))
        return draft.done()
    if names.FINALIZER_POOL not in seen.pool.metadata.finalizers and not deleting:
        draft.add(_finalizer(seen, [names.FINALIZER_POOL]))
    draft.add(*assign(seen, now))
    draft.add(*_offer(seen))
    leaving = release(seen, now)
    draft.add(*leaving)
    gone = {action.ref.name for action in leaving if isinstance(action, Merge)}
    draft.add(*_configured(seen, gone, now))
    _say(draft, seen, now, status_in)
    return draft.done()


def orphans(seen: ObservedPool, now: float) -> Plan:
    """Let go of the cards of a pool that is gone without having done so, once a quorum read confirms that."""
    draft = Draft()
    if leaving := release(seen, now):
        draft.add(Expect(GPUPOOL, frozenset(), fields=f"metadata.name={seen.pool.name}"), *leaving)
    return draft.done()


def _finalizer(seen: ObservedPool, wanted: list[str]) -> Apply:
    return Apply(ref(GPUPOOL, seen.pool), {"metadata": {"finalizers": wanted}})


def _offer(seen: ObservedPool) -> list[Action]:
    """The plugin's ConfigMaps and DaemonSet, where they differ from what they should be."""
    if seen.pool.spec.allocation.mode not in SERVED_MODES and seen.daemonset is None:
        return []
    offered = [device for device in seen.members if is_offered(seen, device)]
    known = {config.name: config for config in seen.configs}
    wanted = operands.configmaps(seen.pool, offered, known)
    actions: list[Action] = [
        Apply(Ref(CONFIGMAP, name, names.NAMESPACE), body)
        for name, body in wanted.items()
        if name not in known or known[name].data != body["data"] or not _is_ours(known[name], seen)
    ]
    actions += [Delete(ref(CONFIGMAP, config)) for name, config in known.items() if name not in wanted]
    daemonset = operands.daemonset(seen.pool, seen.agent_image)
    current = seen.daemonset
    annotations = current.metadata.annotations if current else {}
    stale = annotations.get(names.SPEC_HASH) != daemonset["metadata"]["annotations"][names.SPEC_HASH]
    if stale or current is None or not _is_ours(current, seen):
        actions.append(Apply(Ref(DAEMONSET, names.plugin_object(seen.pool.name), names.NAMESPACE), daemonset))
    return actions


def _is_ours(operand: KubeObject, seen: ObservedPool) -> bool:
    """Whether this pool owns it: one of a deleted pool of the same name is about to be collected."""
    return [owner.uid for owner in operand.metadata.owner_references] == [seen.pool.metadata.uid]


def _configured(seen: ObservedPool, gone: set[str], now: float) -> list[Action]:
    """The condition Configured of the pool's cards: published matches wanted."""
    version = operands.config_version(operands.settings_text(seen.pool.name, seen.pool.spec.allocation))
    actions: list[Action] = []
    for device in seen.members:
        if device.name in gone:
            continue  # `reservations` takes the condition off a card that is in no pool
        status, reason, message = _agreement(seen, device, version)
        wanted = condition(
            device.status.conditions, CONFIGURED, status=status, reason=reason, message=message, now=stamp(now)
        )
        if find(device.status.conditions, CONFIGURED) != wanted:
            body = {"status": {"conditions": [to_json(wanted)]}}
            actions.append(Apply(ref(GPUDEVICE, device), body, "status"))
    return actions


def _agreement(seen: ObservedPool, device: GPUDevice, version: str) -> tuple[bool, str, str]:
    published, node = device.status.published, device.status.node_name
    if not is_offered(seen, device):
        if published is None:
            return True, "Withdrawn", "The card is not to be offered, and is not."
        return False, "AwaitingWithdrawal", f"The device plugin on {node} has yet to withdraw the card."
    if published is None:
        return False, "AwaitingPlugin", f"The device plugin on {node} has yet to offer the card."
    if published.pool != seen.pool.name or published.config_version != version:
        found = f"pool {published.pool}, settings {published.config_version}"
        return False, "SettingsDiffer", f"The device plugin on {node} offers {found}; {version} is expected."
    return True, "Published", f"The device plugin on {node} offers the card as {names.resource_name(seen.pool.name)}."


def _remove(seen: ObservedPool) -> list[Action]:
    """Everything of a pool that is being deleted and has let go of its last card."""
    actions: list[Action] = [Delete(ref(CONFIGMAP, config)) for config in seen.configs]
    if seen.daemonset is not None:
        actions.append(Delete(ref(DAEMONSET, seen.daemonset)))
    if names.FINALIZER_POOL in seen.pool.metadata.finalizers:
        actions.append(_finalizer(seen, []))
    return actions


def _say(draft: Draft, seen: ObservedPool, now: float, status_in: float) -> None:
    """The status, at most once in a while: a burst of pods costs one write, not one each."""
    wanted = pool_status(seen, now)
    if wanted == seen.pool.status:
        return
    if status_in > 0:
        draft.look_again(status_in)
        return
    body: dict[str, Any] = {"status": to_json(wanted)}
    draft.add(Apply(ref(GPUPOOL, seen.pool), body, "status"))
