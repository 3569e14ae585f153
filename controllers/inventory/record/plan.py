"""The planner of one node: from its view to the writes of its GPUDevices and its GPUNodeInventory. Pure.

Cards first, the node's summary after them: whoever reads the summary finds the cards that it
names. Each object costs two writes when it is new and none while nothing changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api.resources import GPUDEVICE
from controllers.domain.clock import stamp
from controllers.inventory.record.card_status import write_card
from controllers.inventory.record.deleted_node import forget_node
from controllers.inventory.record.events import add_card_events
from controllers.inventory.record.inventory_status import delete_inventory, write_inventory
from controllers.inventory.record.node_cards import decide
from controllers.inventory.record.remembered import Retention
from controllers.runtime.plan import Delete, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.settings import Settings
    from controllers.inventory.views import ObservedNode


def plan(seen: ObservedNode, settings: Settings, now: float) -> Plan:
    """The writes of one node's GPUDevices and GPUNodeInventory; `now` in seconds since the epoch."""
    memory = Retention(settings.inventory.remember_for, now)
    if seen.node is None:
        return forget_node(seen, memory, stamp(now))
    decision = decide(seen, memory, settings.managed_nodes)
    if decision.is_obsolete:
        return Plan(delete_inventory(seen.inventory))
    if not decision.is_gpu_node:
        return Plan()
    draft, at = PlanBuilder(requeue_after=settings.inventory.resync_period), stamp(now)
    disabled = decision.conditions[kinds.MANAGED_DISABLED]
    for card in decision.cards:
        write_card(draft, seen.node, card, disabled, at)
    for removal in decision.removals:
        draft.add(Delete(ref(GPUDEVICE, removal.device), removal.device.metadata.resource_version))
    write_inventory(draft, seen, decision, at)
    add_card_events(draft, seen, decision.cards, decision.removals)
    return draft.build()
