"""An entry of a pool's queue: a pod that waits for cards, or a gang of pods, and what it needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.node_fit import PodConstraints
from controllers.domain.queue.gates import waits_for_cards_alone
from controllers.domain.request import asked_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controllers.api.gpupool import Toleration
    from controllers.api.tenant import TenantPod


@dataclass(frozen=True, slots=True)
class Member:
    """A pod in the queue."""

    key: str
    """`namespace/name` of the pod."""
    request_id: str
    units: int
    """Slots, all of one node."""
    constraints: PodConstraints
    profile: str | None = None
    """MIG profile of the slots, in a pool of a mixed layout."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is served at once or not at all."""

    key: str
    """`namespace/name` of the pod, or of the gang."""
    namespace: str
    priority: int
    created: str
    """RFC 3339, as the API server wrote it: such texts have the order of their times."""
    members: tuple[Member, ...]
    """One pod, or those of a gang that have no cards yet, oldest first."""
    gang: str | None = None
    """The gang's name."""
    is_torn: bool = False
    """Whether other pods of the gang have been let go on already: it comes before everybody."""

    @property
    def units(self) -> int:
        """Slots of all its pods."""
        members = self.members
        return members[0].units if len(members) == 1 else sum(member.units for member in members)

    @property
    def profile(self) -> str | None:
        """MIG profile of its slots, in a pool of a mixed layout: all its pods ask for one."""
        return self.members[0].profile

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
    wanted = asked_of(pod, pool)
    if wanted.units == 0:
        return None
    return Entry(
        key=pod.key,
        namespace=pod.metadata.namespace or "",
        priority=pod.spec.priority or 0,
        created=pod.metadata.creation_timestamp,
        members=(Member(pod.key, request, wanted.units, PodConstraints.of(pod.spec, tolerated), wanted.profile),),
    )


class Entries:
    """The entries of a queue, made once for each version of a pod: a long queue is looked at several times a second.

    What it answers is what `queue_entry` does; what it keeps is what it answered last.
    """

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[str, tuple[TenantPod, Entry | None]] = {}
        self._made_for: tuple[str, tuple[Toleration, ...]] = "", ()

    def of(
        self, pods: Mapping[str, TenantPod], pool: str, tolerated: tuple[Toleration, ...] = ()
    ) -> Iterator[tuple[TenantPod, Entry | None]]:
        """Each of the pods, which come by key, with its entry."""
        before = self._known if self._made_for == (pool, tolerated) else {}
        self._known, self._made_for = {}, (pool, tolerated)
        for key, pod in pods.items():
            found = before.get(key)
            if found is None or found[0] is not pod:
                found = pod, queue_entry(pod, pool, tolerated)
            self._known[key] = found
            yield found


def gang_entry(name: str, entries: Sequence[Entry], *, is_torn: bool) -> Entry:
    """The entry of a gang, of those of its pods that have no cards yet: one at least."""
    by_age = sorted(entries, key=lambda entry: entry.age_key)
    first = by_age[0]
    return Entry(
        key=f"{first.namespace}/{name}",
        namespace=first.namespace,
        priority=max(entry.priority for entry in entries),
        created=first.created,
        members=tuple(member for entry in by_age for member in entry.members),
        gang=name,
        is_torn=is_torn,
    )
