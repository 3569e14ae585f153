"""Nodes that somebody asks for by annotation: pods end, the module's clients leave, and the Node says that it is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names, resources
from tests.kit.waiting import PATIENCE
from tests.slice.drivers import BARE, WANTED, Drivers
from tests.slice.fleets import cluster, drivers

if TYPE_CHECKING:
    pass

__all__ = ["cluster", "drivers"]
pytestmark = [pytest.mark.cluster]
CLIENTS = ("dcgm", "dcgm-exporter", "gfd", "validator", "device-plugin")
"""Components that hold a driver open."""


def says_so(drivers: Drivers, node: str) -> bool:
    """Whether the Node says that somebody has it."""
    found = drivers.node(node).status.conditions
    return any((one.type, one.status) == (names.NODE_HANDED_OVER, "True") for one in found)


def clients(drivers: Drivers, node: str) -> list[str]:
    """The module's own pods on a node that hold its driver open."""
    here = (pod for pod in drivers.view.pods if pod.node == node and not pod.finished)
    return sorted(one for pod in here if (one := pod.metadata.labels.get(names.LABEL_COMPONENT, "")) in CLIENTS)


async def test_a_node_is_handed_over_once_its_pod_has_ended_and_serves_again_after(drivers: Drivers) -> None:
    nodes = await drivers.nodes(BARE, BARE)
    await drivers.driver(rollout={"maxUnavailable": {"nodes": "1", "perPool": "100%"}})
    await drivers.in_service(nodes)
    people, (node, other) = drivers.people, nodes
    await people.namespace("handed")
    cards = sorted(one.name for one in drivers.view.devices if one.status.node_name == node)
    await people.filled("handed", cards)
    await people.pod("one", "handed", "handed")
    await people.running("handed", 1)
    before = drivers.label(node)
    assert clients(drivers, node)
    await drivers.mark(node, names.HAND_OVER, "kernel-update")
    await drivers.works(node, "Draining")
    await drivers.mark(other, names.HAND_OVER, "kernel-update")
    await drivers.works(other, "Queued")
    assert not says_so(drivers, node)
    await people.remove(resources.POD, "one", "handed")
    await drivers.view.until(lambda: says_so(drivers, node), PATIENCE, drivers.told)

    assert clients(drivers, node) == []
    assert drivers.label(node) == before
    assert drivers.ready(node) == ("False", "DriverWork")
    assert drivers.ready(other)[0] == "True", "one at a time"
    await drivers.mark(node, names.HAND_OVER, None)
    await drivers.in_service([node], WANTED)
    await drivers.view.until(lambda: not says_so(drivers, node), PATIENCE, drivers.told)
    await people.offered("handed", len(cards))
    await drivers.view.until(lambda: says_so(drivers, other), PATIENCE, drivers.told)
    await drivers.mark(other, names.HAND_OVER, None)
    await drivers.in_service(nodes, WANTED)
    await people.retire("handed")
