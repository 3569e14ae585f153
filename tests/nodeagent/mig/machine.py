"""A node's cards as a state machine: what mig-parted and nvidia-smi do to them, step by step, and what goes wrong.

The state is one JSON object, so that programs (`program.py`) can share it as a file. A fault is the name of a step
(`create:<address>:<profile>`, `clear:<address>`, `mode:<address>:on`, `reset:<address>`) that fails whenever it comes;
`stuck:<address>` lets a reset bring no other mode, and `hang:` before any of them never ends. `contexts` counts, by
address, how often somebody with a context of CUDA is still there when an instance, or the card's mode, is to go.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from controllers.domain.catalogue import geometry, model
from controllers.domain.mig import DISABLED, CardLayout
from tests.domain.mig import parted
from tests.tools.placement import fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.hardware import Card, Shape

State = dict[str, Any]
NO_MIG = "error setting MIG configuration: MIG mode of the GPU is not enabled"


class Failure(Exception):
    """What the program says before it ends with status 1."""


def state(cards: list[Card], needs_reset: bool) -> State:
    """The cards of a machine, undivided."""
    made = {
        card.address: {
            "vendor": card.vendor, "device": card.device, "needs_reset": needs_reset,
            "mode": False, "pending": False, "instances": {},
        }
        for card in cards
    }  # fmt: skip
    return {
        "cards": made,
        "faults": [],
        "held": [],
        "contexts": {},
        "in_use": [],
        "log": [],
        "touched": [],
        "refused": [],
    }


def seats(shape: Shape, count: int) -> list[Card]:
    """The first cards of a shape that can be divided."""
    return [card for card in shape.cards if card.mig_profiles][:count]


class Machine:
    """The state and what is done to it; `step` is called before each change, and may save, or die."""

    def __init__(self, found: State, step: Callable[[], None]) -> None:
        self.state, self._step = found, step

    def layout(self, address: str) -> CardLayout:
        """How a card is divided, by the mode in force."""
        card = self.state["cards"][address]
        return CardLayout(True, dict(card["instances"])) if card["mode"] else DISABLED

    def apply(self, text: str, *, mode_only: bool) -> None:
        """`nvidia-mig-parted apply --skip-reset`."""
        meant = self._meant(text)
        self.state["log"].append(["apply", mode_only, [address for _, address in meant]])
        if any(self._card(address)["mode"] != entry["mig-enabled"] for entry, address in meant):
            for entry, address in meant:
                if self._card(address)["mode"]:
                    self._clear(address)
                self._mode(address, entry["mig-enabled"])
        if not mode_only:
            for entry, address in meant:
                self._divide(address, CardLayout(entry["mig-enabled"], entry.get("mig-devices", {})))

    def check(self, text: str) -> None:
        """`nvidia-mig-parted assert`."""
        for entry, address in self._meant(text):
            if self.layout(address) != CardLayout(entry["mig-enabled"], entry.get("mig-devices", {})):
                raise Failure("Assertion failure: selected configuration not currently applied")

    def reset(self, address: str) -> None:
        """`nvidia-smi --gpu-reset -i ADDRESS`."""
        self.state["log"].append(["reset", address])
        card = self._touch(address)
        if address in self.state["held"]:
            raise Failure(f"GPU {address} is currently in use by another client")
        self._begin(f"reset:{address}")
        if f"stuck:{address}" not in self.state["faults"]:
            card["mode"] = card["pending"]

    def mode(self, address: str, *, enabled: bool) -> None:
        """`nvidia-smi -mig 0 -i ADDRESS`."""
        self.state["log"].append(["mode", address, enabled])
        self._mode(address, enabled)

    def _meant(self, text: str) -> list[tuple[dict[str, Any], str]]:
        order, cards = sorted(self.state["cards"]), self.state["cards"]
        found = []
        for entry in parted.parse(text):
            ids = {int(one, 0) for one in entry["device-filter"]}
            for index in entry["devices"]:
                card = cards[order[index]]
                if int(card["device"] + card["vendor"], 16) in ids:
                    found.append((entry, order[index]))
        return found

    def _card(self, address: str) -> dict[str, Any]:
        found: dict[str, Any] = self.state["cards"][address]
        return found

    def _touch(self, address: str) -> dict[str, Any]:
        if address in self.state["in_use"]:
            self.state["touched"].append(address)
        return self._card(address)

    def _begin(self, step: str) -> None:
        while f"hang:{step}" in self.state["faults"]:
            self._step()
            time.sleep(0.05)
        if step in self.state["faults"]:
            self.state["refused"].append(step)
            raise Failure(f"error: the driver refused ({step})")
        self._step()

    def _has_context(self, address: str) -> bool:
        left: int = self.state["contexts"].get(address, 0)
        self.state["contexts"][address] = max(left - 1, 0)
        return left > 0

    def _mode(self, address: str, enabled: bool) -> None:
        card = self._touch(address)
        self._begin(f"mode:{address}:{'on' if enabled else 'off'}")
        card["pending"] = enabled
        if not card["needs_reset"] and not self._has_context(address):
            card["mode"] = enabled

    def _clear(self, address: str) -> None:
        card = self._touch(address)
        if card["instances"]:
            if self._has_context(address):
                raise Failure("error destroying Compute instance for profile '(0, 0)': In use by another client")
            self._begin(f"clear:{address}")
            card["instances"] = {}

    def _divide(self, address: str, wanted: CardLayout) -> None:
        card = self._touch(address)
        if card["mode"] != wanted.enabled:
            raise Failure(NO_MIG)
        if card["instances"] == dict(wanted.instances):
            return
        known = model(card["vendor"], card["device"])
        cut = geometry(known.geometry or "") if known else None
        assert cut is not None
        assert fits(cut, [name for name, count in wanted.instances.items() for _ in range(count)])
        self._clear(address)
        for name, count in wanted.instances.items():
            for _ in range(count):
                self._begin(f"create:{address}:{name}")
                card["instances"][name] = card["instances"].get(name, 0) + 1
