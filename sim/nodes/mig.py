"""What the MIG manager of a simulated node does, and what it makes of the cards. Pure.

How a card is divided is the hardware's own state, as mode and instances are in a real one: it outlives every program,
so it stands in an annotation of the Node, and so does since when the manager is changing which cards.

A card's part of the node's layout has a version, and each version is tried once: it ends as Done or Failed, and stays
so whatever becomes of the card until the machine starts anew. What a reboot took from it is told of as Lost. Who wants
a version tried again asks for another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names as api
from controllers.api.gpudevice import MIG_OVER, MigApply
from controllers.domain.mig import DISABLED, CardLayout, NodeLayout, difference, read
from controllers.domain.pci import canonical
from sim.nodes import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import ConfigMap
    from controllers.domain.mig import PlannedCard
    from sim.nodes.machine import Machine

SECONDS: Final = 1
"""How long it takes to change a card, unless a fault says otherwise."""


@dataclass(frozen=True, slots=True)
class Work:
    """One apply: the only one of the node while it lasts."""

    since: float
    """Epoch seconds."""
    cards: Mapping[str, str]
    """The version of each card's part, by address."""

    def left(self, machine: Machine, now: float) -> float:
        """Seconds until it is over: the slowest card's time."""
        slowest = max((machine.faults.mig_slow.get(address, SECONDS) for address in self.cards), default=0)
        return self.since + slowest - now

    def text(self) -> str:
        """As the annotation has it."""
        return json.dumps({"since": self.since, "cards": dict(self.cards)}, sort_keys=True)


def work(annotations: Mapping[str, str]) -> Work | None:
    """What the manager is at; None where it is at nothing, or nobody can read at what."""
    try:
        found = json.loads(annotations.get(names.MIG_WORK, "null"))
        return Work(float(found["since"]), {str(card): str(version) for card, version in found["cards"].items()})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def wanted(configmap: ConfigMap | None) -> NodeLayout | None:
    """How the cards are to be divided; None where the ConfigMap cannot be relied on: it is left alone then."""
    if configmap is None:
        return NodeLayout()
    found = read(configmap.data)
    return found if found is not None and found.version == configmap.data.get(api.MIG_VERSION) else None


def told(
    part: PlannedCard | None, now: MigApply | None, machine: Machine, at_work: Work | None, boot: str
) -> MigApply | None:
    """What is to be said of a card. `part`: of the node's layout, if it has one; `now`: what is said.

    A card that has no part, or is lost, is not waited for.
    """
    if part is None or part.layout is None or all(card.address != part.address for card in machine.cards):
        return now if now is not None and now.phase in MIG_OVER else None
    version, known = part.version, boot or None
    if now is not None and now.version == version and now.phase in MIG_OVER:
        return now if now.boot_id == known else _after_reboot(part, machine, known)
    if machine.divided(part.address) == part.layout:
        return MigApply(version=version, phase="Done", boot_id=known)
    if at_work is not None and at_work.cards.get(part.address) == version:
        return MigApply(version=version, phase="Applying")
    tried = now == MigApply(version=version, phase="Applying")
    if tried and (why := refusal(part, machine)):
        return MigApply(version=version, phase="Failed", reason=why, boot_id=known)
    return MigApply(version=version, phase="Waiting")


def _after_reboot(part: PlannedCard, machine: Machine, boot: str | None) -> MigApply:
    """What is to be said of a card on which the work ended before the node was started anew."""
    if machine.divided(part.address) == part.layout:
        return MigApply(version=part.version, phase="Done", boot_id=boot)
    reason = "DriverReloaded: the node was rebooted, and the card is divided otherwise"
    return MigApply(version=part.version, phase="Lost", reason=reason, boot_id=boot)


def startable(
    layout: NodeLayout, devices: Iterable[GPUDevice], machine: Machine, *, clients: bool
) -> dict[str, GPUDevice]:
    """The cards that can be changed now, by address; `clients`: whether programs hold the node's cards open.

    Only a card that waits, that serves no pod and is offered to none, and that nobody holds where it is reset.
    """
    by_address = addresses(devices)
    parts = {part.address: part for part in layout.cards}
    there = {card.address for card in machine.cards} if machine.driver else set()
    now = {address: machine.divided(address) for address in parts}
    found = {}
    for change in difference(layout, now):
        device, part = by_address.get(change.address), parts[change.address]
        if device is None or change.address not in there or (change.needs_reset and clients):
            continue
        status = device.status
        waits = status.mig_apply == MigApply(version=part.version, phase="Waiting")
        used = status.allocations or status.foreign_allocations
        if waits and not used and status.published is None:
            found[change.address] = device
    return found


def changed(layout: NodeLayout, machine: Machine, done: Work) -> dict[str, CardLayout]:
    """How the node's cards are divided after an apply; what is wanted otherwise by now, or fails, stays as it is."""
    after = dict(machine.mig)
    for part in layout.cards:
        if part.layout is not None and done.cards.get(part.address) == part.version and not refusal(part, machine):
            after[part.address] = part.layout
    return after


def refusal(part: PlannedCard, machine: Machine) -> str:
    """Why the card does not take its part of the layout; empty where it does."""
    if part.address in machine.faults.mig_fails:
        return f"the driver did not divide card {part.address} (fault mig-fails)"
    card = next((card for card in machine.cards if card.address == part.address), None)
    offered = card.mig_profiles if card is not None else ()
    unknown = sorted(set(part.layout.instances if part.layout else ()) - set(offered))
    return f"card {part.address} offers no instance {', '.join(unknown)}" if unknown else ""


def addresses(devices: Iterable[GPUDevice]) -> dict[str, GPUDevice]:
    """The cards that inventory has described, by address."""
    known = ((device.status.hardware, device) for device in devices)
    return {hardware.pci.address: device for hardware, device in known if hardware is not None}


# --- the hardware's state ------------------------------------------------------------------------


def held(annotations: Mapping[str, str]) -> dict[str, CardLayout]:
    """How the cards are divided, by address: those in MIG mode, each with its instances."""
    try:
        found: dict[str, Any] = json.loads(annotations.get(names.MIG, "{}"))
        divided = {
            canonical(address): CardLayout(enabled=True, instances={str(name): int(n) for name, n in each.items()})
            for address, each in found.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
    return {address: layout for address, layout in divided.items() if address is not None}


def text(divided: Mapping[str, CardLayout]) -> str | None:
    """The same as the annotation has it; None where no card is in MIG mode."""
    found = {address: dict(layout.instances) for address, layout in divided.items() if layout != DISABLED}
    return json.dumps(found, sort_keys=True) if found else None
