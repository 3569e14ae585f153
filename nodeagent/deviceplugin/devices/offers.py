"""The devices that a pool offers on its node: `published` in GPUDevice statuses, and kubelet's list. Pure.

The order that keeps two plugins apart needs no steps of its own: the list is made of what stands in
`published` *and* is wanted, each time anew. A card that is to come is published first, and the list
follows; one that is to go falls off the list at once, and `published` is withdrawn after that. So
kubelet never has more than the cluster was told, and what is not published is in nobody's list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from controllers.api import conditions
from controllers.api import names as api
from controllers.api.gpupool import EQUAL
from controllers.domain import plugin_settings as settings
from controllers.domain.catalogue import canonical_profile
from controllers.domain.plugin_settings import MpsLimits, PluginSettings
from controllers.domain.request import suffix_for
from nodeagent.deviceplugin.devices.records import SEPARATOR, ForeignUsage, Listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice, Published
    from controllers.api.kube import ConfigMap
    from nodeagent.deviceplugin.devices.records import NodeScan
    from nodeagent.host.facts.records import MigDevice

MIG, TIME_SLICE, EXCLUSIVE, MPS = "MIG", "TimeSlice", "Exclusive", "MPS"
NOBODY = ForeignUsage()
Id = tuple[str, "MigDevice | None"]
"""An id that kubelet sees, and the MIG instance that it is."""


@dataclass(frozen=True, slots=True)
class DesiredOffer:
    """What the pool's ConfigMaps ask of this node."""

    offer: PluginSettings | None = None
    """None where the settings cannot be read: what is published stays as it is, and nothing else is."""
    allowed: frozenset[str] = frozenset()
    """The cards (inventoryIDs) that are to be offered."""
    last: PluginSettings | None = None
    """The settings that were read last: by them the list stays as it is while there are none."""


def desired_offer(pool: str, configmaps: Iterable[ConfigMap], before: PluginSettings | None) -> DesiredOffer:
    """What the pool's ConfigMaps ask; without its first one, nothing is to be offered.

    `before`: the settings that were read last.
    """
    base = api.plugin_object(pool)
    mine = {c.name: c for c in configmaps if c.name == base or _is_shard(c.name, base)}
    if base not in mine:
        return DesiredOffer(last=before)
    lines = (line.strip() for c in mine.values() for line in c.data.get(api.ALLOWED_DEVICES, "").splitlines())
    read = settings.read(pool, mine[base].data.get(api.PLUGIN_SETTINGS, ""))
    return DesiredOffer(read, frozenset(line for line in lines if line), read or before)


def _is_shard(name: str, base: str) -> bool:
    return name.startswith(base + ".") and name.removeprefix(base + ".").isdigit()


def wanted(
    pool: str, cards: Iterable[GPUDevice], asked: DesiredOffer, seen: NodeScan, foreign: ForeignUsage = NOBODY
) -> dict[str, Published | None]:
    """What each card's `published` is to be, by the object's name; of another pool's card, what it is."""
    return {card.name: _wanted(pool, card, asked, seen, foreign) for card in cards}


def _wanted(pool: str, card: GPUDevice, asked: DesiredOffer, seen: NodeScan, foreign: ForeignUsage) -> Published | None:
    now, name = card.status.published, card.status.inventory_id or ""
    if now is not None and now.pool != pool:
        return now  # it is offered by another plugin, which withdraws it first
    if name not in asked.allowed or address(card) in seen.lost or foreign.holds(card.name):
        return None
    # Nobody but kubelet knows who has the card by another plugin's resource: it is asked before a card is offered.
    if asked.offer is None or (now is None and not foreign.is_current) or _is_unknown(card, asked.offer, seen):
        return now
    told = asked.offer.of(name)
    if is_barred(card, asked.offer, seen):
        return None
    # What a silent driver told earlier keeps what is offered; it is no ground to offer a card anew.
    made = _limited(pool, told, _ids(card, asked.offer, seen))
    whole = len(made) >= told.slots and address(card) not in seen.remembered
    return told if whole else now


def address(card: GPUDevice) -> str:
    """The card's PCI address; empty where it is not known."""
    return card.status.hardware.pci.address if card.status.hardware is not None else ""


def uuid(card: GPUDevice) -> str:
    """What the driver calls the card; empty where that is not known, and then it cannot be handed out."""
    return (card.status.hardware.uuid or "") if card.status.hardware is not None else ""


def listing(
    pool: str, cards: Iterable[GPUDevice], asked: DesiredOffer, seen: NodeScan, foreign: ForeignUsage = NOBODY
) -> tuple[Listed, ...]:
    """What kubelet is to be told, sorted by id."""
    found = [device for card in cards for device in _listed(pool, card, asked, seen, foreign)]
    return tuple(sorted(found, key=lambda device: device.id))


def _listed(pool: str, card: GPUDevice, asked: DesiredOffer, seen: NodeScan, foreign: ForeignUsage) -> list[Listed]:
    name, now, offer = card.status.inventory_id or "", card.status.published, asked.last or _acknowledged(pool, card)
    if name not in asked.allowed or offer is None:
        return []
    taken = foreign.holds(card.name)
    barred = is_barred(card, offer, seen) and not _is_unknown(card, offer, seen)
    told, healthy = offer.of(name), is_healthy(card, seen) and not taken and not barred
    if now is not None and now.pool == pool:
        told = _least(told, now)
    elif asked.offer is None or not (taken or address(card) in seen.lost or is_barred(card, offer, seen)):
        return []
    # A card that is lost, somebody else's, or barred by MPS is withdrawn, and stays in the list as Unhealthy while the
    # pool has it.
    numa = card.status.hardware.numa_node if card.status.hardware is not None else None
    return [
        Listed(
            id_,
            instance.uuid if instance else uuid(card),
            card.name,
            address(card),
            healthy,
            numa,
            instance,
            daemon=offer.mode == MPS,
            suffix=suffix,
        )
        for id_, instance, suffix in _limited(pool, told, _ids(card, offer, seen))
    ]


def is_barred(card: GPUDevice, offer: PluginSettings, seen: NodeScan) -> bool:
    """Whether MPS keeps the card from being offered.

    In mode MPS its control daemon has to serve with these settings; in another none may be left, since it has the card
    for itself.
    """
    said = seen.daemons.cards.get(uuid(card))
    if offer.mode != MPS:
        return said is not None or not (seen.daemons.known or card.status.mps is None)
    version = offer.of(card.status.inventory_id or "").config_version
    return said is None or not seen.daemons.alive or said.phase != "Ready" or said.version != version


def _is_unknown(card: GPUDevice, offer: PluginSettings, seen: NodeScan) -> bool:
    """Whether nothing is known of daemons: what is published with these settings stays."""
    return not seen.daemons.known and card.status.published == offer.of(card.status.inventory_id or "")


def _least(told: Published, now: Published) -> Published:
    """The lesser of what is to be offered and what is acknowledged; of each profile, where they tell of profiles."""
    by_profile = {each.profile: each.slots for each in now.profiles or ()}
    profiles = tuple(
        replace(each, slots=least)
        for each in told.profiles or ()
        if (least := min(each.slots, by_profile.get(each.profile, 0)))
    )
    return replace(told, slots=min(told.slots, now.slots), profiles=profiles if told.profiles is not None else None)


def _limited(pool: str, told: Published, ids: Iterable[Id]) -> list[tuple[str, MigDevice | None, str]]:
    """As many of the ids as may be offered, each with the suffix of its resource."""
    if told.profiles is None:
        return [(id_, instance, pool) for id_, instance in list(ids)[: told.slots]]
    left = {each.profile: each.slots for each in told.profiles}
    found: list[tuple[str, MigDevice | None, str]] = []
    for id_, instance in ids:
        if instance is not None and left.get(instance.profile or "", 0):
            left[instance.profile or ""] -= 1
            found.append((id_, instance, suffix_for(pool, instance.profile)))
    return found


def is_healthy(card: GPUDevice, seen: NodeScan) -> bool:
    """Whether new work may go to a card: it is there, its driver answers for it, and nobody has found a fault."""
    faulted = any(c.type == conditions.FAULTED and c.status == "True" for c in card.status.conditions)
    return not faulted and address(card) not in seen.lost | seen.unresponsive


def _ids(card: GPUDevice, offer: PluginSettings, seen: NodeScan) -> list[Id]:
    """The ids of everything that a card has to offer under these settings."""
    if not uuid(card):
        return []
    if offer.mode == MIG:
        profiles = offer.profiles.keys() or {canonical_profile(offer.profile or "")}
        made = seen.instances.get(address(card), ())
        return [(each.uuid, each) for each in sorted(made, key=lambda m: m.uuid) if each.profile in profiles]
    if offer.mode in (TIME_SLICE, MPS):
        slots = offer.of(card.status.inventory_id or "").slots
        return [(f"{uuid(card)}{SEPARATOR}{number}", None) for number in range(slots)]
    return [(uuid(card), None)]


def _acknowledged(pool: str, card: GPUDevice) -> PluginSettings | None:
    """The settings of which `published` is the acknowledgement: after a restart they may be all that is left.

    Its version is a hash of the settings, and there are few that it can be.
    """
    now, hardware = card.status.published, card.status.hardware
    if now is None or now.pool != pool:
        return None
    offered = hardware.mig.profiles_supported if hardware is not None and hardware.mig is not None else ()
    made = [PluginSettings(pool, mode, now.slots) for mode in (EXCLUSIVE, TIME_SLICE)]
    made.append(PluginSettings(pool, MPS, now.slots, limits=MpsLimits(EQUAL, EQUAL)))
    made += [PluginSettings(pool, MIG, now.slots, profile) for profile in offered]
    if now.profiles:
        by_profile = {each.profile: each.slots for each in now.profiles}
        made = [PluginSettings(pool, MIG, now.slots, profiles=MappingProxyType(by_profile))]
    return next((offer for offer in made if offer.of("") == now), None)


def suffixes(pool: str, asked: DesiredOffer, listing: Iterable[Listed]) -> frozenset[str]:
    """What stands after `gpu.deckhouse.io/` in the resources that kubelet is to know of this pool."""
    listed = {device.suffix for device in listing}
    return frozenset(listed.union(asked.last.suffixes) if asked.last is not None else listed or {pool})


def owners(cards: Iterable[GPUDevice], seen: NodeScan) -> Mapping[str, GPUDevice]:
    """Whose card a uuid is: a card's own, or a MIG instance's."""
    found: dict[str, GPUDevice] = {}
    for card in cards:
        found |= dict.fromkeys((each.uuid for each in seen.instances.get(address(card), ())), card)
        if uuid(card):
            found[uuid(card)] = card
    return found


def asks_driver(asked: DesiredOffer) -> bool:
    """Whether the driver has to be asked: it alone tells of MIG instances, and what else it tells is not worth it.

    Its library and devices are in the pod in mode MIG only, see `controllers.gpupool.operands.device_plugin_pod`.
    """
    return asked.last is None or asked.last.mode == MIG


def unobservable(cards: Iterable[GPUDevice], seen: NodeScan) -> frozenset[str]:
    """The cards in MIG mode whose instances nobody has told us: what they serve cannot be seen."""
    return frozenset(
        card.name
        for card in cards
        if card.status.hardware is not None
        and card.status.hardware.mig is not None
        and card.status.hardware.mig.enabled
        and address(card) not in seen.instances
    )


def reported(cards: Iterable[GPUDevice]) -> ForeignUsage:
    """Who has the cards by resources that are not the module's, as it was reported last: kubelet has not said anew."""
    return ForeignUsage({card.name: card.status.foreign_allocations for card in cards}, is_current=False)


def is_coming(card: GPUDevice, asked: DesiredOffer) -> bool:
    """Whether the card is to be offered, and nobody offers it yet."""
    return card.status.inventory_id in asked.allowed and card.status.published is None


def is_member(pool: str, card: GPUDevice) -> bool:
    """Whether the card is in the pool."""
    return card.status.pool_ref is not None and card.status.pool_ref.name == pool


def unreadable(pool: str, configmaps: Iterable[ConfigMap]) -> bool:
    """Whether the pool has settings, and they cannot be read."""
    base = next((c for c in configmaps if c.name == api.plugin_object(pool)), None)
    return base is not None and settings.read(pool, base.data.get(api.PLUGIN_SETTINGS, "")) is None
