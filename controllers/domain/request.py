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
from controllers.domain.quantities import LONGEST, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.kube import Container, Pod, PodSpec

_DIGITS = 18  # Kubernetes' own limit is that of 64 bits


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """How many slots of which pool a pod asks for."""

    pool: str
    units: int


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
    """Pools and units of one container; extended resources have limits equal to requests."""
    requests, limits = container.resources.requests, container.resources.limits
    merged = {**requests, **limits} if requests and limits else limits or requests
    if not merged:
        return {}
    start = len(names.PREFIX)
    return {key[start:]: _known(value) for key, value in merged.items() if key.startswith(names.PREFIX)}


def pools_named(spec: PodSpec) -> list[str]:
    """Every pool that the pod names, also with quantity 0; raises ValueError."""
    return sorted({pool for container in (*spec.init_containers, *spec.containers) for pool in _asks(container)})


def effective(spec: PodSpec) -> dict[str, int]:
    """Units by pool that the pod needs at once; pools of which it needs none are left out."""
    return {pool: units for pool, units in at_once(spec, _asks).items() if units > 0}


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
    """Units by pool of containers and sidecars together: these run on, and kubelet's PodResources tells of them alone.

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
    try:
        asked = effective(pod.spec)
    except ValueError:
        asked = {}
    label = pod.metadata.labels.get(names.LABEL_POOL)
    return frozenset([*asked, label] if label else asked)


def units_of(pod: Pod, pool: str) -> int:
    """Units of a pool that a stored pod needs; 0 where its quantities cannot be read."""
    spec = pod.spec
    try:
        if not spec.init_containers and len(spec.containers) == 1:
            return _asks(spec.containers[0]).get(pool, 0)  # nearly all
        return effective(spec).get(pool, 0)
    except ValueError:
        return 0


def lasting_of(pod: Pod, pool: str) -> int:
    """Units of a pool of which kubelet tells, of a stored pod; 0 where its quantities cannot be read."""
    try:
        return lasting(pod.spec).get(pool, 0)
    except ValueError:
        return 0


def needs(pod: Pod) -> int:
    """Slots that a stored pod holds in all, at least one: no card would be named on it otherwise."""
    return max(1, sum(units_of(pod, pool) for pool in pools_of(pod)))
