"""A disruption budget: how many of a group may be out of service at once, and when many failures are ours. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.conditions import Finding

if TYPE_CHECKING:
    from collections.abc import Collection

BLIND: Final = "Blind"


@dataclass(frozen=True, slots=True)
class Decision:
    """Who may go out of service now."""

    allowed: tuple[str, ...]
    """In the order of their names."""
    denied: tuple[str, ...]
    """Those that must wait, in the order of their names."""


def limit(total: int, percent: int) -> int:
    """Most that may be out at once: the share rounded down, at least one."""
    return max(1, total * percent // 100)


def admit(out: Collection[str], wanting: Collection[str], total: int, percent: int) -> Decision:
    """Decide for one group.

    `out` are those that are out of service already, for whatever reason, with those that were allowed a moment ago
    and are not written yet; `wanting`, those that should go; `total`, all of the group. One that is out and wants to
    go is out already and free to.
    """
    already = set(out)
    waiting = sorted(set(wanting) - already)
    room = max(0, limit(total, percent) - len(already))
    allowed = (already & set(wanting)) | set(waiting[:room])
    return Decision(tuple(sorted(allowed)), tuple(waiting[room:]))


def blindness(failing: Collection[str], total: int, percent: int) -> Finding | None:
    """Whether so many fail at once that the failure is ours.

    `failing` are those that stopped answering and are not known to be missing, `total` all but the missing.
    None where each failure may be believed.
    """
    if len(set(failing)) <= limit(total, percent):
        return None
    few = ", ".join(sorted(set(failing))[:3])
    message = (
        f"{len(set(failing))} of {total} nodes stopped answering at once (such as {few}), more than {percent} %: this "
        "controller is taken to be blind, and nothing is taken out of service. Check its network and NetworkPolicies, "
        "and whether dcgm-exporter is being rolled out"
    )
    return Finding(None, BLIND, message)
