"""The operator's toolkits go from a few nodes at a time: each restarts its node's container runtime as it ends."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from controllers.explain.faults import UsageError
from kubectl_gpu.takeover_nodes import remove

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.explain.takeover import NodeState
    from kubectl_gpu.cluster import Cluster
    from kubectl_gpu.takeover_reads import Reads

AT_ONCE: Final = 5
"""Nodes whose runtimes are restarted at once: the default of `bootstrap.toolkit.runtimeRestarts`."""
LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at whether they are back."""
QUIET: Final = 45.0
"""Seconds for which they have to be so: the module's toolkit looks at its runtime every 30 s, and reports it then."""
LIMIT: Final = 900.0
"""Seconds after which those that are not back keep the rest from going: what fails there would fail on all."""


async def remove_toolkits(cluster: Cluster, reads: Reads, found: Sequence[NodeState]) -> None:
    """Delete the pods that may go; raises UsageError where the runtimes of some nodes do not come back.

    The last nodes are not waited for: nothing more is restarted after them.
    """
    having = [one for one in found if one.toolkit]
    for at in range(0, len(having), AT_ONCE):
        some, after = having[at : at + AT_ONCE], having[at + AT_ONCE :]
        for one in some:
            await remove(cluster, one.toolkit)
        if after:
            pods = {one.name: [pod["metadata"]["uid"] for pod in one.toolkit] for one in some}
            await _until_settled(reads, pods, len(after))


async def _until_settled(reads: Reads, pods: dict[str, list[str]], left: int) -> None:
    deadline, since = time.monotonic() + LIMIT, None
    while since is None or time.monotonic() < since + QUIET:
        away = await reads.unsettled(pods)
        since = None if away else since or time.monotonic()
        if away and time.monotonic() >= deadline:
            raise UsageError(
                f"The container runtimes of {', '.join(away)} are not Ready {LIMIT / 60:g} minutes after the operator's"
                f" toolkit went; that of {left} other nodes stays. See kubectl gpu explain node {away[0]}."
            )
        await asyncio.sleep(LOOK_AGAIN)
