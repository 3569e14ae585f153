"""What may leave service now, with what was let go and is not in the caches yet.

Lives as long as the process, used from its event loop: two nodes are planned one after the other, and what the
first was let is counted for the second although nobody has written it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.bootstrap.health.metrics import FUSE_HELD
from controllers.bootstrap.plan import Held
from controllers.domain.fuse import allow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.bootstrap.observe import ObservedNode, World
    from controllers.bootstrap.plan import Assessment

NODES = "nodes"


class Fuses:
    """One fuse for all nodes, and one for the cards of each pool."""

    def __init__(self, world: World, percent: Callable[[], int]) -> None:
        """`percent` tells the share that may be out at once (`health.maxUnavailablePercent`)."""
        self._world, self._percent = world, percent
        self._nodes_let: set[str] = set()
        self._cards_let: dict[str, str] = {}
        self._held: dict[tuple[str, str], set[str]] = {}

    def ask(self, seen: ObservedNode, found: Assessment | None) -> Held:
        """What of the node must stay in service, and why."""
        node_out = found is not None and found.node_out
        cards_out = found.cards_out if found is not None else {}
        if found is None or not found.stays_out:
            self._nodes_let.discard(seen.name)
        node = self._node(seen.name, out=node_out)
        return Held(node, self._cards(seen, cards_out))

    def _node(self, name: str, *, out: bool) -> str:
        if not out:
            self._hold("node", NODES, name, held=False)
            return ""
        total, gone = self._world.fleet(self._nodes_let)
        held = name in allow({*gone, *self._nodes_let}, [name], total, self._percent()).held
        self._hold("node", NODES, name, held=held)
        if not held:
            self._nodes_let.add(name)
            return ""
        return f"since more than {self._percent()} % of the nodes would be out of service at once"

    def _cards(self, seen: ObservedNode, wanting: Mapping[str, str]) -> Mapping[str, str]:
        ours, held = {card.name for card in seen.devices}, {}
        # A card that was let go and is gone, with its node for instance, takes nobody's place.
        for name in [n for n in self._cards_let if (n in ours and n not in wanting) or not self._exists(n)]:
            del self._cards_let[name]
        for (kind, pool), names in self._held.items():
            if kind == "card":
                for name in [n for n in names if wanting.get(n) != pool and (n in ours or not self._exists(n))]:
                    self._hold(kind, pool, name, held=False)
        for name in sorted(wanting):
            pool = wanting[name]
            cards, gone = self._world.pool(pool)
            let = {card for card, of in self._cards_let.items() if of == pool}
            if name in allow({*gone, *let}, [name], len(cards), self._percent()).held:
                held[name] = (
                    f"more than {self._percent()} % of the cards of pool {pool} would be out of service at once;"
                    " see why so many fail, or raise health.maxUnavailablePercent"
                )
            else:
                self._cards_let[name] = pool
            self._hold("card", pool, name, held=name in held)
        return held

    def _exists(self, card: str) -> bool:
        return self._world.devices.get(card) is not None

    def _hold(self, kind: str, group: str, name: str, *, held: bool) -> None:
        """Note who is held, for the metric."""
        names = self._held.get((kind, group))
        if names is None:
            if not held:
                return
            names = self._held[kind, group] = set()
        names.add(name) if held else names.discard(name)
        FUSE_HELD.labels(kind, group).set(len(names))
