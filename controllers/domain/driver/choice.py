"""What a node gets: an image and how its modules come about, the host's own driver, or nothing, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from controllers.domain.driver.variant import Variant

Modules = Literal["Open", "Proprietary"]


@dataclass(frozen=True, slots=True)
class Install:
    """The node gets its driver from an image."""

    variant: Variant
    mode: Literal["Precompiled", "Compiled"]
    image: str
    """With tag or digest."""
    modules: Modules
    """Which flavour of the kernel modules."""


@dataclass(frozen=True, slots=True)
class Host:
    """The node's driver is the host's own; nothing is installed."""

    why: str
    """For people."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """No driver can come onto the node."""

    reason: str
    """A reason of the catalogue."""
    message: str
    """What was found, what was expected and what to do."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The node has not said enough about itself yet, or contradicts itself while it is rebooted."""

    why: str
    """For people."""


Choice = Install | Host | Blocked | Unknown
