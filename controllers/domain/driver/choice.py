"""What a node gets: an image and how its modules come about, the host's own driver, or nothing, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from controllers.domain.driver.variant import ADOPTED, Modules

if TYPE_CHECKING:
    from controllers.api.reasons.typed import Reason
    from controllers.domain.driver.variant import Variant

__all__ = [
    "Blocked",
    "Choice",
    "Former",
    "Host",
    "Install",
    "Modules",
    "OptedOut",
    "Unknown",
    "is_adopted_as_wanted",
    "is_missing",
    "is_wanted",
]


@dataclass(frozen=True, slots=True)
class Former:
    """What is left of a revision whose spec is gone, as its DaemonSet has it."""

    pull_secrets: tuple[str, ...] = ()
    """Their names."""
    beside: tuple[tuple[str, str], ...] = ()
    """Containers beside the driver's that have images of their own, each with its image."""


@dataclass(frozen=True, slots=True)
class Install:
    """The node gets its driver from an image."""

    variant: Variant
    mode: Literal["Precompiled", "Compiled"]
    image: str
    """With tag or digest."""
    version: str
    """What the driver is to report (`is_wanted`): a whole version, or the branch where the image is precompiled."""
    missing: tuple[str, ...] = field(default=(), compare=False)
    """Images that come before it, and that the registry does not have."""
    former: Former | None = field(default=None, compare=False)
    """Of a revision that was wanted before, whose spec is gone; None of the one that is wanted."""

    @property
    def modules(self) -> Modules:
        """Which flavour of the kernel modules."""
        return self.variant.modules


@dataclass(frozen=True, slots=True)
class Host:
    """The node's driver is the host's own; nothing is installed."""

    explanation: str
    """For people."""


@dataclass(frozen=True, slots=True)
class OptedOut:
    """The node is left as it is in every respect, whatever it has."""

    explanation: str
    """For people."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """No driver can come onto the node."""

    reason: Reason
    """A reason of condition Blocked (controllers/api/reasons/driver_blocked.py)."""
    message: str
    """What was found, what was expected and what to do."""
    missing: tuple[str, ...] = ()
    """Of reason ImageMissing: the images that the registry does not have."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The node has not said enough about itself yet, or contradicts itself while it is rebooted."""

    explanation: str
    """For people."""


Choice = Install | Host | OptedOut | Blocked | Unknown


def is_wanted(wanted: str, reported: str) -> bool:
    """Whether a driver that reports this version is the one that is wanted: the same, or one of the wanted branch."""
    return reported == wanted or reported.startswith(f"{wanted}.")


def is_missing(choice: Choice | None) -> bool:
    """Whether nothing but an image that the registry does not have is in the way."""
    return isinstance(choice, Blocked) and bool(choice.missing)


def is_adopted_as_wanted(value: str | None, choice: Choice | None, reported: str) -> bool:
    """Whether a node has a driver that it was adopted with, of the version that it is to have: it keeps that.

    `value`: of its label. Of such a driver no more is known than its version, and while not even that is, it stays.
    """
    known = isinstance(choice, Install) and (not reported or is_wanted(choice.version, reported))
    return value == ADOPTED and known
