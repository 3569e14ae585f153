"""GPUDevices whose Node was deleted: which are kept for a while, for how long, and when they are in use again. Pure.

A Node that is deleted and registered again, as clouds do with machines that were stopped, has lost nothing: the same
card (uuid) in the same place (address) of a Node of the same name is the card that somebody confirmed. So its record
stays for a while, with its annotations, labels and place in its pool. Whoever reads cards for pools does not see it
until a report of the node as it runs now names that uuid there. Another card in its place is new to everybody.

Name and uuid are the node's own word, and may be a stranger's who took the name: that is what the time is limited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.approval import is_ignored
from controllers.domain.clock import lies_ahead, seconds, stamp
from controllers.inventory import identity

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.inventory.reports.discovered_cards import DiscoveredCard
    from controllers.inventory.views import ObservedNode

COLLECTED = 120.0
"""Seconds after which Kubernetes has deleted the pods of a Node that is gone (40 s, and 20 s between looks)."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a GPUDevice outlives its deleted Node, in seconds, and the present time."""

    kept_for: float
    now: float

    def keeps(self, device: GPUDevice) -> bool:
        """Whether the GPUDevice is kept, while no report has recognised its card."""
        return is_worth_keeping(device) and self.seconds_left(device) > 0

    def seconds_left(self, device: GPUDevice) -> float:
        """Seconds until it is deleted; not positive when it is due."""
        return self._whole(device) - max(0.0, self.now - self._began(device))

    def until(self, device: GPUDevice) -> str:
        """The time of its deletion, RFC 3339."""
        return stamp(min(self._began(device), self.now) + self._whole(device))

    def since(self, device: GPUDevice) -> str:
        """Since when its Node has been gone: from now on where nobody has noted it."""
        noted = device.status.node_gone_since
        # A clock that was ahead must not make the time longer for which a name can be taken.
        return noted if noted is not None and not lies_ahead(noted, self.now) else stamp(self.now)

    def _whole(self, device: GPUDevice) -> int:
        """Seconds for which it is remembered at all: what is less than one is none."""
        by_itself = _comes_by_itself(device) and not is_ignored(device.metadata)
        return int(min(self.kept_for, COLLECTED) if by_itself else self.kept_for)

    def _began(self, device: GPUDevice) -> float:
        return seconds(self.since(device))


def is_worth_keeping(device: GPUDevice) -> bool:
    """Whether a person said something of the card that would be lost, and it can be told from others."""
    status, hardware = device.status, device.status.hardware
    if hardware is None or not hardware.uuid:
        return False
    if identity.device_name(status.node_name or "", hardware.pci.address) != device.name:
        return False
    if is_ignored(device.metadata):
        return True
    named = device.metadata.annotations.get(names.ASSIGNMENT)
    # What a pool takes by itself it takes again; but for pods that have the card, and keep it from that.
    return bool(named) and (not _comes_by_itself(device) or bool(status.allocations))


def _comes_by_itself(device: GPUDevice) -> bool:
    """Whether the card's pool takes it without a person."""
    home, named = device.status.pool_ref, device.metadata.annotations.get(names.ASSIGNMENT)
    return bool(device.status.auto_attach) and home is not None and home.name == named


def is_recognised(seen: ObservedNode, device: GPUDevice, card: DiscoveredCard) -> bool:
    """Whether a report of the node as it runs now names the card in the place where it was.

    What the agent wrote before the Node was deleted is still there, and would vouch for another machine: the report has
    to be of the start that the Node tells of. A report or a Node without its start says nothing here.
    """
    old, now, node = device.status.hardware, card.hardware, seen.node
    if old is None or now is None or node is None or not node.ready or seen.report is None:
        return False
    agent, booted = seen.report.spec.features.attributes.agent, node.status.node_info.boot_id
    of_this_start = bool(booted) and agent is not None and agent.elements.get("boot_id") == booted
    return of_this_start and old.uuid is not None and old.uuid == now.uuid and old.pci.address == now.pci.address
