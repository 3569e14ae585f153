"""Nodes as roll-outs see them, each made anew only when something of it changes: there are thousands of them.

One for each process, as long as that lives, and used from the event loop alone. A node that was forgotten is counted
anew when totals are asked for: until then it is counted as it was, so that what was added is what is taken off.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import TYPE_CHECKING, Literal

from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.driver.caches import BY_NODE
from controllers.driver.node.begin import may_start
from controllers.driver.node.work import last_of
from controllers.driver.observe.users import users_on
from controllers.driver.rollout.observed import Facts, Group, Load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.domain.driver.users import User
    from controllers.driver.caches import Caches


class Roster:
    """Facts of nodes, each remembered until `forget`."""

    def __init__(self, caches: Caches) -> None:
        """Read from these caches."""
        self._caches = caches
        self._facts: dict[str, Facts] = {}
        self._counted: dict[str, Facts] = {}
        self._stale: set[str] | None = None  # nodes that are to be counted anew; None for all
        self._cluster, self._pools = Group(), dict[str, Group]()

    def forget(self, name: str) -> None:
        """Something of a node has changed."""
        self._facts.pop(name, None)
        if self._stale is not None:
            self._stale.add(name)

    def totals(self) -> tuple[Group, dict[str, Group]]:
        """All nodes with cards, and those of each pool."""
        stale = {one.name for one in self._caches.inventories} if self._stale is None else self._stale
        for name in stale:
            if (before := self._counted.pop(name, None)) is not None:
                self._count(before, -1)
            if (facts := self.facts(name)) is not None:
                self._counted[name] = facts
                self._count(facts, 1)
        self._stale = set()
        return copy(self._cluster), {name: copy(group) for name, group in self._pools.items()}

    def _count(self, facts: Facts, times: Literal[1, -1]) -> None:
        self._cluster.count(facts, len(facts.devices), times)
        for pool, cards in facts.pools.items():
            group = self._pools.setdefault(pool, Group())
            group.count(facts, cards, times)
            if group.nodes == 0:
                del self._pools[pool]

    def facts(self, name: str) -> Facts | None:
        """A node; None where it is not there."""
        if (known := self._facts.get(name)) is None and (known := self._made(name)) is not None:
            self._facts[name] = known
        return known

    def _made(self, name: str) -> Facts | None:
        node, inventory = self._caches.nodes.get(name), self._caches.inventories.get(name)
        if node is None or inventory is None:
            return None
        devices = tuple(self._caches.devices.by(BY_NODE, name))
        pools = Counter(home for one in devices if (home := one.home) is not None)
        status = inventory.status
        in_service = is_true(status.conditions, READY_FOR_POOLING)
        left = status.bootstrap is not None and status.bootstrap.disrupted is True
        return Facts(
            node=node,
            inventory=inventory,
            devices=devices,
            pools=dict(sorted(pools.items())),
            in_service=in_service,
            has_left=not in_service and (left or bool(pools)),
            may_start=may_start(node),
            load=_load(users_on(self._caches, name)),
            last=last_of(node, inventory),
        )


def _load(users: Iterable[User]) -> Load:
    """What the start of a node costs pods that are there."""
    there = [one for one in users if not one.is_leaving]
    return Load(
        pods=len(there),
        priority=sum(one.priority for one in there),
        jobs=frozenset(one.job for one in there if one.job),
    )
