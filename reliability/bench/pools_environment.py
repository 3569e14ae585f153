"""Nodes with cards that are ready to be pooled, and the pools that select them: what `pools` measures on.

Each field is written by the process that owns it, and that process is not run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING
from controllers.api.resources import GPUNODEINVENTORY, GPUPOOL
from reliability.bench.environment import MANAGER, Environment
from reliability.bench.floor import RawClient
from reliability.kit.progress import for_each, show_progress

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from reliability.bench.fleet import Member
    from tools.programs import Progress

GROUP_LABEL = "bench/pool"
SINCE = "2026-01-01T00:00:00Z"


def grouped(members: list[Member], pools: int) -> list[Member]:
    """The nodes, Ready, in turn for each of the pools."""
    made = []
    for number, member in enumerate(members):
        meta = member.node["metadata"]
        labels = meta["labels"] | {GROUP_LABEL: pool_name(number % pools)}
        status = {**member.node.get("status", {}), "conditions": [{"type": "Ready", "status": "True"}]}
        made.append(replace(member, node={**member.node, "metadata": {**meta, "labels": labels}, "status": status}))
    return made


def pool_name(number: int) -> str:
    """The name of a pool."""
    return f"bench-{number:04d}"


async def make_ready(environment: Environment, members: list[Member], progress: Progress) -> None:
    """Say of each node that its cards may be pooled, as bootstrap would."""
    done = 0
    condition = {"type": READY_FOR_POOLING, "status": "True", "reason": "Bench", "lastTransitionTime": SINCE}
    async with RawClient(environment.kubeconfig(names.BOOTSTRAP), names.MANAGER_BOOTSTRAP) as raw:

        async def one(member: Member) -> None:
            nonlocal done
            body = {
                "apiVersion": GPUNODEINVENTORY.api_version,
                "kind": GPUNODEINVENTORY.kind,
                "metadata": {"name": member.name},
                "status": {"conditions": [condition]},
            }
            await raw.apply(GPUNODEINVENTORY.path(None, member.name, "status"), body)
            done += 1

        async with show_progress(progress, "making the nodes ready for pooling", lambda: done, len(members)):
            await for_each(members, one)


async def make_pools(client: Client, pools: int) -> None:
    """Create the pools, each of the nodes of its group."""

    async def one(number: int) -> None:
        spec: dict[str, Any] = {"nodeSelector": {"matchLabels": {GROUP_LABEL: pool_name(number)}}}
        kind = {"apiVersion": GPUPOOL.api_version, "kind": GPUPOOL.kind}
        await client.create(GPUPOOL, {**kind, "metadata": {"name": pool_name(number)}, "spec": spec}, manager=MANAGER)

    await for_each(range(pools), one)
