"""Tables of the page about drivers: which images there are, and which driver a card takes. Pure."""

from __future__ import annotations

from typing import Final

from controllers.domain.catalogue.drivers import TABLE
from controllers.domain.catalogue.images import IMAGES

FLAVOURS: Final = {
    "open": "open alone",
    "proprietary": "proprietary alone",
    "either": "either; `Auto` takes the open ones",
}


def images() -> str:
    """For each system the images that compile, and the kernels for which modules are ready."""
    lines = [
        "| system | compiled on the node: versions built now | precompiled: kernels | branches |",
        "|---|---|---|---|",
    ]
    for system in dict.fromkeys((*IMAGES.compiled, *IMAGES.precompiled)):
        ready = IMAGES.precompiled.get(system)
        kernels = f"{', '.join(ready.series)}: {', '.join(ready.flavours)}" if ready else "–"
        branches = ", ".join(map(str, ready.branches)) if ready else "–"
        lines.append(f"| {system} | {', '.join(IMAGES.compiled.get(system, ())) or '–'} | {kernels} | {branches} |")
    return "\n".join(lines)


def cards() -> str:
    """For each generation the first driver, the last branch, and the kernel modules that serve it."""
    lines = [
        "| generation | compute capability from | first driver | last branch | kernel modules |",
        "|---|---|---|---|---|",
    ]
    for (major, minor), row in TABLE.generations.items():
        last = str(row.last_branch) if row.last_branch else "–"
        lines.append(f"| {row.name} | {major}.{minor} | {row.driver} | {last} | {FLAVOURS[row.modules]} |")
    return "\n".join(lines)
