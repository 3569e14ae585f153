"""MPS control daemons of a pool's cards on a node: what is wanted of them, and what is told of them. Pure.

A card that is to be offered gets its daemon first, and is offered when that is Ready (`offers.is_barred`). A card
that is off the list keeps its daemon until nobody can be using it, by the rule of the fence (`domain.usage.is_clear`),
and is offered in no other mode before that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gpudevice import MpsDaemon
from controllers.domain.request import pools_of
from controllers.domain.usage import is_clear, unreported
from nodeagent.deviceplugin.devices import offers
from nodeagent.host.mpsfiles import UNREAD, WantedDaemon

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from nodeagent.deviceplugin.devices.offers import DesiredOffer
    from nodeagent.deviceplugin.devices.records import NodeScan

NOT_YET = "the control daemon has not been started yet"


def wanted(
    pool: str, cards: Collection[GPUDevice], asked: DesiredOffer, seen: NodeScan, *, pods: Iterable[Pod], now: float
) -> Mapping[str, WantedDaemon]:
    """What is wanted of the pool's cards, by uuid; `pods`: those bound to the node, `now` in epoch seconds."""
    members = [card for card in cards if offers.is_member(pool, card) and offers.uuid(card)]
    beside = unreported(pool, members, [pod for pod in pods if pool in pools_of(pod)])
    found: dict[str, WantedDaemon] = {}
    for card in members:
        used = not is_clear(card, beside, now)
        if (settings := _settings(card, asked)) is not None:
            found[offers.uuid(card)] = WantedDaemon(*settings, keep=used)
        elif used and (former := _former(card, seen)) is not None:
            found[offers.uuid(card)] = replace(former, keep=True)
    return found


def _former(card: GPUDevice, seen: NodeScan) -> WantedDaemon | None:
    """The settings of the daemon that a card has; None where it has none, or is published by others."""
    said, published = seen.daemons.cards.get(offers.uuid(card)), card.status.published
    if said is None or said.wanted is None:
        return None
    return said.wanted if published is None or published.config_version == said.wanted.version else None


def _settings(card: GPUDevice, asked: DesiredOffer) -> tuple[str, int, str, str] | None:
    """The settings of a card that is to be offered; None where it is not, or not by MPS."""
    name, offer = card.status.inventory_id or "", asked.last
    if name not in asked.allowed or offer is None or offer.mode != offers.MPS or offer.limits is None:
        return None
    published = offer.of(name)
    return published.config_version, published.slots, offer.limits.memory, offer.limits.threads


def reported(pool: str, cards: Iterable[GPUDevice], asked: DesiredOffer, seen: NodeScan) -> dict[str, MpsDaemon | None]:
    """What `status.mps` is to be of the pool's members, by the object's name: of others their own plugin tells."""
    return {card.name: _reported(pool, card, asked, seen) for card in cards if offers.is_member(pool, card)}


def _reported(pool: str, card: GPUDevice, asked: DesiredOffer, seen: NodeScan) -> MpsDaemon | None:
    said, is_wanted = seen.daemons.cards.get(offers.uuid(card)), _settings(card, asked) is not None
    if not seen.daemons.known:
        return card.status.mps
    if said is None and not is_wanted and (card.status.mps is None or seen.daemons.is_gone(offers.uuid(card))):
        return None
    if not seen.daemons.alive:
        why = f"the pod of DaemonSet {names.mps(pool)} does not run on the node"
        return MpsDaemon(pool=pool, phase="Down", reason=why, running=False)
    if said is None:
        # What was wanted until now may be read, and so started, in this moment.
        if not is_wanted:
            return MpsDaemon(pool=pool, phase="Stopping", reason=UNREAD)
        return MpsDaemon(pool=pool, phase="Down", reason=NOT_YET)
    return MpsDaemon(pool=pool, phase=said.phase, reason=said.reason, running=said.runs)
