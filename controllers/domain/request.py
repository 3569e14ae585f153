"""A pod's resource request, by the scheduler's formula (Kubernetes' component-helpers `PodRequests`).

Containers run together, init containers one after another, sidecars (init containers with
restartPolicy Always) from their place in the row to the end. So a pod needs the larger of
all containers with all sidecars, and of each init container with the sidecars before it. A
pod's own `resources` and ephemeral containers cannot name an extended resource: the API server
refuses that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.kube import Container, Pod, PodSpec

_SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("0.001"), "": Decimal(1)}
_SUFFIXES |= {letter: Decimal(10) ** (3 * at) for at, letter in enumerate("kMGTPE", start=1)}
_SUFFIXES |= {f"{letter}i": Decimal(2) ** (10 * at) for at, letter in enumerate("KMGTPE", start=1)}
# A quantity as apimachinery's resource.ParseQuantity reads it: a number, then a suffix or an exponent. No digit can be
# matched in two ways, or a text of digits and one bad letter would take time with the square of its length.
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([eE][+-]?[0-9]+|[numkMGTPEKi]{0,2})", re.ASCII)
_DIGITS = 18  # Kubernetes' own limit is that of 64 bits
LONGEST = 64
"""Characters of a quantity: what a stranger sends to the webhook's port may be of megabytes."""


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
    value = Decimal(quantity) if isinstance(quantity, int) else _number(quantity)
    # The API server takes 1e300000 as it stands; to spell it out would hold the process for seconds.
    if not value.is_finite() or value.adjusted() > _DIGITS or value != value.to_integral_value() or value < 0:
        msg = f"{quantity!r} is not a whole number of cards"
        raise ValueError(msg)
    return int(value)


def _number(text: str) -> Decimal:
    """The number that a quantity spells; NaN where it spells none."""
    found = _QUANTITY.fullmatch(text)
    try:
        number, suffix = found.groups() if found else ("", "")
        return Decimal(number + suffix) if suffix[1:].strip("+-").isdigit() else Decimal(number) * _SUFFIXES[suffix]
    except (ArithmeticError, KeyError):
        return Decimal("NaN")


def _asks(container: Container) -> dict[str, int]:
    """Pools and units of one container; extended resources have limits equal to requests."""
    requests, limits = container.resources.requests, container.resources.limits
    merged = {**requests, **limits} if requests and limits else limits or requests
    return {
        key.removeprefix(names.PREFIX): whole(value) for key, value in merged.items() if key.startswith(names.PREFIX)
    }


def pools_named(spec: PodSpec) -> list[str]:
    """Every pool that the pod names, also with quantity 0; raises ValueError."""
    return sorted({pool for container in (*spec.init_containers, *spec.containers) for pool in _asks(container)})


def effective(spec: PodSpec) -> dict[str, int]:
    """Units by pool that the pod needs at once; pools of which it needs none are left out."""
    together = lasting(spec)
    if not spec.init_containers:
        return {pool: units for pool, units in together.items() if units > 0}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        asks = _asks(container)
        for pool, units in asks.items():
            peak[pool] = max(peak.get(pool, 0), units + sidecars.get(pool, 0))
        if container.restart_policy == "Always":
            for pool, units in asks.items():
                sidecars[pool] = sidecars.get(pool, 0) + units
    need = {pool: max(together.get(pool, 0), peak.get(pool, 0)) for pool in {*together, *peak}}
    return {pool: units for pool, units in need.items() if units > 0}


def lasting(spec: PodSpec) -> dict[str, int]:
    """Units by pool of containers and sidecars together: these run on, and kubelet's PodResources tells of them alone.

    What an ordinary init container had beyond that, kubelet keeps for the pod and never tells (kubernetes
    pkg/kubelet/apis/podresources/server_v1.go, List; pkg/kubelet/cm/devicemanager/manager.go, Allocate).
    """
    if not spec.init_containers and len(spec.containers) == 1:
        return _asks(spec.containers[0])  # nearly all: a queue of thousands is counted several times a second
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    together: dict[str, int] = {}
    for container in (*sidecars, *spec.containers):
        for pool, units in _asks(container).items():
            together[pool] = together.get(pool, 0) + units
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
    try:
        return effective(pod.spec).get(pool, 0)
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
