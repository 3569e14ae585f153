"""A pause that ends by itself: annotation `gpu.deckhouse.io/pause=<until>` of a GPUDriver or a Node. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudriver import GPUDriver
    from controllers.api.kube import Node

PAUSE_MAX: Final = 30 * 86_400.0
"""Seconds for which a pause holds at most."""


def is_paused_on(driver: GPUDriver, node: Node | None, now: float) -> bool:
    """Whether a person has nothing started for now: by a GPUDriver's spec or annotation, or by a Node's."""
    return driver.spec.rollout.paused or is_put_off(driver, node, now)


def is_put_off(driver: GPUDriver, node: Node | None, now: float) -> bool:
    """Whether a person has put it off by an annotation, of a GPUDriver or a Node."""
    told = (driver.metadata.annotations, node.metadata.annotations if node is not None else {})
    return any(paused_until(one, now) is not None for one in told)


def paused_to(driver: GPUDriver, node: Node, now: float) -> float | None:
    """When a pause of a node ends that ends by itself, in seconds since the epoch as `now` is; None without one."""
    both = (driver.metadata.annotations, node.metadata.annotations)
    return max((end for each in both if (end := paused_until(each, now)) is not None), default=None)


def paused_until(annotations: Mapping[str, str], now: float) -> float | None:
    """When the pause ends, in seconds since the epoch as `now` is; None without one.

    One that is over is none. Of one that lies further ahead than may be, or is no time, nobody knows how it was meant:
    it is none either, and kubectl writes none such.
    """
    try:
        until = seconds(annotations[names.PAUSE])
    except (KeyError, ValueError):
        return None
    return until if now < until <= now + PAUSE_MAX else None
