"""From what is seen of a node to the writes that record it. Pure.

Cards first, the node's summary after them: whoever reads the summary finds the cards that it
names. Each object costs two writes when it is new and none while nothing changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.gpunodeinventory import GPUNodeInventory, InventoryCard, InventoryHardware
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY, NODE
from controllers.domain.approval import is_ignored
from controllers.domain.clock import stamp
from controllers.domain.position import is_lost
from controllers.domain.wording import sentence
from controllers.inventory import identity
from controllers.inventory.record import conditions
from controllers.inventory.record.node_cards import Decision, Removal, Wanted, decide
from controllers.inventory.record.remembered import Memory
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Apply, Delete, Draft, Expect, Note, Plan, Ref, ref

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.conditions import Finding
    from controllers.api.gpudevice import GPUDevice, GPUDeviceStatus, Hardware
    from controllers.api.kube import Node
    from controllers.api.meta import Condition
    from controllers.api.settings import Settings
    from controllers.inventory.views import ObservedNode

DEVICE_LABELS = (names.LABEL_NODE, names.LABEL_VENDOR, names.LABEL_PRODUCT, names.LABEL_FAMILY)
FEATURE_MISSING = frozenset({"NotLabelled", "NoReport", "NodeFeatureNotServed", "RuleRefused"})
"""Reasons that say that nobody tells of a node's cards; the event about them is named as the alert."""


def plan(seen: ObservedNode, settings: Settings, now: float) -> Plan:
    """What to write so that the node's cards are recorded as they are."""
    memory = Memory(settings.inventory.remember_for, now)
    if seen.node is None:
        return _forget(seen, memory, stamp(now))
    decision = decide(seen, memory)
    if decision.was_gpu_node:
        return _summary_goes(seen)
    if not decision.is_gpu_node:
        return Plan()
    draft, at = Draft(requeue_after=settings.inventory.resync_period), stamp(now)
    disabled = conditions.managed(seen.node, settings.managed_nodes)
    for card in decision.wanted:
        _card(draft, seen.node, card, disabled, at)
    for removal in decision.removals:
        draft.add(Delete(ref(GPUDEVICE, removal.device), removal.device.metadata.resource_version))
    _inventory(draft, seen, decision, {kinds.MANAGED_DISABLED: disabled, **decision.of_node}, at)
    _tell(draft, seen, decision.wanted, decision.removals)
    return draft.done()


def _forget(seen: ObservedNode, memory: Memory, at: str) -> Plan:
    """The node is gone: so are its records, once a quorum read confirms it, but those of which a person said something.

    Those are marked first: whatever of this comes to pass, what was said is not lost.
    """
    draft, absent = Draft(), (Ref(NODE, seen.name),)
    there = [device for device in seen.devices if device.metadata.deletion_timestamp is None]
    kept = [device for device in there if memory.keeps(device)]
    if marks := [mark for device in kept if (mark := _marked(device, memory, at)) is not None]:
        draft.add(Expect(NODE, frozenset(), fields=f"metadata.name={seen.name}"), *marks)
    for device in there:
        if device not in kept:
            draft.add(Delete(ref(GPUDEVICE, device), device.metadata.resource_version, absent))
    draft.add(*_summary_goes(seen, absent).actions)
    for device in kept:
        draft.look_again(max(1.0, memory.left(device)))
    return draft.done()


def _marked(device: GPUDevice, memory: Memory, at: str) -> Apply | None:
    """The write that says of a card that its Node is gone; None where it is said."""
    since, old = memory.since(device), device.status
    of_card = {
        kinds.INVENTORY_INCOMPLETE: conditions.gone(device, since, memory.until(device)),
        kinds.IGNORED: conditions.IGNORED if is_ignored(device.metadata) else conditions.NOT_IGNORED,
    }
    made = _conditions(of_card, old.conditions, at, device.metadata.generation)
    # Of a Node that is not there nobody can say whether it is managed: it stays as it was.
    made += [one for one in old.conditions if one.type == kinds.MANAGED_DISABLED]
    if old.node_gone_since == since and all(one in old.conditions for one in made):
        return None
    said = {"nodeName": old.node_name, "inventoryID": old.inventory_id, "managed": old.managed, "nodeGoneSince": since}
    return _status(ref(GPUDEVICE, device), said, old.hardware, made)


def _summary_goes(seen: ObservedNode, absent: tuple[Ref, ...] = ()) -> Plan:
    """The node has no cards any more, or is gone itself: so is its summary."""
    found = seen.inventory
    if found is None or found.metadata.deletion_timestamp is not None:
        return Plan()
    return Plan((Delete(ref(GPUNODEINVENTORY, found), found.metadata.resource_version, absent),))


def _card(draft: Draft, node: Node, card: Wanted, disabled: Finding, at: str) -> None:
    """One card's object and status."""
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
        kinds.IGNORED: conditions.IGNORED if _ignored(card) else conditions.NOT_IGNORED,
    }
    old = device.status if device else None
    before = _lasting(old, card) if old is not None else ()
    made = _conditions(of_card, before, at, device.metadata.generation if device else 1)
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
    draft.add(_status(about, said, card.hardware, made))


def _status(about: Ref, said: Mapping[str, Any], hardware: Hardware | None, made: Sequence[Condition]) -> Apply:
    """All that this process applies of a card's status: what is left out of it goes."""
    status = {key: value for key, value in said.items() if value is not None}
    if hardware is not None:
        status["hardware"] = to_json(hardware)
    return Apply(about, {"status": {**status, "conditions": [to_json(one) for one in made]}}, "status")


def _labels(node: str, card: Wanted) -> dict[str, str]:
    labels = {names.LABEL_NODE: node, **card.labels}
    return {key: value for key, text in labels.items() if (value := identity.label_value(text))}


def _ignored(card: Wanted) -> bool:
    meta = card.device.metadata if card.device else None
    return meta is not None and is_ignored(meta)


def _conditions(wanted: Mapping[str, Finding], old: tuple[Condition, ...], at: str, generation: int) -> list[Condition]:
    return [kinds.said(old, kind, found, now=at, generation=generation) for kind, found in wanted.items()]


def _lasting(old: GPUDeviceStatus, card: Wanted) -> tuple[Condition, ...]:
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


def _inventory(draft: Draft, seen: ObservedNode, decision: Decision, wanted: Mapping[str, Finding], at: str) -> None:
    """The node's own object and status."""
    found = seen.inventory
    if found is not None and found.metadata.deletion_timestamp is not None:
        return
    about = Ref(GPUNODEINVENTORY, seen.name, uid=found.metadata.uid if found else None)
    if found is None or found.spec is None or found.spec.node_name != seen.name:
        draft.add(Apply(about, {"spec": {"nodeName": seen.name}}))
    hardware = _hardware(seen.name, decision)
    old = found.status if found else None
    made = _conditions(wanted, old.conditions if old else (), at, found.metadata.generation if found else 1)
    if old is not None and old.hw == hardware and all(one in old.conditions for one in made):
        return
    status = {"hw": to_json(hardware), "conditions": [to_json(one) for one in made]}
    draft.add(Apply(about, {"status": status}, "status"))
    for one in made:
        before = kinds.find(old.conditions, one.type) if old else None
        if (note := _changed(about, before, one)) is not None:
            draft.add(note)


def _changed(about: Ref, before: Condition | None, now: Condition) -> Note | None:
    """The event about a condition of the node, where it changed enough for a person to look."""
    text = sentence(f"{now.type} is {now.status} ({now.reason}): {now.message}")
    if now.status != "False":
        text += f" More: kubectl describe gpunodeinventory {about.name}"
    outdated = names.REASON_REPORT_OUTDATED
    if now.reason == outdated and (before is None or before.reason != outdated):
        return Note(about, "Warning", names.EVENT_INVENTORY_OUTDATED, text)
    if (before.status if before else "False") == now.status or (before is None and now.reason == "NoReport"):
        return None  # a node that has just joined waits for its agent: nothing has changed
    word = names.EVENT_NODE_FEATURE_MISSING if now.reason in FEATURE_MISSING else names.EVENT_INVENTORY_CONDITION
    return Note(about, "Warning" if now.status == "True" else "Normal", word, text)


def _hardware(node: str, decision: Decision) -> InventoryHardware:
    devices = tuple(
        InventoryCard(
            name=identity.device_name(node, card.address),
            inventory_id=identity.inventory_id(node, card.address),
            address=card.address,
            product=card.hardware.product if card.hardware else None,
            memory_mib=card.hardware.memory_mib if card.hardware else None,
        )
        for card in decision.wanted[: names.CARDS_MAX]
    )
    return InventoryHardware(present=decision.present, devices=devices)


def _tell(draft: Draft, seen: ObservedNode, cards: tuple[Wanted, ...], removals: tuple[Removal, ...]) -> None:
    """Events about the node, one for all its cards: a rack that is switched on is no flood."""
    about = ref(GPUNODEINVENTORY, seen.inventory or GPUNodeInventory()) if seen.inventory else None
    about = about or Ref(GPUNODEINVENTORY, seen.name)
    if detected := [card for card in cards if card.device is None]:
        shown = ", ".join(f"{card.address} ({card.describe})" for card in detected)
        draft.add(Note(about, "Normal", names.EVENT_DEVICE_DETECTED, f"{len(detected)} cards found: {shown}"))
    if recognised := [card for card in cards if card.is_recognised]:
        shown = ", ".join(f"{card.address} ({card.describe})" for card in recognised)
        text = f"{len(recognised)} cards recognised on a Node that was deleted; what was said of them holds: {shown}"
        draft.add(Note(about, "Normal", names.EVENT_DEVICE_RECOGNISED, text))
    for removal in removals:
        text = f"GPUDevice {removal.device.name} is removed: {removal.why}"
        draft.add(Note(about, "Normal", names.EVENT_DEVICE_REMOVED, text))
