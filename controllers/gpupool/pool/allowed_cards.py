"""ConfigMaps of a GPUPool's device plugin: the lists of the cards that it may offer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CONFIGMAP
from controllers.gpupool import operands
from controllers.gpupool.pool.daemonsets import is_owned_by, is_plugin_managed
from controllers.gpupool.pool.offering import should_offer
from controllers.runtime.drift import is_as_written
from controllers.runtime.plan import Action, Apply, Delete, Ref, ref

if TYPE_CHECKING:
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool
    from controllers.runtime.plan import Draft


def plan_allowed_cards(view: ObservedPool, state: PoolState, wait: float, draft: Draft) -> list[Action]:
    """The plugin's ConfigMaps, where they differ from what they should be.

    A write that only adds cards comes after `wait` seconds. A card leaves the lists at once: whoever releases it goes
    by them.
    """
    if not is_plugin_managed(view, state):
        return []
    offered = [device for device in view.members if should_offer(view, state, device)]
    current = {config.name: config for config in view.configs}
    desired = operands.configmaps(view.pool, offered, current)
    actions: list[Action] = [
        Apply(Ref(CONFIGMAP, name, names.NAMESPACE), body)
        for name, body in desired.items()
        if name not in current or not is_as_written(current[name], body) or not is_owned_by(current[name], view.pool)
    ]
    actions += [
        Delete(ref(CONFIGMAP, config), config.metadata.resource_version)
        for name, config in current.items()
        if name not in desired
    ]
    listed = {card for config in view.configs for card in operands.cards_in(config)}
    if actions and wait > 0 and listed <= {device.status.inventory_id for device in offered}:
        draft.look_again(wait)
        return []
    return actions
