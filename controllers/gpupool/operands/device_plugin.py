"""A pool's device plugin: its ConfigMaps and its DaemonSet, as whole objects. Pure.

The plugin follows its ConfigMap by watch, so a change of cards restarts nothing. Above
`SHARD_CARDS` cards the list is split by node over several ConfigMaps, since every plugin of
the pool reads each change: the first carries the settings and the shards carry cards. A card
that moves from one ConfigMap to another is in both for a moment, and never in neither.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.components.daemonset import build_daemonset, module_labels
from controllers.domain.agents import reaching
from controllers.domain.allocation import applied, slots_under
from controllers.domain.plugin_settings import offer_of
from controllers.gpupool.operands import device_plugin_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec, GPUPool
    from controllers.api.kube import ConfigMap
    from controllers.api.settings import DeviceStrategy
    from controllers.domain.agents import Variables
    from controllers.domain.plugin_settings import PluginSettings

SHARD_CARDS = 1000
PLUGIN = "device-plugin"
"""Component of what belongs to the device plugins."""


def offer(pool: str, allocation: AllocationSpec, cards: Iterable[GPUDevice]) -> PluginSettings:
    """The plugins' settings, for the cards that they are to offer."""
    slots = {card.status.inventory_id or "": slots_under(card, allocation) for card in cards}
    return offer_of(pool, allocation, slots)


def labels(pool: str) -> dict[str, str]:
    """Labels of everything that belongs to a pool."""
    return module_labels(PLUGIN, **{names.LABEL_POOL: pool})


def owner(pool: GPUPool) -> list[dict[str, Any]]:
    """The pool owns its operands: whatever else happens, they do not outlive it."""
    meta = pool.metadata
    api_version = f"{names.GROUP}/{names.VERSION}"
    return [{"apiVersion": api_version, "kind": "GPUPool", "name": meta.name, "uid": meta.uid, "controller": True}]


def allowed_lists(pool: str, offered: list[GPUDevice]) -> dict[str, set[str]]:
    """The allowed cards (inventoryIDs) by the name of the ConfigMap that lists them."""
    base = names.plugin_object(pool)
    if len(offered) <= SHARD_CARDS:
        return {base: {device.status.inventory_id or "" for device in offered}}
    count = -(-len(offered) // SHARD_CARDS)
    lists: dict[str, set[str]] = {name: set() for name in (base, *(names.plugin_shard(pool, k) for k in range(count)))}
    for device in offered:
        # By hash, so that a node stays in its shard when others come and go.
        digest = hashlib.sha256((device.status.node_name or "").encode()).hexdigest()
        lists[names.plugin_shard(pool, int(digest, 16) % count)].add(device.status.inventory_id or "")
    return lists


def cards_in(config: ConfigMap) -> set[str]:
    """The cards that a ConfigMap allows."""
    return set(config.data.get(names.ALLOWED_DEVICES, "").splitlines())


def configmaps(pool: GPUPool, offered: list[GPUDevice], known: Mapping[str, ConfigMap]) -> dict[str, dict[str, Any]]:
    """The pool's ConfigMaps by name: what they are to be next, without what names them.

    A card leaves a ConfigMap only once another one lists it, or when it is not to be offered at all.
    """
    settings = offer(pool.name, applied(pool), offered).text()
    meta = {"labels": labels(pool.name), "ownerReferences": owner(pool)}
    wanted, made = allowed_lists(pool.name, offered), {}
    home = {card: name for name, cards in wanted.items() for card in cards}
    listed = {name: cards_in(config) for name, config in known.items()}
    for name in sorted({*wanted, *known}):
        moving = {card for card in listed.get(name, ()) if card in home and card not in listed.get(home[card], ())}
        cards = wanted.get(name, set()) | moving
        if name not in wanted and not cards:
            continue  # a shard that is empty and no longer needed goes
        data = {names.ALLOWED_DEVICES: "\n".join(sorted(cards))}
        if name == names.plugin_object(pool.name):
            data[names.PLUGIN_SETTINGS] = settings
        made[name] = {"metadata": meta, "data": data}
    return made


def daemonset(
    pool: GPUPool,
    image: str,
    strategy: DeviceStrategy = "Auto",
    *,
    divided: bool = False,
    shared: bool = False,
    env: Variables = (),
) -> dict[str, Any]:
    """The pool's device plugin on every node that has a card of it.

    `divided` where it hands out MIG instances, `shared` where cards have, or had, MPS control daemons.
    """
    pod = device_plugin_pod.pod(pool.name, image, strategy, divided=divided, shared=shared)
    return build_daemonset(names.plugin_object(pool.name), labels(pool.name), reaching(pod, env), owners=owner(pool))
