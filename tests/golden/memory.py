"""One node in memory: the planner settles it, and what it made is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import resources
from controllers.inventory.record.plan import plan
from tests.golden import node as objects
from tests.inventory.world import Cluster

if TYPE_CHECKING:
    from controllers.runtime.plan import Plan
    from tests.data.told import Told


class OneNode(Cluster):
    """The cluster of the inventory's own tests, with a node of any name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def plan(self) -> Plan:
        return plan(self.view().node(self.name), self.settings, self.now)

    @property
    def summary(self) -> dict[str, Any] | None:
        """The node's GPUNodeInventory."""
        return self.objects.get(("GPUNodeInventory", self.name))


def settled(told: Told, *, labelled: bool) -> OneNode:
    """The node of a dump, after the inventory has come to rest."""
    cluster = OneNode(told.node_name)
    cluster.put(resources.NODE, objects.node(told, cluster.name, labelled=labelled))
    for report in objects.reports(told, cluster.name):
        cluster.put(resources.NODEFEATURE, report)
    if (own := objects.agent_report(told, cluster.name)) is not None:
        cluster.put(resources.NODEFEATURE, own)
    assert cluster.settle() <= 1
    return cluster
