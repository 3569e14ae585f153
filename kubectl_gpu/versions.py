"""`kubectl gpu versions`: which versions the nodes run, and which of them differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import resources
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.explain.records import Unreadable
from controllers.explain.versions import VERSIONS, as_json, skewed, version_row, wanted_drivers
from controllers.explain.versions import versions as of_nodes
from kubectl_gpu import output
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.terminal import warn

if TYPE_CHECKING:
    import argparse

OK = 0
NONE = "No node tells its versions yet: kubectl gpu nodes."
NO_SKEW = "No component differs: all nodes run the same versions, and those that are wanted."


async def versions(cluster: Cluster, args: argparse.Namespace) -> int:
    """The versions of every component, with the nodes that run them."""
    found = await cluster.list(resources.GPUNODEINVENTORY, GPUNodeInventory, labels=args.selector)
    # Who may not read drivers, or whose cluster does not know them, is told what runs all the same.
    drivers = await attempt(cluster.list(resources.GPUDRIVER, GPUDriver))
    wanted = {} if isinstance(drivers, Unreadable) else wanted_drivers(each.obj for each in drivers)
    every = of_nodes((each.obj for each in found), wanted)
    rows = skewed(every) if args.skew else every
    if args.output not in output.TABLES:
        output.structured(as_json(rows), args.output)
        return OK
    if rows:
        wide = args.output == "wide"
        table = [version_row(row, wide=wide) for row in rows]
        output.table(VERSIONS, table, args.output, headers=not args.no_headers)
        return OK
    warn(NO_SKEW if every else NONE)
    return OK
