"""Scheduling gates of a pod that asks for cards: ours, and those of others. Pure.

A pod with our gate waits in its pool's queue. One with a gate of somebody else is not demand: whoever set it has yet to
let the pod go on, and a card kept for it would idle for as long as they like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.tenant import TenantPod, TenantSpec


def is_gated(spec: TenantSpec) -> bool:
    """Whether a pod has our gate."""
    # Asked of every pod that waits, in every round: a generator would take three times as long.
    return names.CARDS_GATE in [gate.name for gate in spec.scheduling_gates]


def other_gates(spec: TenantSpec) -> tuple[str, ...]:
    """The names of a pod's gates that are not ours."""
    return tuple(gate.name for gate in spec.scheduling_gates if gate.name != names.CARDS_GATE)


def is_queued(pod: TenantPod) -> bool:
    """Whether a stored pod is in its pool's queue: it has our gate, and neither ends nor is being deleted."""
    return is_gated(pod.spec) and not pod.finished and pod.metadata.deletion_timestamp is None


def waits_for_cards_alone(pod: TenantPod) -> bool:
    """Whether cards are all that a queued pod waits for."""
    return is_queued(pod) and (len(pod.spec.scheduling_gates) == 1 or not other_gates(pod.spec))
