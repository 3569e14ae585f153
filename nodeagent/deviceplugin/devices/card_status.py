"""Writes of the device plugin to GPUDevice statuses: `published` and `allocations` where they differ. Pure.

Each write carries the version of the object that it was decided on. Two pools' plugins on one node decide
by the same field, and the API server takes only the first: the second is refused, looks again, and sees
that the card is another's. Merge patches, since both write as one field manager: by an apply each
would take back what the other had said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE
from controllers.runtime.plan import Merge, ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import Allocation, ForeignAllocation, GPUDevice, MpsDaemon, Published


def writes(
    pool: str,
    cards: Iterable[GPUDevice],
    wanted: Mapping[str, Published | None],
    served: Mapping[str, tuple[Allocation, ...]] | None,
    foreign: Mapping[str, tuple[ForeignAllocation, ...]] | None = None,
    *,
    daemons: Mapping[str, MpsDaemon | None] | None = None,
) -> tuple[Merge, ...]:
    """The writes; `served` and `foreign` are None where nothing is to be said of them, as where kubelet has not told.

    `daemons`: MPS control daemons of the cards of which there is something to be said. A card that is found to be
    somebody else's loses `published` by the same write that says whose it is.
    """
    found = []
    for card in cards:
        status, now = card.status, card.status.published
        if now is not None and now.pool != pool:
            continue  # that pool's plugin speaks of it
        change: dict[str, Any] = {}
        if (then := wanted[card.name]) != now:
            change["published"] = to_json(then) if then is not None else None
        if served is not None and served[card.name] != status.allocations:
            change["allocations"] = [to_json(entry) for entry in served[card.name]]
        if foreign is not None and foreign[card.name] != status.foreign_allocations:
            change["foreignAllocations"] = [to_json(entry) for entry in foreign[card.name]]
        if daemons is not None and card.name in daemons and (daemon := daemons[card.name]) != status.mps:
            change["mps"] = to_json(daemon) | {"reason": daemon.reason} if daemon is not None else None
        if change:
            meta = card.metadata
            found.append(
                Merge(ref(GPUDEVICE, card), meta.resource_version, {"status": change}, "status", parallel_safe=True)
            )
    return tuple(found)
