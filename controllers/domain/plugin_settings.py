"""The ConfigMap of a pool's device plugins: its settings, and the entry of one card. Pure.

`slots` is what most cards of the pool have; `cards` lists those that have another number (in mode MIG boards of one
pool may differ). What a plugin acknowledges in `published.configVersion` is the hash of what concerns that card, so a
neighbour's number changes nothing there.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.gpudevice import Published
from controllers.api.gpupool import MpsShares
from controllers.domain.allocation import slots_under

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpupool import AllocationSpec

VERSION_LENGTH = 16


@dataclass(frozen=True, slots=True)
class MpsLimits:
    """Shares of a client of MPS, as the pool spells them."""

    memory: str
    """`Equal`, or a quantity such as 4Gi."""
    threads: str
    """`Equal`, or a percentage such as 25%."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """What the plugins of a pool are to offer."""

    pool: str
    mode: str
    slots: int
    """Slots of a card that `cards` does not name."""
    profile: str | None = None
    """MIG profile, as the pool spells it; None in other modes."""
    cards: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Slots of the cards (by inventoryID) that have another number."""
    limits: MpsLimits | None = None
    """What a client of MPS may have of a card; None in other modes."""

    def text(self) -> str:
        """The settings as the ConfigMap carries them; the same offer always gives the same text."""
        more = {"cards": dict(self.cards)} if self.cards else {}
        return json.dumps(_concerning(self.pool, self.mode, self._chosen, self.slots) | more, sort_keys=True)

    def of(self, inventory_id: str) -> Published:
        """What a plugin publishes for a card that its list allows."""
        return _published(self.pool, self.mode, self._chosen, self.cards.get(inventory_id, self.slots))

    @property
    def _chosen(self) -> str | MpsLimits | None:
        """What the mode has beside its slots."""
        return self.profile if self.limits is None else self.limits


def offer_of(pool: str, allocation: AllocationSpec, slots: Mapping[str, int]) -> PluginSettings:
    """The offer of a pool. `slots`: of each of its cards, by inventoryID."""
    counted = Counter(slots.values())
    # The most frequent number; of two as frequent the larger, so that the order of cards does not matter.
    usual = max(counted, key=lambda number: (counted[number], number), default=slots_under(None, allocation))
    others = {card: number for card, number in sorted(slots.items()) if number != usual}
    limits = None
    if allocation.mode == "MPS":
        shares = allocation.mps or MpsShares()
        limits = MpsLimits(shares.memory, shares.threads)
    return PluginSettings(pool, allocation.mode, usual, allocation.mig_profile, MappingProxyType(others), limits)


def read(pool: str, text: str) -> PluginSettings | None:
    """The offer that a ConfigMap of a pool carries; None where it cannot be read or is another pool's."""
    try:
        found = json.loads(text)
        cards = dict(found.get("cards", {}))
        readable = (
            found["pool"] == pool
            and found["resource"] == names.resource_name(pool)
            and all(type(slots) is int and slots >= 0 for slots in (found["slots"], *cards.values()))
        )
        shares = found.get("mps")
        limits = MpsLimits(str(shares["memory"]), str(shares["threads"])) if shares is not None else None
        profile, own = found.get("profile"), MappingProxyType(cards)
        made = PluginSettings(pool, found["mode"], found["slots"], profile, own, limits)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return made if readable else None


@lru_cache(maxsize=4096)
def _published(pool: str, mode: str, chosen: str | MpsLimits | None, slots: int) -> Published:
    """The same for all cards of a pool that have so many slots."""
    concerning = json.dumps(_concerning(pool, mode, chosen, slots), sort_keys=True)
    version = hashlib.sha256(concerning.encode()).hexdigest()[:VERSION_LENGTH]
    return Published(pool=pool, config_version=version, slots=slots)


def _concerning(pool: str, mode: str, chosen: str | MpsLimits | None, slots: int) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if isinstance(chosen, MpsLimits):
        more = {"mps": {"memory": chosen.memory, "threads": chosen.threads}}
    elif chosen is not None:
        more = {"profile": chosen}
    return {"mode": mode, "pool": pool, "resource": names.resource_name(pool), "slots": slots} | more
