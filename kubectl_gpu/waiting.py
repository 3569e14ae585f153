"""`--wait`: until cards are where they were assigned to."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.explain import card, choice
from controllers.explain.faults import describe_fault
from controllers.explain.records import Unreadable
from controllers.explain.words import counted
from controllers.runtime.errors import NotFound
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.terminal import Progress, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.explain.choice import Change

OK, FAILED = 0, 1
LOOK_AGAIN = 0.5
"""Seconds between two looks at cards that are waited for."""


async def until_there(cluster: Cluster, made: Sequence[Change], pool: str | None, patience: float) -> int:
    """Look until every card is where it belongs, or say of each that is not what keeps it."""
    progress, deadline = Progress(), time.monotonic() + patience
    left = {change.device.name: change.device for change in made}
    gone: dict[str, str] = {}
    while True:
        for name, before in list(left.items()):
            now = await _now(cluster, before)
            if isinstance(now, GPUDevice) and not choice.has_arrived(now, pool):
                left[name] = now
                continue
            del left[name]
            # A card that is lost is forgotten once it is in no pool: then it is where unassign puts it.
            if isinstance(now, str) and pool is not None:
                gone[name] = now
        if not left or time.monotonic() > deadline:
            break
        progress.show(f"{len(made) - len(left) - len(gone)} of {counted(len(made), 'card')} {_goal(pool)}")
        await asyncio.sleep(LOOK_AGAIN)
    progress.clear()
    for why in gone.values():
        warn(f"error: {why}")
    if not left and not gone:
        if made:
            warn(f"{counted(len(made), 'card')} {_goal(pool)}.")
        return OK
    for device in left.values():
        node = device.status.node_name or ""
        inventory = await attempt(cluster.get(resources.GPUNODEINVENTORY, GPUNodeInventory, node))
        seen = card.CardSeen(device, inventory if isinstance(inventory, Unreadable) else inventory.obj, time.time())
        said = card.explained(seen)
        why = said.findings[0].text if said.findings else "it does not say why"
        warn(f"error: after {patience:g} s {said.verdict}: {why}")
    return FAILED


async def _now(cluster: Cluster, before: GPUDevice) -> GPUDevice | str:
    """The card as it is now, or the sentence that says that there is no such card any more."""
    try:
        now = (await cluster.get(resources.GPUDEVICE, GPUDevice, before.name)).obj
    except NotFound as error:
        if not error.about:
            raise  # the kind itself is not there
        return describe_fault(error)
    if now.metadata.uid != before.metadata.uid:
        return f"{before.name} is another card by now, which is in no pool: assign it once more if you mean it."
    return now


def _goal(pool: str | None) -> str:
    return f"offered in {pool}" if pool else "in no pool"
