"""Index of GPUPools' selectors: which pools match which cards of a node, oldest pool first. Pure.

A cluster has many cards and pools, and few kinds of cards: whether a selector matches a kind is
evaluated once (`domain.kinds`), so that a node costs microseconds for each of its pools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.allocation import explain_mig_mismatch
from controllers.domain.position import positions
from controllers.domain.selectors.compiled import CompiledSelector, hardware_kind
from controllers.domain.selectors.match import matches
from controllers.gpupool.views import MIGFit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool

NODES_MAX = 10_000
"""Sets of labels remembered: about one for each node, and some that nodes had before."""


class SelectorIndex:
    """The selectors of all pools, compiled; a successor takes over what has not changed."""

    __slots__ = ("_on", "choosers", "pools")

    def __init__(self, pools: Iterable[GPUPool], before: SelectorIndex | None = None) -> None:
        """Sort the pools by age. `before`: the selection of the same pools before one of them changed."""
        self.pools = tuple(sorted(pools, key=lambda pool: (pool.metadata.creation_timestamp, pool.name)))
        known = {pool.name: (pool, chooser) for pool, chooser in before.choosers} if before else {}
        self.choosers: list[tuple[GPUPool, CompiledSelector]] = []
        for pool in self.pools:
            old, chooser = known.get(pool.name, (None, None))
            if old is None or chooser is None or not _same_selector(old, pool):
                chooser = CompiledSelector(pool.spec.device_selector)
            self.choosers.append((pool, chooser))
        # Positions in `choosers` of the pools that match nodes with such labels. A pool's status changes often, and who
        # matches which node then stays as it is.
        self._on: dict[frozenset[tuple[str, str]], tuple[int, ...]] = {}
        if before is not None and _same_nodes(before.pools, self.pools):
            self._on = before._on  # noqa: SLF001 - its predecessor's

    def _here(self, labels: Mapping[str, str]) -> list[tuple[GPUPool, CompiledSelector]]:
        """The pools that match a node with these labels."""
        key = frozenset(labels.items())
        if (places := self._on.get(key)) is None:
            if len(self._on) >= NODES_MAX:
                self._on.clear()
            matching = (at for at, pool in enumerate(self.pools) if matches(pool.spec.node_selector, labels))
            places = self._on[key] = tuple(matching)
        return [self.choosers[at] for at in places]

    def matching_pools(self, devices: Sequence[GPUDevice], labels: Mapping[str, str]) -> dict[str, tuple[GPUPool, ...]]:
        """For each free card (by name), the pools that match it; `devices` are all of the node, by address."""
        if all(device.status.pool_ref is not None for device in devices):
            return {}
        here = self._here(labels)
        found = {}
        for position, device in zip(positions(devices), devices, strict=True):
            if device.status.pool_ref is None:
                kind = hardware_kind(device)
                found[device.name] = tuple(
                    pool
                    for pool, chooser in here
                    if chooser.matches(device, position, kind) and explain_mig_mismatch(pool, device) is None
                )
        return found

    def mig_fits(self, devices: Sequence[GPUDevice], labels: Mapping[str, str]) -> dict[str, MIGFit]:
        """For each pool of mode MIG how the cards of the node suit it, wherever they are now."""
        mig_pools = [(pool, chooser) for pool, chooser in self._here(labels) if pool.spec.allocation.mode == "MIG"]
        found: dict[str, MIGFit] = {}
        for position, device in zip(positions(devices), devices, strict=True) if mig_pools else ():
            kind = hardware_kind(device)
            for pool, chooser in mig_pools:
                if chooser.matches(device, position, kind):
                    why = explain_mig_mismatch(pool, device)
                    fit = MIGFit(able=1) if why is None else MIGFit(unable=1, explanation=why)
                    found[pool.name] = found.get(pool.name, MIGFit()).plus(fit)
        return found


def _same_selector(old: GPUPool, new: GPUPool) -> bool:
    return old is new or old.spec.device_selector == new.spec.device_selector


def _same_nodes(old: tuple[GPUPool, ...], new: tuple[GPUPool, ...]) -> bool:
    """Whether the same pools, in the same order, match the same nodes as before."""
    return len(old) == len(new) and all(
        a is b or (a.name == b.name and a.spec.node_selector == b.spec.node_selector)
        for a, b in zip(old, new, strict=True)
    )
