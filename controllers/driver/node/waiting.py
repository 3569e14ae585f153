"""What kubelet says of a container that it does not start: its image, or what it needs, cannot be had. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from controllers.driver.records import ContainerStatus

PULL_FAILED: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
)
"""Kubelet's words where an image does not come."""
ABSENT: Final = ("not found", "manifest unknown", "name unknown", "NotFound")
"""In a registry's answer, by every runtime's spelling: there is no such image."""
Kind = Literal["ImageMissing", "PullFailed", "SecretMissing", "NotMade"]
"""NotMade: the container runtime refuses to make it, for a reason of its own."""
REFUSED: Final[dict[str, Kind]] = {"CreateContainerConfigError": "SecretMissing", "CreateContainerError": "NotMade"}
"""Kubelet's words where the image is there."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Why a container does not start; it may yet."""

    kind: Kind
    message: str
    """Kubelet's sentence, or its word where it has none."""


def not_started(container: ContainerStatus) -> NotStarted | None:
    """Why the container does not start; None where nothing says that it will not."""
    waiting = container.state.waiting
    if waiting is None:
        return None
    message = waiting.message or waiting.reason
    if waiting.reason in REFUSED:
        return NotStarted(REFUSED[waiting.reason], message)
    # In ImagePullBackOff without a sentence kubelet says why in the other of its two words.
    if waiting.reason not in PULL_FAILED or (waiting.reason == "ImagePullBackOff" and not waiting.message):
        return None
    absent = any(word in waiting.message for word in ABSENT)
    return NotStarted("ImageMissing" if absent else "PullFailed", message)
