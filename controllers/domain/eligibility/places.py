"""Places that pools have taken on a node: one count for their lists, for approval and for the webhook. Pure.

A card takes a place of `maxDevicesPerNode` when it is in the pool, and from the moment that its annotation names the
pool while nothing keeps it out: it comes with the next plan, and nobody is to be promised its place meanwhile. One that
waits, for whatever, takes nobody's place: the pool takes another card of the node without asking for it, so lists that
kept the place would be wrong, and a card that is broken for good would keep every other one out.

Cards that are annotated do not count each other: the pool takes them one after another, as long as there is room.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.domain.assignment import assigned_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.api.gpudevice import GPUDevice


def count_members(devices: Iterable[GPUDevice]) -> Counter[str]:
    """How many of these cards each pool has."""
    return Counter(device.home for device in devices if device.home is not None)


def count_places(devices: Iterable[GPUDevice], comes: Callable[[GPUDevice], bool]) -> Counter[str]:
    """How many places each pool has taken on a node, of which these are the cards.

    `comes`: whether nothing keeps a card in no pool out of the one that its annotation names.
    """
    counts: Counter[str] = Counter()
    for device in devices:
        if device.home is not None:
            counts[device.home] += 1
        elif device.status.pool_ref is None and (named := assigned_pool(device)) is not None and comes(device):
            counts[named] += 1
    return counts
