"""Names of DaemonSets that became free a moment ago, and are not used again at once. Pure.

The DaemonSet controller counts the pods that it waits for by the DaemonSet's name. Where it was still at work on the
old one when the new one came, it waits for a pod of the old one, and makes none for five minutes. Nothing shows
whether it has seen the name free; it looks as soon as it has finished what it was at, mostly within milliseconds.
What became free is remembered in memory: a process that restarts just then forgets it, and the five minutes pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.meta import KubeObject

COOLDOWN = 2.0
"""Seconds that a name stays free before it is used again."""


def record_deletion(deleted_at: dict[str, float], old: KubeObject | None, new: KubeObject | None, now: float) -> None:
    """Record when a name (key of `deleted_at`) became free, in epoch seconds, and forget those of long ago."""
    if old is not None and new is None:
        deleted_at[old.name] = now
    for name in [name for name, since in deleted_at.items() if now - since > COOLDOWN]:
        del deleted_at[name]


def cooldown_left(deleted_at: Mapping[str, float], name: str, now: float) -> float:
    """Seconds for which a name is not to be used yet; 0 where it may be."""
    return max(0.0, deleted_at[name] + COOLDOWN - now) if name in deleted_at else 0.0
