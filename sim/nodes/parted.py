"""nvidia-mig-parted and nvidia-smi of a simulated node, and what they do to its cards.

They are started as `nodeagent.mig.tools` says.
How cards are divided is written where the hardware has it, in the node's annotation. Only a MIG mode that waits for a
reset is kept here: it goes with the process, as if the node had never been asked for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import yaml

from controllers.domain.catalogue import geometry, model
from controllers.domain.mig import DISABLED, CardLayout
from controllers.domain.mig.placement import places
from controllers.domain.pci import place
from nodeagent.mig.tools import Outcome, is_busy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sim.nodes.machine import Machine

SECONDS: Final = 1
"""How long it takes to change a card's instances, unless a fault says otherwise; its mode alone changes at once."""


class Programs:
    """The programs of one node."""

    def __init__(
        self,
        machine: Callable[[], Machine],
        divide: Callable[[Mapping[str, CardLayout]], Awaitable[None]],
        clients: Callable[[], frozenset[str]],
    ) -> None:
        """Prepare; `divide` changes how cards are divided, by address; `clients` are those who hold them open."""
        self._machine, self._divide, self._clients = machine, divide, clients
        self._modes: dict[str, bool] = {}
        """MIG modes that wait for a reset, by address."""

    async def apply(self, document: str, *, mode_only: bool) -> Outcome:
        """See `nodeagent.mig.tools.Tools`."""
        wanted = self._wanted(document)
        built = not mode_only or not all(layout.enabled for layout in wanted.values())
        machine = self._machine()
        changing = [address for address, layout in wanted.items() if machine.divided(address) != layout]
        if built and changing:
            await asyncio.sleep(max(machine.faults.mig_slow.get(address, SECONDS) for address in changing))
        for address in changing:
            if why := _refusal(self._machine(), address, wanted[address]):
                return Outcome(ok=False, text=f"nvidia-mig-parted apply: {why}")
        await self._set_modes({address: wanted[address].enabled for address in changing})
        if mode_only:
            return Outcome(ok=True)
        for address in changing:
            if self._machine().divided(address).enabled != wanted[address].enabled:
                return Outcome(ok=False, text=f"nvidia-mig-parted apply: MIG mode of card {address} is not in force")
        await self._divide({address: wanted[address] for address in changing})
        return Outcome(ok=True)

    async def check(self, document: str) -> Outcome:
        """See `nodeagent.mig.tools.Tools`."""
        machine = self._machine()
        other = sorted(a for a, layout in self._wanted(document).items() if machine.divided(a) != layout)
        return Outcome(not other, f"nvidia-mig-parted assert: not so: {', '.join(other)}" if other else "")

    async def reset(self, address: str) -> Outcome:
        """See `nodeagent.mig.tools.Tools`."""
        if clients := self._clients():
            who = ", ".join(sorted(clients))
            text = f"nvidia-smi --gpu-reset: GPU {address} is currently in use by {who}"
            return Outcome(ok=False, text=text, busy=is_busy(text))
        mode = self._modes.pop(address, None)
        if mode is not None:
            await self._divide({address: CardLayout(enabled=True) if mode else DISABLED})
        return Outcome(ok=True)

    async def mode(self, address: str, *, enabled: bool) -> Outcome:
        """See `nodeagent.mig.tools.Tools`."""
        await self._set_modes({address: enabled})
        return Outcome(ok=True)

    async def _set_modes(self, modes: Mapping[str, bool]) -> None:
        """Turn MIG mode on or off, which does away with instances; where it takes a reset it waits for that."""
        machine = self._machine()
        at_once: dict[str, CardLayout] = {}
        for address, enabled in modes.items():
            self._modes.pop(address, None)
            if machine.divided(address).enabled == enabled:
                continue
            if _needs_reset(machine, address):
                self._modes[address] = enabled
            else:
                at_once[address] = CardLayout(enabled=True) if enabled else DISABLED
        if at_once:
            await self._divide(at_once)

    def _wanted(self, document: str) -> dict[str, CardLayout]:
        """How the cards of a document are to be divided; it counts those that NVML answers for, by address."""
        order = sorted((card.address for card in self._machine().cards), key=place)
        (entries,) = yaml.safe_load(document)["mig-configs"].values()
        return {order[number]: _layout(entry) for entry in entries for number in entry["devices"]}


def _layout(entry: Mapping[str, Any]) -> CardLayout:
    return CardLayout(enabled=True, instances=entry["mig-devices"]) if entry["mig-enabled"] else DISABLED


def _needs_reset(machine: Machine, address: str) -> bool:
    card = next((card for card in machine.cards if card.address == address), None)
    known = model(card.vendor, card.device) if card is not None else None
    return known is not None and known.mig_needs_reset is True


def _refusal(machine: Machine, address: str, wanted: CardLayout) -> str:
    """Why the driver does not divide a card so; empty where it does."""
    if address in machine.faults.mig_fails:
        return f"the driver did not divide card {address} (fault mig-fails)"
    card = next((card for card in machine.cards if card.address == address), None)
    if card is None:
        return f"there is no card {address}"
    unknown = sorted(wanted.instances.keys() - set(card.mig_profiles))
    if unknown:
        return f"card {address} has no profile {', '.join(unknown)}"
    known = model(card.vendor, card.device)
    cut = geometry(known.geometry) if known is not None and known.geometry is not None else None
    if cut is not None and places(cut, wanted.instances) is None:
        return f"card {address}: Insufficient Resources for {dict(wanted.instances)}"
    return ""
