"""Index of all GPUPools' candidates, kept node by node: a pool never looks at all free cards of the cluster. Pure."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gpupool import Candidate, CandidatePool
from controllers.domain.assignment import annotation_hint
from controllers.gpupool.membership.candidates import Entry
from controllers.gpupool.views import MIGFit

if TYPE_CHECKING:
    from collections.abc import Mapping


class CandidateIndex:
    """The candidates of all pools, as the nodes were last seen; one for a process, used from its event loop only."""

    __slots__ = ("_by_node", "_by_pool", "_fits", "_listed", "complete")

    def __init__(self) -> None:
        """Know of none, and that this is not all."""
        self._by_node: dict[str, dict[str, tuple[Entry, ...]]] = {}
        self._by_pool: dict[str, dict[str, tuple[Entry, ...]]] = defaultdict(dict)
        self._listed: dict[str, tuple[Candidate, ...]] = {}
        self._fits: dict[str, Mapping[str, MIGFit]] = {}  # by node, of those that have any
        self.complete = False
        """Whether every node has been looked at; before that a list would be too short."""

    def update_node(
        self, node: str, found: dict[str, tuple[Entry, ...]], fits: Mapping[str, MIGFit] = MappingProxyType({})
    ) -> set[str]:
        """Take over what was found on a node; returns the pools of which something changed."""
        suited = self._fits.get(node, {})
        if fits:
            self._fits[node] = fits  # keeps its place: the reason that is shown follows the order
        else:
            self._fits.pop(node, None)
        return self._put(node, found) | {pool for pool in {*suited, *fits} if suited.get(pool) != fits.get(pool)}

    def _put(self, node: str, found: dict[str, tuple[Entry, ...]]) -> set[str]:
        before = self._by_node.pop(node, {})
        if found:
            self._by_node[node] = found
        changed = {pool for pool in (*found, *before) if found.get(pool) != before.get(pool)}
        for pool in changed:
            self._listed.pop(pool, None)
            if pool in found:
                self._by_pool[pool][node] = found[pool]
            else:
                self._by_pool[pool].pop(node, None)
                if not self._by_pool[pool]:
                    del self._by_pool[pool]
        return changed

    def forget(self, pool: str) -> None:
        """A pool is gone: no list of it is kept, an empty one neither."""
        self._listed.pop(pool, None)

    def mig_fit(self, pool: str) -> MIGFit | None:
        """How all known cards suit a pool of mode MIG; None while not all are known."""
        if not self.complete:
            return None
        return reduce(MIGFit.plus, (fits[pool] for fits in self._fits.values() if pool in fits), MIGFit())

    def of(self, pool: str) -> tuple[Candidate, ...] | None:
        """A pool's candidates by node and card, one more than a list may hold; None while not all are known."""
        if not self.complete:
            return None
        if pool not in self._listed:
            nodes = self._by_pool.get(pool, {})
            entries: list[Entry] = []
            for node in sorted(nodes):
                entries += nodes[node]
                if len(entries) > names.LIST_MAX:
                    break
            self._listed[pool] = tuple(_candidate(pool, entry) for entry in entries[: names.LIST_MAX + 1])
        return self._listed[pool]


def _candidate(pool: str, entry: Entry) -> Candidate:
    how = CandidatePool(
        pool=pool,
        reason=entry.reason,
        auto_approved=entry.automatic,
        annotation_hint=annotation_hint(pool) if entry.assignable else None,
    )
    return Candidate(name=entry.card, pools=(how,))
