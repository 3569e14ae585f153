"""What a device plugin finds on a simulated node, as facts for `nodeagent.deviceplugin`, which decides. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names as api
from nodeagent.deviceplugin.devices import offers
from nodeagent.deviceplugin.devices.offers import DesiredOffer
from nodeagent.deviceplugin.devices.records import ContainerHolding, NodeScan
from nodeagent.host.mpsfiles import Daemons
from sim.nodes import nvml

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import ConfigMap
    from sim.nodes.machine import Machine

HOLDER: Final = ("elsewhere", "holder", "main")
"""Namespace, pod and container that has a card by another device plugin's resource."""
NO_DAEMONS: Final = Daemons()
FOREIGN: Final = "nvidia.com/gpu"


def pool_of(configmap: ConfigMap) -> str:
    """The pool whose plugin reads a ConfigMap: by its label, else by its name."""
    prefix = api.plugin_object("")
    if not configmap.name.startswith(prefix):
        return ""
    return configmap.metadata.labels.get(api.LABEL_POOL) or configmap.name.removeprefix(prefix)


def seen(
    node: str, machine: Machine, cards: Iterable[GPUDevice], asked: DesiredOffer, daemons: Daemons = NO_DAEMONS
) -> NodeScan:
    """What a pool's plugin sees there; a driver that is not loaded told of MIG instances earlier."""
    lost = frozenset(map(offers.address, cards)) - {card.address for card in machine.cards} - {""}
    if machine.software is None or not offers.asks_driver(asked):
        return NodeScan(lost=lost, daemons=daemons)
    told = nvml.driver(node, machine, machine.software).cards.values()
    instances = {card.address: card.mig_devices for card in told if card.mig_enabled is not None}
    if machine.driver:
        return NodeScan(lost=lost, instances=instances)
    return NodeScan(lost=lost, unresponsive=frozenset(instances), instances=instances, remembered=frozenset(instances))


def deaf(pool: str, cards: Iterable[GPUDevice]) -> DesiredOffer:
    """What a plugin goes by that hears of no change: it offers what it offers."""
    offered = (card for card in cards if card.status.published is not None and card.status.published.pool == pool)
    return DesiredOffer(allowed=frozenset(card.status.inventory_id or "" for card in offered))


def foreign(cards: Iterable[GPUDevice], held: Container[str]) -> tuple[ContainerHolding, ...]:
    """What kubelet says of others' pods; `held`: the addresses of the cards that they have."""
    return tuple(
        ContainerHolding(*HOLDER, (offers.uuid(card),), FOREIGN) for card in cards if offers.address(card) in held
    )
