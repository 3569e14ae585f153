"""What a pod asks for, by the scheduler's formula (Kubernetes' component-helpers `PodRequests`).

Containers run together, init containers one after another, sidecars (init containers with
restartPolicy Always) from their place in the row to the end. So a pod needs the larger of
all containers with all sidecars, and of each init container with the sidecars before it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.kube import Container, Pod, PodSpec

_SUFFIXES = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9}
_SUFFIXES |= {"Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30}
_DIGITS = 18  # Kubernetes' own limit is that of 64 bits


def whole(quantity: str | int) -> int:
    """A Kubernetes quantity of things that cannot be divided; raises ValueError."""
    if isinstance(quantity, int):
        return quantity
    number = quantity.rstrip("mkMGKi")
    try:
        value = Decimal(number) * _SUFFIXES[quantity[len(number) :]]
    except (ArithmeticError, KeyError):
        value = Decimal("NaN")
    # The API server takes 1e300000 as it stands; to spell it out would hold the process for seconds.
    if not value.is_finite() or value.adjusted() > _DIGITS or value != value.to_integral_value() or value < 0:
        msg = f"{quantity!r} is not a whole number of cards"
        raise ValueError(msg)
    return int(value)


def _asks(container: Container) -> dict[str, int]:
    """Pools and units of one container; extended resources have limits equal to requests."""
    merged = {**container.resources.requests, **container.resources.limits}
    return {
        key.removeprefix(names.PREFIX): whole(value) for key, value in merged.items() if key.startswith(names.PREFIX)
    }


def pools_named(spec: PodSpec) -> list[str]:
    """Every pool that the pod names, also with quantity 0; raises ValueError."""
    return sorted({pool for container in (*spec.init_containers, *spec.containers) for pool in _asks(container)})


def effective(spec: PodSpec) -> dict[str, int]:
    """Units by pool that the pod needs at once; pools of which it needs none are left out."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        asks = _asks(container)
        for pool, units in asks.items():
            peak[pool] = max(peak.get(pool, 0), units + sidecars.get(pool, 0))
        if container.restart_policy == "Always":
            for pool, units in asks.items():
                sidecars[pool] = sidecars.get(pool, 0) + units
    together = dict(sidecars)
    for container in spec.containers:
        for pool, units in _asks(container).items():
            together[pool] = together.get(pool, 0) + units
    need = {pool: max(together.get(pool, 0), peak.get(pool, 0)) for pool in {*together, *peak}}
    return {pool: units for pool, units in need.items() if units > 0}


def units_of(pod: Pod, pool: str) -> int:
    """Units of a pool that a stored pod needs; 0 where its quantities cannot be read."""
    try:
        return effective(pod.spec).get(pool, 0)
    except ValueError:
        return 0
