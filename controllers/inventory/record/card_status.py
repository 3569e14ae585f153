"""The GPUDevice of one card: its labels, status and conditions as writes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE
from controllers.domain.approval import is_ignored
from controllers.domain.position import is_lost
from controllers.inventory import identity
from controllers.inventory.record import conditions
from controllers.inventory.record.desired import DesiredCard
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Apply, PlanBuilder, Ref

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.conditions import Finding
    from controllers.api.gpudevice import GPUDeviceStatus, Hardware
    from controllers.api.kube import Node
    from controllers.api.meta import Condition


DEVICE_LABELS = (names.LABEL_NODE, names.LABEL_VENDOR, names.LABEL_PRODUCT, names.LABEL_FAMILY)


def write_card(draft: PlanBuilder, node: Node, card: DesiredCard, disabled: Finding, at: str) -> None:
    """Add the writes of one card's GPUDevice: object, labels, status; none while it is being deleted."""
    device = card.device
    if device is not None and device.metadata.deletion_timestamp is not None:
        return  # made anew when it is gone
    name = device.name if device else identity.device_name(node.name, card.address)
    about = Ref(GPUDEVICE, name, uid=device.metadata.uid if device else None)
    labels = _labels(node.name, card)
    if device is None:
        draft.add(Apply(about, {"metadata": {"labels": labels}}))
    elif (write := set_labels(about, device.metadata, labels, DEVICE_LABELS)) is not None:
        draft.add(write)
    inventory_id, managed = identity.inventory_id(node.name, card.address), not disabled.status
    of_card = {
        kinds.MANAGED_DISABLED: disabled,
        kinds.INVENTORY_INCOMPLETE: card.incomplete,
        kinds.IGNORED: conditions.IGNORED if _is_ignored(card) else conditions.NOT_IGNORED,
    }
    old = device.status if device else None
    before = _conditions_before(old, card) if old is not None else ()
    made = transitions(of_card, before, at, device.metadata.generation if device else 1)
    lost_since = _lost_since(old, at) if card.is_lost else None
    said = {
        "nodeName": node.name,
        "inventoryID": inventory_id,
        "managed": managed,
        "lostSince": lost_since,
        "nodeGoneSince": card.gone_since,
    }
    if old is not None and (
        (old.node_name, old.inventory_id, old.managed, old.lost_since, old.node_gone_since, old.hardware)
        == (*said.values(), card.hardware)
        and all(one in old.conditions for one in made)
    ):
        return
    draft.add(status_apply(about, said, card.hardware, made))


def status_apply(about: Ref, said: Mapping[str, Any], hardware: Hardware | None, made: Sequence[Condition]) -> Apply:
    """The apply of all status fields that this process owns; one that is left out is removed."""
    status = {key: value for key, value in said.items() if value is not None}
    if hardware is not None:
        status["hardware"] = to_json(hardware)
    return Apply(about, {"status": {**status, "conditions": [to_json(one) for one in made]}}, "status")


def _labels(node: str, card: DesiredCard) -> dict[str, str]:
    labels = {names.LABEL_NODE: node, **card.labels}
    return {key: value for key, text in labels.items() if (value := identity.label_value(text))}


def _is_ignored(card: DesiredCard) -> bool:
    meta = card.device.metadata if card.device else None
    return meta is not None and is_ignored(meta)


def transitions(wanted: Mapping[str, Finding], old: tuple[Condition, ...], at: str, generation: int) -> list[Condition]:
    """The findings as conditions by type; one whose status stays keeps its transition time."""
    return [kinds.condition_for(old, kind, found, now=at, generation=generation) for kind, found in wanted.items()]


def _conditions_before(old: GPUDeviceStatus, card: DesiredCard) -> tuple[Condition, ...]:
    """The conditions whose time goes on: how long a card has been lost is counted, whatever was incomplete before."""
    if not card.is_lost or is_lost(old):
        return old.conditions
    return tuple(one for one in old.conditions if one.type != kinds.INVENTORY_INCOMPLETE)


def _lost_since(old: GPUDeviceStatus | None, at: str) -> str:
    """Since when a card is lost; a status of a version that did not say it has the time of its condition."""
    if old is None or not is_lost(old):
        return at
    incomplete = kinds.find(old.conditions, kinds.INVENTORY_INCOMPLETE)
    return old.lost_since or (incomplete.last_transition_time if incomplete is not None else at)
