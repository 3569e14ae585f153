"""Whether a node is as well with its new driver as it was with the former one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.driver_work import Baseline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.driver.node.pod import Outcome
    from controllers.driver.views import ObservedNode


def baseline(devices: Iterable[GPUDevice]) -> Baseline:
    """What a node's cards are like before its driver is changed."""
    cards = sorted(one.status.hardware.uuid for one in devices if one.status.hardware and one.status.hardware.uuid)
    return Baseline(cards=tuple(cards))


def verdict(seen: ObservedNode, now: float) -> Outcome | None:  # noqa: ARG001
    """Why the node fails with its new driver; None while nothing speaks against it."""
    return None


def is_as_asked(devices: Iterable[GPUDevice]) -> bool:  # noqa: ARG001
    """Whether every card is partitioned as its pool asks."""
    return True
