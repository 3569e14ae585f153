"""Cards, pods and settings as records, for tests of what is pure."""

from __future__ import annotations

from typing import Any

from controllers.api import names
from controllers.api.gpudevice import (
    Allocation,
    ForeignAllocation,
    GPUDevice,
    Mig,
    NvLink,
    Published,
    Reservation,
)
from controllers.api.kube import ConfigMap, Container, Pod, PodSpec, PodStatus, ResourceRequirements
from controllers.api.meta import ObjectMeta
from controllers.domain.plugin_settings import PluginSettings
from nodeagent.deviceplugin.devices.offers import DesiredOffer
from nodeagent.host.facts.records import MigDevice
from tests.kit import objects

POOL = "p"
EXCLUSIVE, SHARED = PluginSettings(POOL, "Exclusive", 1), PluginSettings(POOL, "TimeSlice", 4)
SPLIT = PluginSettings(POOL, "MIG", 2, "1g.10gb")


def address(number: int) -> str:
    return objects.address(number + 16)


def card(
    number: int,
    *,
    published: Published | None = None,
    taken: tuple[Allocation, ...] = (),
    promised: tuple[Reservation, ...] = (),
    numa: int | None = 0,
    peers: tuple[int, ...] = (),
    faulted: bool = False,
    uuid: bool = True,
    mig: bool = False,
    foreign: tuple[ForeignAllocation, ...] = (),
) -> GPUDevice:
    hardware = {
        "uuid": f"GPU-{number}" if uuid else None,
        "numa_node": numa,
        "nvlink": NvLink(peers=tuple(map(address, peers))) if peers else None,
        "mig": Mig(capable=True, enabled=True, profiles_supported=("1g.10gb", "2g.20gb")) if mig else None,
    }
    meta = {"name": f"card-{number}", "uid": f"u{number}", "resource_version": "7"}
    conditions = (objects.condition("Faulted"),) if faulted else ()
    told: dict[str, Any] = {
        "published": published,
        "allocations": taken,
        "foreign_allocations": foreign,
        "reservations": promised,
        "conditions": conditions,
    }
    return objects.card("n", address(number), hardware=hardware, meta=meta, **told)


def name(number: int) -> str:
    return f"n-{address(number)}"


def asked(offer: PluginSettings | None, *cards: int) -> DesiredOffer:
    return DesiredOffer(offer, frozenset(map(name, cards)), offer)


def settings(offer: PluginSettings | str, *cards: int, object_: str = "gpu-device-plugin-p") -> ConfigMap:
    text = offer if isinstance(offer, str) else offer.text()
    data = {names.ALLOWED_DEVICES: "\n".join(map(name, cards)), names.PLUGIN_SETTINGS: text}
    return ConfigMap(metadata=ObjectMeta(name=object_, namespace=names.NAMESPACE), data=data)


def promise(pod: str, *, since: str = "2026-01-01T00:00:00Z", seen: bool = True, slots: int = 1) -> Reservation:
    return Reservation(
        request_id=pod, namespace="d", pod=pod, slots=slots, since=since, expires_at="2027-01-01T00:00:00Z", seen=seen
    )


def containers(prefix: str, slots: tuple[int, ...], restart: str | None = None) -> tuple[Container, ...]:
    asked = (ResourceRequirements(limits={names.resource_name(POOL): str(n)}) for n in slots)
    return tuple(
        Container(name=f"{prefix}{i}", resources=resources, restart_policy=restart) for i, resources in enumerate(asked)
    )


def pod(
    uid: str,
    *slots: int,
    phase: str = "Pending",
    devices: tuple[int, ...] = (),
    born: str = "1",
    init: tuple[int, ...] = (),
    sidecars: tuple[int, ...] = (),
) -> Pod:
    first = (*containers("i", init), *containers("s", sidecars, "Always"))
    marks = {names.DEVICES: ",".join(map(name, devices))} if devices else {}
    spec = PodSpec(node_name="n", containers=containers("c", slots), init_containers=first)
    meta = ObjectMeta(name=uid, namespace="d", uid=uid, annotations=marks, creation_timestamp=born)
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase=phase))


def held(uid: str, container: str = "c0", slots: int = 1) -> Allocation:
    return Allocation(pod_uid=uid, namespace="d", pod=uid, container=container, slots=slots)


def elsewhere(pod: str, resource: str = "nvidia.com/gpu", container: str = "main") -> ForeignAllocation:
    return ForeignAllocation(namespace="legacy", pod=pod, container=container, resource=resource)


def instance(uuid: str, number: int, profile: str = "1g.10gb") -> MigDevice:
    return MigDevice(uuid, profile, number, 0)
