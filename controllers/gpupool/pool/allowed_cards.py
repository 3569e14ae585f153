"""ConfigMaps of a GPUPool's device plugin: the lists of the cards that it may offer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.components.reconcile import deletions, reconcile_configmap
from controllers.gpupool.operands import device_plugin
from controllers.gpupool.pool.daemonsets import is_plugin_managed
from controllers.gpupool.pool.offering import should_offer
from controllers.runtime.plan import PlanBuilder

if TYPE_CHECKING:
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool
    from controllers.runtime.plan import Action


def plan_allowed_cards(view: ObservedPool, state: PoolState, wait: float, draft: PlanBuilder) -> list[Action]:
    """The plugin's ConfigMaps, where they differ from what they should be.

    A write that only adds cards comes after `wait` seconds. A card leaves the lists at once: whoever releases it goes
    by them.
    """
    if not is_plugin_managed(view, state):
        return []
    offered = [device for device in view.members if should_offer(view, state, device)]
    current = {config.name: config for config in view.configs}
    desired = device_plugin.configmaps(view.pool, offered, current)
    lists = PlanBuilder()
    for name, body in desired.items():
        reconcile_configmap(lists, name, current.get(name), body)
    lists.add(*deletions([config for name, config in current.items() if name not in desired], ()))
    actions = lists.actions
    listed = {card for config in view.configs for card in device_plugin.cards_in(config)}
    if actions and wait > 0 and listed <= {device.status.inventory_id for device in offered}:
        draft.requeue_within(wait)
        return []
    return actions
