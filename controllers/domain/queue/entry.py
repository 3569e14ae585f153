"""An entry of a pool's queue: a pod that waits for cards, and what it needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.node_fit import PodConstraints
from controllers.domain.queue.gates import waits_for_cards_alone
from controllers.domain.request import units_of

if TYPE_CHECKING:
    from controllers.api.gpupool import Toleration
    from controllers.api.tenant import TenantPod


@dataclass(frozen=True, slots=True)
class Entry:
    """A pod in the queue."""

    key: str
    """`namespace/name` of the pod."""
    request_id: str
    namespace: str
    priority: int
    created: str
    """RFC 3339, as the API server wrote it: such texts have the order of their times."""
    units: int
    """Slots, all of one node."""
    constraints: PodConstraints

    @property
    def age_key(self) -> tuple[str, str]:
        """The order of age: oldest first, then by name."""
        return self.created, self.key


def queue_entry(pod: TenantPod, pool: str, tolerated: tuple[Toleration, ...] = ()) -> Entry | None:
    """The entry of a pod in the queue of a pool; None where it waits for nothing that the pool could give.

    `tolerated`: what the pool's pods tolerate; a pod gets it with its cards.
    """
    request = pod.metadata.annotations.get(names.REQUEST_ID)
    if not request or not waits_for_cards_alone(pod):
        return None
    units = units_of(pod, pool)
    if units == 0:
        return None
    return Entry(
        key=pod.key,
        request_id=request,
        namespace=pod.metadata.namespace or "",
        priority=pod.spec.priority or 0,
        created=pod.metadata.creation_timestamp,
        units=units,
        constraints=PodConstraints.of(pod.spec, tolerated),
    )
