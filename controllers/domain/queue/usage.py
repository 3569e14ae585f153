"""Slots of a pool by namespace: what pods have, and what is promised to them. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.lifecycle import live
from controllers.domain.request import units_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod


def used_by_namespace(pool: str, cards: Iterable[GPUDevice], bound: Iterable[Pod], now: float) -> Counter[str]:
    """Slots by namespace. `cards`: the pool's; `bound`: its pods that are on nodes."""
    used: Counter[str] = Counter()
    requests: set[str] = set()
    for pod in bound:
        if pod.spec.node_name is not None and not pod.finished:
            used[pod.metadata.namespace or ""] += units_of(pod, pool)
            requests.add(pod.metadata.annotations.get(names.REQUEST_ID, ""))
    for card in cards:
        for entry in card.status.reservations:
            if entry.request_id not in requests and live(entry, now):
                used[entry.namespace] += entry.slots
    return used
