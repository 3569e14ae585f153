"""A pod's resource request, by the scheduler's formula (Kubernetes' component-helpers `PodRequests`).

Containers run together, init containers one after another, sidecars (init containers with
restartPolicy Always) from their place in the row to the end. So a pod needs the larger of
all containers with all sidecars, and of each init container with the sidecars before it. A
pod's own `resources` and ephemeral containers cannot name an extended resource: the API server
refuses that.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.catalogue import canonical_profile
from controllers.domain.quantities import LONGEST, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from controllers.api.kube import Container, Pod, PodSpec

_DIGITS = 18  # Kubernetes' own limit is that of 64 bits


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """How many slots of which pool a pod asks for, and of which MIG profile where the pool has a mixed layout."""

    pool: str
    units: int
    profile: str | None = None
    """As the driver spells it."""

    @property
    def suffix(self) -> str:
        """What it asks for after `gpu.deckhouse.io/`."""
        return suffix_for(self.pool, self.profile)


def suffix_for(pool: str, profile: str | None = None) -> str:
    """What stands after `gpu.deckhouse.io/` in the resource of a pool, or of one profile of its mixed layout.

    A pool's name has no dot, so the first one ends it; a resource's name has no plus sign: `mixed.1g.10gb.me`.
    """
    return pool if profile is None else f"{pool}.{profile.replace('+', '.')}"


def suffixes_for(pool: str, profiles: Iterable[str | None]) -> tuple[str, ...]:
    """The suffix of each resource of a pool: one for each profile of its mixed layout, else the pool's name."""
    return tuple(suffix_for(pool, profile) for profile in profiles) or (pool,)


def pool_of(suffix: str) -> str:
    """The pool of what stands after `gpu.deckhouse.io/` in a resource: the one way from a resource to its pool."""
    return suffix.partition(".")[0]


def profile_of(suffix: str) -> str | None:
    """The MIG profile that it names, in the driver's spelling; None where it names the pool alone.

    What is no profile stays as it is written: nobody offers it.
    """
    named = suffix.partition(".")[2]
    profile = canonical_profile(named) if named else None
    # In another spelling, such as 1G.10GB, it is a resource that kubelet does not know.
    return profile if profile is not None and profile.replace("+", ".") == named else named or None


def whole(quantity: str | int) -> int:
    """A Kubernetes quantity of things that cannot be divided; raises ValueError."""
    if isinstance(quantity, str) and len(quantity) <= _DIGITS and quantity.isascii() and quantity.isdigit():
        return int(quantity)  # nearly all
    if isinstance(quantity, str) and len(quantity) > LONGEST:
        msg = f"{quantity[:LONGEST]!r}… is no quantity: {len(quantity)} characters, {LONGEST} are allowed"
        raise ValueError(msg)
    value = Decimal(quantity) if isinstance(quantity, int) else number(quantity)
    # The API server takes 1e300000 as it stands; to spell it out would hold the process for seconds.
    if not value.is_finite() or value.adjusted() > _DIGITS or value != value.to_integral_value() or value < 0:
        msg = f"{quantity!r} is not a whole number of cards"
        raise ValueError(msg)
    return int(value)


_known = lru_cache(maxsize=1024)(whole)
"""The same, of quantities that were read already: nearly all are small numbers."""


def _asks(container: Container) -> dict[str, int]:
    """Suffixes (`suffix_for`) and units of one container; extended resources have limits equal to requests."""
    found: dict[str, int] = {}
    start = len(names.PREFIX)
    for source in (container.resources.requests, container.resources.limits):
        for key, value in source.items():
            if key.startswith(names.PREFIX):
                found[key[start:]] = _known(value)
    return found


def effective(spec: PodSpec) -> dict[str, int]:
    """Units by suffix (`suffix_for`) that the pod needs at once; those of which it needs none are left out."""
    return {suffix: units for suffix, units in at_once(spec, _asks).items() if units > 0}


def at_once(spec: PodSpec, asks: Callable[[Container], dict[str, int]]) -> dict[str, int]:
    """What the pod needs at once by name, given what a container asks for."""
    together = _together(spec, asks)
    if not spec.init_containers:
        return together
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        wanted = asks(container)
        for name, units in wanted.items():
            peak[name] = max(peak.get(name, 0), units + sidecars.get(name, 0))
        if container.restart_policy == "Always":
            for name, units in wanted.items():
                sidecars[name] = sidecars.get(name, 0) + units
    return {name: max(together.get(name, 0), peak.get(name, 0)) for name in {*together, *peak}}


def lasting(spec: PodSpec) -> dict[str, int]:
    """Units by suffix of containers and sidecars together: these run on, and PodResources tells of them alone.

    What an ordinary init container had beyond that, kubelet keeps for the pod and never tells (kubernetes
    pkg/kubelet/apis/podresources/server_v1.go, List; pkg/kubelet/cm/devicemanager/manager.go, Allocate).
    """
    return _together(spec, _asks)


def largest(spec: PodSpec, pool: str) -> int:
    """Most units of a pool that one container asks for, ordinary init containers among them; raises ValueError."""
    containers = (*spec.init_containers, *spec.containers)
    return max((_asks(container).get(pool, 0) for container in containers), default=0)


def _together(spec: PodSpec, asks: Callable[[Container], dict[str, int]]) -> dict[str, int]:
    if not spec.init_containers and len(spec.containers) == 1:
        return asks(spec.containers[0])  # nearly all: a queue of thousands is counted several times a second
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    together: dict[str, int] = {}
    for container in (*sidecars, *spec.containers):
        for name, units in asks(container).items():
            together[name] = together.get(name, 0) + units
    return together


def pools_of(pod: Pod) -> frozenset[str]:
    """Pools whose cards a stored pod holds, or may yet: those that it asks for, and the one that its label names.

    The webhook leaves no difference between the two. A pod that came by another way, such as a resize before that was
    refused, asks without the label, or for a pool more.
    """
    asked = units_by_pool(pod)
    label = pod.metadata.labels.get(names.LABEL_POOL)
    return frozenset([*asked, label] if label else asked)


def suffixes_of(pod: Pod) -> dict[str, int]:
    """Units by suffix (`suffix_for`) that a stored pod needs; none where its quantities cannot be read."""
    return {suffix: units for suffix, units in _stored(pod).items() if units > 0}


def _stored(pod: Pod) -> dict[str, int]:
    """The same, with those of which it names none: the sum is the same, and a pool has thousands of pods."""
    try:
        return at_once(pod.spec, _asks)
    except ValueError:
        return {}


def units_by_pool(pod: Pod) -> dict[str, int]:
    """Units of each pool that a stored pod needs; none where its quantities cannot be read."""
    found: dict[str, int] = {}
    for suffix, units in suffixes_of(pod).items():
        found[pool_of(suffix)] = found.get(pool_of(suffix), 0) + units
    return found


def asked_of(pod: Pod, pool: str) -> PoolRequest:
    """What a stored pod asks of a pool; no units where it asks for none, or its quantities cannot be read."""
    asked = {suffix: units for suffix, units in suffixes_of(pod).items() if pool_of(suffix) == pool}
    return PoolRequest(pool, sum(asked.values()), profile_of(min(asked, default=pool)))


def units_of(pod: Pod, pool: str, profile: str | None = None) -> int:
    """Units of a pool that a stored pod needs; 0 where its quantities cannot be read.

    `profile`: of this one alone, in a mixed layout; else of whichever.
    """
    asked = _stored(pod)
    return _of_pool(asked, pool) if profile is None else asked.get(suffix_for(pool, profile), 0)


def lasting_of(pod: Pod, pool: str) -> int:
    """Units of a pool of which kubelet tells, of a stored pod; 0 where its quantities cannot be read."""
    try:
        return _of_pool(lasting(pod.spec), pool)
    except ValueError:
        return 0


def _of_pool(asked: Mapping[str, int], pool: str) -> int:
    found = 0
    for suffix, units in asked.items():
        if suffix == pool or pool_of(suffix) == pool:
            found += units
    return found


def needs(pod: Pod) -> int:
    """Slots that a stored pod holds in all, at least one: no card would be named on it otherwise."""
    return max(1, sum(suffixes_of(pod).values()))
