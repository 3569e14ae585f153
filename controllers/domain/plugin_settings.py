"""The ConfigMap of a pool's device plugins: its settings, and the entry of one card. Pure.

`slots` is what most cards of the pool have; `cards` lists those that have another number (in mode MIG boards of one
pool may differ). `profiles` is a mixed layout, which every card of the lists has. What a plugin acknowledges in
`published.configVersion` is the hash of what concerns that card, so a neighbour's number changes nothing there.
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
from controllers.api.gpudevice import ProfileSlots, Published
from controllers.api.gpupool import MpsShares
from controllers.domain.allocation import profiles_of, slots_under
from controllers.domain.request import suffixes_for

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


Chosen = MpsLimits | tuple[tuple[str, int], ...] | str | None
"""What a mode has beside its slots: limits of MPS, slots of each profile of a mixed layout, or the MIG profile."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """What the plugins of a pool are to offer."""

    pool: str
    mode: str
    slots: int
    """Slots of a card that `cards` does not name."""
    profile: str | None = None
    """MIG profile, as the pool spells it; None in other modes and under a mixed layout."""
    cards: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Slots of the cards (by inventoryID) that have another number."""
    limits: MpsLimits | None = None
    """What a client of MPS may have of a card; None in other modes."""
    profiles: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """A mixed layout: slots of each profile, in the driver's spelling, of every card; each has its own resource."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What stands after `gpu.deckhouse.io/` in the resources under which the cards are offered."""
        return suffixes_for(self.pool, self.profiles)

    def text(self) -> str:
        """The settings as the ConfigMap carries them; the same offer always gives the same text."""
        more = {"cards": dict(self.cards)} if self.cards else {}
        return json.dumps(_concerning(self.pool, self.mode, self._chosen, self.slots) | more, sort_keys=True)

    def of(self, inventory_id: str) -> Published:
        """What a plugin publishes for a card that its list allows."""
        return _published(self.pool, self.mode, self._chosen, self.cards.get(inventory_id, self.slots))

    @property
    def _chosen(self) -> Chosen:
        """What the mode has beside its slots."""
        if self.limits is not None:
            return self.limits
        return tuple(self.profiles.items()) or self.profile


def offer_of(pool: str, allocation: AllocationSpec, slots: Mapping[str, int]) -> PluginSettings:
    """The offer of a pool. `slots`: of each of its cards, by inventoryID."""
    counted = Counter(slots.values())
    # The most frequent number; of two as frequent the larger, so that the order of cards does not matter.
    usual = max(counted, key=lambda number: (counted[number], number), default=slots_under(None, allocation))
    others = {card: number for card, number in sorted(slots.items()) if number != usual}
    own = MappingProxyType(others)
    if allocation.mode == "MPS":
        shares = allocation.mps or MpsShares()
        return PluginSettings(pool, "MPS", usual, cards=own, limits=MpsLimits(shares.memory, shares.threads))
    if profiles := profiles_of(allocation):
        # Every card of the lists has exactly this: what cannot be divided so is never on them.
        return PluginSettings(pool, "MIG", sum(profiles.values()), profiles=MappingProxyType(dict(profiles)))
    return PluginSettings(pool, allocation.mode, usual, allocation.mig_profile, own)


def read(pool: str, text: str) -> PluginSettings | None:
    """The offer that a ConfigMap of a pool carries; None where it cannot be read or is another pool's."""
    try:
        found = json.loads(text)
        cards, profiles = dict(found.get("cards", {})), dict(found.get("profiles", {}))
        numbers = (found["slots"], *cards.values(), *profiles.values())
        readable = (
            found["pool"] == pool
            and found["resource"] == names.resource_name(pool)
            and all(type(slots) is int and slots >= 0 for slots in numbers)
        )
        shares = found.get("mps")
        made = PluginSettings(
            pool,
            found["mode"],
            found["slots"],
            found.get("profile"),
            MappingProxyType(cards),
            MpsLimits(str(shares["memory"]), str(shares["threads"])) if shares is not None else None,
            MappingProxyType(dict(sorted(profiles.items()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return made if readable else None


@lru_cache(maxsize=4096)
def _published(pool: str, mode: str, chosen: Chosen, slots: int) -> Published:
    """The same for all cards of a pool that have so many slots."""
    concerning = json.dumps(_concerning(pool, mode, chosen, slots), sort_keys=True)
    version = hashlib.sha256(concerning.encode()).hexdigest()[:VERSION_LENGTH]
    profiles = chosen if isinstance(chosen, tuple) else ()
    by_profile = tuple(ProfileSlots(profile=name, slots=count) for name, count in profiles)
    return Published(pool=pool, config_version=version, slots=slots, profiles=by_profile or None)


def _concerning(pool: str, mode: str, chosen: Chosen, slots: int) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if isinstance(chosen, MpsLimits):
        more = {"mps": {"memory": chosen.memory, "threads": chosen.threads}}
    elif isinstance(chosen, tuple):
        more = {"profiles": dict(chosen)}
    elif chosen is not None:
        more = {"profile": chosen}
    return {"mode": mode, "pool": pool, "resource": names.resource_name(pool), "slots": slots} | more
