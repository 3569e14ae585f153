"""A component: a DaemonSet that prepares GPU nodes, with all that other modules know of it but its pod. Pure.

Its name is spelled once, as in `dcgm-exporter`; how settings, Python and reasons spell it is made from that.
`controllers.api.components` lists the components, and `controllers.components.pods` builds their pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from controllers.api.minimum_version import MinimumVersion
    from controllers.api.reasons.typed import Reason


@dataclass(frozen=True, slots=True)
class Component:
    """One component."""

    name: str
    """In lower case with dashes: the value of label gpu.deckhouse.io/component, and of the gate's label the end."""
    condition: str
    """The condition of the GPUNodeInventory that says that it is missing."""
    description: str
    """Of its settings, for who reads the schema; `description_ru`: the same in Russian."""
    description_ru: str
    subject: str
    """The subject of sentences about it, such as "the toolkit's pod"."""
    image: str = ""
    """Where the settings name none; empty for the module's own node agent."""
    minimum: MinimumVersion | None = None
    """The least version with which a node can be prepared."""
    essential: bool = True
    """Whether cards leave circulation when it fails later."""
    holds_gpu_open: bool = False
    """Whether it keeps the device files of GPUs open, so that these cannot be reset (MIG) while it runs."""
    own_env: tuple[str, ...] = ()
    """Variables of its environment that settings cannot change: its mounts, probes or policies depend on them."""
    consequence: str = ""
    """What follows from its absence, as the end of a sentence; for the catalogue of reasons, as the next two."""
    look_at: str = ""
    """What to look at when it is late, before the command that describes its pods."""
    hint: str = ""
    """What more to do, after that command."""

    @property
    def setting(self) -> str:
        """Its field in `BootstrapSettings`; JSON spells it in camel case."""
        return self.name.replace("-", "_")

    @property
    def reason_prefix(self) -> str:
        """What its reasons begin with."""
        return "".join(word.capitalize() for word in self.name.split("-"))

    @property
    def not_ready(self) -> Reason:
        """The reason of conditions while its pod is not ready."""
        return cast("Reason", f"{self.reason_prefix}NotReady")

    @property
    def overdue(self) -> Reason:
        """The same after the deadline."""
        return cast("Reason", f"{self.reason_prefix}Overdue")
