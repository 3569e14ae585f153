"""Status, reason and message of each condition of a GPUDevice and a GPUNodeInventory. Pure.

A sentence tells a person what was found, what was expected and what to do; it carries no
times or counters, since a status that changes by itself is written for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.domain.catalogue import VENDORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Node
    from controllers.api.nodefeature import NodeFeature
    from controllers.api.settings import ManagedNodes
    from controllers.inventory.reports.discovered_cards import DiscoveredCard

PROBLEMS_SHOWN = 8
TOLD_MAX = 300


COMPLETE = Finding(False, "Complete", "everything that identifies the card is known")
NOT_IGNORED = Finding(
    False, "NotIgnored", f"{names.LABEL_IGNORE}=true, as label or annotation, keeps a card out of pools"
)
IGNORED = Finding(True, "IgnoreRequested", f"{names.LABEL_IGNORE}=true is set: the card stays out of every pool")
PREREQUISITES_MET = Finding(False, "PrerequisitesMet", "the API server serves NodeFeature")


def managed(node: Node, settings: ManagedNodes) -> Finding:
    """Whether the module keeps its hands off the node (ManagedDisabled)."""
    key = settings.label_key
    value = node.metadata.labels.get(key)
    if value in ("true", "false"):
        word = "does not manage" if value == "false" else "manages"
        return Finding(value == "false", "NodeLabel", f"label {key}={value}: the module {word} node {node.name}")
    odd = f"label {key}={value} is neither true nor false; " if value is not None else ""
    if settings.enabled_by_default:
        return Finding(False, "ManagedByDefault", f"{odd}managed by default; label {key}=false ends it")
    return Finding(True, "NotManaged", f"{odd}not managed by default; label {key}=true begins it")


def prerequisite(node: str, *, nfd: bool, refused: str = "") -> Finding:
    """Whether what the module builds on is there (PrerequisiteNotMet); `refused`: what was said against our rule."""
    if nfd and not refused:
        return PREREQUISITES_MET
    if nfd:
        message = (
            f"nodes get no labels from NodeFeatureRule {names.NODE_FEATURE_RULE}: the API server does not take it"
            f" ({refused[:TOLD_MAX]}); Node Feature Discovery 0.15 or newer is needed"
        )
        return Finding(True, "RuleRefused", message)
    message = (
        f"the cards of node {node} cannot be seen: the API server does not serve NodeFeature"
        " (nfd.k8s-sigs.io/v1alpha1); install Node Feature Discovery"
    )
    return Finding(True, "NodeFeatureNotServed", message)


def source(node: str) -> str:
    """Where the agent's report is."""
    return f"NodeFeature {names.NAMESPACE}/{names.agent_feature(node)}"


def card(node: str, card: DiscoveredCard) -> Finding:
    """A card with an address of which something is missing."""
    problem = card.problem
    if not problem:
        return COMPLETE
    if not card.is_vendor_served and card.hardware is not None:
        vendor = card.hardware.pci.vendor
        message = (
            f"card {card.address} is of {VENDORS[vendor].name if vendor in VENDORS else 'vendor ' + vendor}: the module"
            " serves cards of nvidia alone; it goes into no pool, and its node is not prepared for it"
        )
        return Finding(True, names.REASON_VENDOR_NOT_SERVED, message)
    tells = (
        f"the validator asks NVML for memory ({names.FEATURE_NVML}) once it runs on node {node}, as"
        f" kubectl describe gpunodeinventory {node} says"
        if "memory_mib" in card.missing
        else f"see the agent's log on node {node}"
    )
    message = f"card {problem} ({names.FEATURE_DEVICE} of {source(node)}); {tells}"
    return Finding(True, "AttributesMissing", message)


def lost(node: str, address: str, *, confirmed: bool, place: str = "") -> Finding:
    """A card that its node's report names no more; `place`: where a card with its uuid is now, as an inventoryID."""
    if confirmed:
        moved = f" and its uuid is that of {place} now" if place else ""
        message = (
            f"card {address} is gone from node {node} while it is in a pool or serves pods: a fresh report does not"
            f" name it{moved}; put it back, or remove its assignment to let it go"
        )
        return Finding(True, names.REASON_CARD_LOST, message)
    message = (
        f"{source(node)} does not name card {address}, and is not fresh and complete enough to say that it is gone"
    )
    return Finding(True, "AwaitingReport", message)


def gone(device: GPUDevice, since: str, until: str) -> Finding:
    """A card whose Node was deleted, and of which a person said something."""
    message = (
        f"Node {device.status.node_name} is gone since {since}; until {until} what was said of the card is kept for"
        f" {_uuid(device)} at its address on a Node of that name, and pools go without it;"
        f" kubectl delete gpudevice {device.name} forgets it at once"
    )
    return Finding(True, names.REASON_NODE_GONE, message)


def unrecognised(device: GPUDevice, until: str) -> Finding:
    """A card whose Node was deleted and is back, and that no report has named since."""
    message = (
        f"Node {device.status.node_name} was deleted and is back; until {until} the card waits for a report from its"
        f" present start that names {_uuid(device)} at its address, and pools go without it; a driver has to tell the"
        f" uuid. kubectl delete gpudevice {device.name} begins anew without what was said of the card"
    )
    return Finding(True, names.REASON_NOT_RECOGNISED, message)


def _uuid(device: GPUDevice) -> str:
    hardware = device.status.hardware
    return (hardware.uuid if hardware else None) or "its uuid"


def unseen(node: str) -> Finding:
    """A node while NFD is absent (InventoryIncomplete of the node): nothing can be said of its cards."""
    return Finding(None, "NodeFeatureNotServed", f"nothing tells which cards node {node} has; see PrerequisiteNotMet")


def not_labelled(node: str, nfd: str) -> Finding:
    """A node with cards that lacks the label by which the agent comes (InventoryIncomplete of the node)."""
    message = (
        f"NFD sees cards in node {node} ({nfd}), but label {names.LABEL_PRESENT}=true, which lets"
        f" {names.DISCOVER_DAEMONSET} onto it, is not set: what is on record is not looked after; see whether"
        f" NodeFeatureRule {names.NODE_FEATURE_RULE} is there and nfd-master applies it"
    )
    return Finding(True, "NotLabelled", message)


def silent(node: Node, report: NodeFeature | None, cards: int, nfd: str) -> Finding:
    """A node with cards of which no report speaks (InventoryIncomplete of the node); `nfd`: what NFD sees."""
    known = [f"{cards} known cards"] if cards else []
    known += [f"cards by label {names.LABEL_PRESENT}=true"] if names.LABEL_PRESENT in node.metadata.labels else []
    known += [f"cards that NFD sees ({nfd})"] if nfd else []
    what = f"has no feature {names.FEATURE_DEVICE}" if report else "is not there"
    message = (
        f"node {node.name} has {' and '.join(known)}, but {source(node.name)} {what};"
        f" look at {names.DISCOVER_DAEMONSET}'s pod there"
    )
    return Finding(True, "NoReport", message)


def outdated(node: str) -> Finding:
    """A node that has been started since its agent last reported (InventoryIncomplete of the node)."""
    message = (
        f"{source(node)} is from before node {node} was started last, so cards may have changed since; if this lasts,"
        f" look at {names.DISCOVER_DAEMONSET}'s pod there"
    )
    return Finding(True, names.REASON_REPORT_OUTDATED, message)


def node(name: str, problems: Sequence[str], aside: int = 0) -> Finding:
    """Whether every card of the node is known (InventoryIncomplete of the node), but for those `aside`."""
    if not problems:
        less = f"; {aside} {'is' if aside == 1 else 'are'} set aside: ignored, or not of nvidia" if aside else ""
        return Finding(False, "Complete", f"every card of node {name} is known{less}")
    shown = "; ".join(problems[:PROBLEMS_SHOWN])
    more = f"; and {len(problems) - PROBLEMS_SHOWN} more" if len(problems) > PROBLEMS_SHOWN else ""
    message = f"{shown}{more} ({names.FEATURE_DEVICE} of {source(name)}); these cards are not pooled, the others are"
    return Finding(True, "CardsIncomplete", message)
