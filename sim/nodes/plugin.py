"""What the device plugins of one node offer: from their ConfigMaps to `published` and allocatable. Pure.

A plugin offers a card that its list names, that is in the machine, and that no other plugin
has published: whoever is second waits until the first has withdrawn it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names as api
from controllers.api.gpudevice import ForeignAllocation, Published
from controllers.api.kube import ConfigMap
from controllers.domain import offer as offers
from controllers.domain.request import whole

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice


@dataclass(frozen=True, slots=True)
class Offer:
    """What a pool's ConfigMaps say; `settings` None where they cannot be read."""

    settings: offers.Offer | None
    allowed: frozenset[str]


def pool_of(configmap: ConfigMap) -> str:
    """The pool whose plugin reads a ConfigMap: by its label, else by its name."""
    prefix = api.plugin_object("")
    if not configmap.name.startswith(prefix):
        return ""
    return configmap.metadata.labels.get(api.LABEL_POOL) or configmap.name.removeprefix(prefix)


def offer(pool: str, configmaps: Iterable[ConfigMap]) -> Offer | None:
    """The offer of a pool: settings from its ConfigMap, cards from that and its shards; None without one."""
    base = api.plugin_object(pool)
    mine = {c.name: c for c in configmaps if c.name == base or _is_shard(c.name, base)}
    if base not in mine:
        return None
    lines = (line for c in mine.values() for line in c.data.get(api.ALLOWED_DEVICES, "").splitlines())
    text = mine[base].data.get(api.PLUGIN_SETTINGS, "")
    return Offer(offers.read(pool, text), frozenset(line.strip() for line in lines if line.strip()))


def _is_shard(name: str, base: str) -> bool:
    return name.startswith(base + ".") and name.removeprefix(base + ".").isdigit()


HOLDER: Final = ForeignAllocation(namespace="elsewhere", pod="holder", container="main", resource="nvidia.com/gpu")
"""Who has a card by another device plugin's resource."""


def foreign(
    device: GPUDevice, devices: Iterable[GPUDevice], held: Container[str]
) -> tuple[ForeignAllocation, ...] | None:
    """What plugins say of others' pods on a card; None where no card of the node is in a pool, and so none looks."""
    if all(other.status.pool_ref is None for other in devices):
        return None
    hardware = device.status.hardware
    return (HOLDER,) if hardware is not None and hardware.pci.address in held else ()


def published(
    devices: Iterable[GPUDevice],
    offers: Mapping[str, Offer | None],
    addresses: Container[str],
    *,
    silent: bool,
    held: Container[str] = (),
) -> dict[str, Published | None]:
    """What each GPUDevice's `published` is to be, by the object's name.

    `offers`: by pool, of the plugins that are ready here; `addresses`: the cards that are there; `held`: those that
    others have. A plugin that cannot read its settings goes on with what it has.
    """
    wanted: dict[str, Published | None] = {}
    for device in devices:
        now, status = device.status.published, device.status
        hardware = status.hardware
        there = hardware is None or (hardware.pci.address in addresses and hardware.pci.address not in held)
        listed = {
            pool: offer
            for pool, offer in offers.items()
            if offer is not None and there and status.inventory_id in offer.allowed
        }
        if silent:
            wanted[device.name] = now
        elif now is not None:
            same = listed.get(now.pool)
            wanted[device.name] = None if same is None else _of(same, device) or now
        else:
            readable = (offer for _, offer in sorted(listed.items()) if offer.settings is not None)
            wanted[device.name] = next((_of(offer, device) for offer in readable), None)
    return wanted


def _of(offer: Offer, device: GPUDevice) -> Published | None:
    """What a plugin offers of a card that its list names."""
    return offer.settings.of(device.status.inventory_id or "") if offer.settings is not None else None


def allocatable(wanted: Mapping[str, Published | None], pools: Iterable[str]) -> dict[str, int]:
    """The extended resources of a node whose plugins are `pools`: the slots that are published there."""
    total = Counter({api.resource_name(pool): 0 for pool in pools})
    for slot in wanted.values():
        if slot is not None and api.resource_name(slot.pool) in total:
            total[api.resource_name(slot.pool)] += slot.slots
    return dict(total)


def both(devices: Iterable[GPUDevice], wanted: Mapping[str, Published | None]) -> dict[str, Published | None]:
    """What is published now and stays so: all that the node may count on while it changes."""
    return {
        device.name: Published(pool=then.pool, config_version="", slots=min(now.slots, then.slots))
        if (now := device.status.published) and (then := wanted[device.name]) and now.pool == then.pool
        else None
        for device in devices
    }


def resources_patch(present: Mapping[str, str], wanted: Mapping[str, int]) -> dict[str, str | None]:
    """The change from a node's allocatable to what it is to be; None removes a key. Foreign keys stay."""
    ours = {key for key in present if key.startswith(api.PREFIX)}
    gone: dict[str, str | None] = dict.fromkeys(sorted(ours - set(wanted)))
    return gone | {key: str(count) for key, count in wanted.items() if _count(present.get(key)) != count}


def lowered(present: Mapping[str, str], wanted: Mapping[str, int]) -> dict[str, str | None]:
    """The part of that change that takes something away, which comes before `published` is withdrawn."""
    return {
        key: value
        for key, value in resources_patch(present, wanted).items()
        if key in present and (value is None or int(value) < _count(present[key]))
    }


def _count(quantity: str | None) -> int:
    """A quantity as kubelet wrote it (1000 is `1k`); -1 where there is none, or none that can be read."""
    try:
        return -1 if quantity is None else whole(quantity)
    except ValueError:
        return -1
