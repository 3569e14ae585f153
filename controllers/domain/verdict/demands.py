"""What a pod demands of a node, and what the pods on a node have of it, as the scheduler counts both. Pure.

Of CPU in thousandths of a core; of all else in whole ones (bytes, cards, pods), rounded up where a quantity is finer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from controllers.domain.node_fit import PodConstraints, names_demanded
from controllers.domain.quantities import INT64, NANO, nanos
from controllers.domain.request import at_once
from controllers.domain.verdict.repelled import may_be_repelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import Toleration
    from controllers.api.kube import Container
    from controllers.api.whole_pod import ContainerStatus, WholePod, WholeSpec
    from controllers.domain.verdict.records import Unseen

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
_HUGE: Final = "hugepages-"
_ANY: Final = "0.0.0.0"  # noqa: S104 - an address of a hostPort, which is compared
_FINEST: Final = {CPU: NANO // 1000}


class HostPort(NamedTuple):
    """A port of the node itself."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Demands:
    """What a pod demands of its node."""

    constraints: PodConstraints
    requests: Mapping[str, int] = field(default_factory=dict)
    """By resource: CPU in thousandths of a core, all else in whole ones."""
    ports: tuple[HostPort, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    """What it demands beside that, which no verdict looks at."""
    named: frozenset[str] | None = None
    """The nodes that its affinity names, in each of its terms; None where a term names none."""

    @classmethod
    def of(
        cls,
        pod: WholePod,
        added: Iterable[Toleration] = (),
        others: Iterable[WholePod] = (),
    ) -> Demands:
        """What a pod demands, with the tolerations that a pool adds.

        `others`: pods that are bound, anywhere: some may demand to be away from this one. Raises ValueError where a
        quantity cannot be read.
        """
        constraints = PodConstraints.of(pod.spec, added)
        needed = amounts({name: one for name, one in _requests(pod.spec).items() if name != PODS})
        return cls(constraints, needed, _ports(pod.spec), _unseen(pod, others), names_demanded(constraints))


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What the pods that are bound to a node ask for; those that have ended hold nothing."""

    requests: Mapping[str, int] = field(default_factory=dict)
    """By resource, as of `Demands`."""
    pods: int = 0
    ports: frozenset[HostPort] = frozenset()

    @classmethod
    def of(cls, pods: Iterable[WholePod]) -> NodeUse:
        """What the pods of a node have of it together; raises ValueError where a quantity cannot be read."""
        total: dict[str, int] = {}
        count, ports = 0, set[HostPort]()
        for pod in pods:
            if pod.finished:
                continue
            count += 1
            ports |= {*_ports(pod.spec)}
            for name, units in _counted(pod):
                total[name] = total.get(name, 0) + units
        return cls(total, count, frozenset(ports))


def amounts(found: Mapping[str, int]) -> dict[str, int]:
    """Nanos by resource in the units in which the scheduler compares them."""
    return {name: units(name, amount) for name, amount in found.items()}


def units(resource: str, amount: int) -> int:
    """Nanos of a resource in the units in which the scheduler compares them, rounded up.

    What 64 bits do not hold is nothing to it: a pod that asks for 10E of memory goes to any node (apimachinery
    pkg/api/resource/amount.go, AsScaledInt64).
    """
    found = -(-amount // _FINEST.get(resource, NANO))
    return found if abs(found) <= INT64 else 0


def conflicts(wanted: HostPort, taken: frozenset[HostPort]) -> bool:
    """Whether a port is taken on its address, where 0.0.0.0 stands for all."""
    if wanted.ip == _ANY:
        return any((one.protocol, one.port) == (wanted.protocol, wanted.port) for one in taken)
    return wanted in taken or wanted._replace(ip=_ANY) in taken


def _requests(spec: WholeSpec, running: WholePod | None = None) -> dict[str, int]:
    """Nanos by resource that the pod needs at once, with its overhead; of one that runs by what kubelet gave, too."""
    given = _given(running) if running else {}
    refused = running is not None and running.status.cannot_resize

    def asks(container: Container) -> dict[str, int]:
        status = given.get(container.name)
        if status is None or status.resources is None:
            return _asked(container)
        both = [_nanos(status.resources.requests), _nanos(status.allocated_resources)]
        return _largest(both if refused else [_asked(container), *both])

    total = at_once(spec, asks)
    shared = {name: one for name, one in spec.resources.requests.items() if _is_shared(name)}
    total |= _nanos(shared)
    for name, amount in _nanos(spec.overhead).items():
        total[name] = total.get(name, 0) + amount
    return total


def _counted(pod: WholePod) -> Iterable[tuple[str, int]]:
    """What a pod on a node has of it, by resource."""
    spec = pod.spec
    simple = not (spec.init_containers or spec.overhead or spec.resources.requests) and len(spec.containers) == 1
    if not simple or any(each.resources is not None for each in pod.status.container_statuses):
        return amounts(_requests(spec, pod)).items()
    # Nearly all: nothing is added up, so that each quantity by itself can be counted, and is known.
    asked = spec.containers[0].resources
    merged = {**asked.limits, **asked.requests} if asked.limits else asked.requests
    return [(name, _quantity(name, quantity)) for name, quantity in merged.items()]


@lru_cache(maxsize=4096)
def _quantity(resource: str, quantity: str | int) -> int:
    return units(resource, nanos(quantity))


def _given(pod: WholePod) -> dict[str, ContainerStatus]:
    """By container what kubelet says of it; of init containers of those that run on."""
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    found = {one.name: one for one in pod.status.init_container_statuses if one.name in sidecars}
    return {**found, **{one.name: one for one in pod.status.container_statuses}}


def _asked(container: Container) -> dict[str, int]:
    """A limit stands for the request that is not there, as the API server fills it in."""
    return _nanos({**container.resources.limits, **container.resources.requests})


def _largest(every: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in every:
        found |= {name: max(amount, found.get(name, amount)) for name, amount in one.items()}
    return found


def _nanos(found: Mapping[str, str | int]) -> dict[str, int]:
    return {name: nanos(quantity) for name, quantity in found.items()}


def _is_shared(resource: str) -> bool:
    """Whether a pod may ask for it for all its containers together."""
    return resource in (CPU, MEMORY) or resource.startswith(_HUGE)


def _ports(spec: WholeSpec) -> tuple[HostPort, ...]:
    """Ports of the node that the pod takes; init containers that end take none for long."""
    if not spec.init_containers and not any(container.ports for container in spec.containers):
        return ()
    sidecars = (one for one in spec.init_containers if one.restart_policy == "Always")
    return tuple(
        HostPort(port.host_ip or _ANY, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


def _unseen(pod: WholePod, others: Iterable[WholePod]) -> tuple[Unseen, ...]:
    spec, affinity = pod.spec, pod.spec.affinity
    near = affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)
    spread = any(one.when_unsatisfiable == "DoNotSchedule" for one in spec.topology_spread_constraints)
    found: dict[Unseen, bool] = {
        "volumes": spec.has_deciding_volumes,
        "topology spread": spread,
        "inter-pod affinity": near or may_be_repelled(pod, others),
        "resource claims": spec.has_claims,
    }
    return tuple(what for what, there in found.items() if there)
