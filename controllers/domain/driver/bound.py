"""How many variants one revision may have at once: each is a DaemonSet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.driver.choice import Blocked, Install

if TYPE_CHECKING:
    from collections.abc import Collection

VARIANTS_MAX: Final = 64
"""DaemonSets of one revision: as many systems and kernels as the nodes of one driver may have."""


def bounded(wanted: Install, there: Collection[str], most: int = VARIANTS_MAX) -> Install | Blocked:
    """What a node gets, where its revision has these variants already: nothing, where it would need one too many.

    `there`: values of the label. A variant that is there serves further nodes whatever the number.
    """
    if wanted.variant.value in there or len(there) < most:
        return wanted
    about = wanted.variant.kernel or wanted.variant.system
    return Blocked(
        "TooManyKernels",
        f"the driver's nodes have {len(there)} systems and kernels, {most} are kept at most, and {about} is one more: "
        "give the nodes one kernel, set spec.mode to Compiled, or split the driver in two with spec.target",
    )
