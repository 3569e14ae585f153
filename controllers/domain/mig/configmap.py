"""ConfigMap `gpu-mig-layout-<node>`: a node's layout, for its MIG managers and for ourselves. Pure.

It carries the layout twice: as mig-parted's document, for people and tools; and by PCI address, for the MIG manager,
which makes the document that it applies out of that (see `document`). It is also our memory of which cards we turned
MIG on for. It belongs to its Node, and goes with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from controllers.api import names
from controllers.domain.mig.document import document, text
from controllers.domain.mig.layout import NodeLayout, PlannedCard
from controllers.domain.mig.records import CardLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.kube import Node

T = TypeVar("T")

COMPONENT = "mig-manager"


def configmap(node: Node, layout: NodeLayout) -> dict[str, Any] | None:
    """The ConfigMap as a whole object, without what names it; None where no card of the node is ours."""
    if not layout.cards:
        return None
    labels = {
        names.LABEL_HERITAGE: "deckhouse",
        names.LABEL_MODULE: names.MODULE,
        names.LABEL_COMPONENT: COMPONENT,
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.metadata.uid}
    found = document(layout)
    data = {
        names.MIG_CONFIG: text(found) if found else "",
        names.MIG_CARDS: json.dumps({card.address: _written(card) for card in layout.cards}, indent=1),
        names.MIG_VERSION: layout.version,
    }
    return {"metadata": {"labels": labels, "ownerReferences": [owner]}, "data": data}


def read(data: Mapping[str, str]) -> NodeLayout | None:
    """The layout in a ConfigMap's data; None where a foreign hand left none that can be read.

    It remembers what is ours, so a repaired ConfigMap is made from it whatever its other keys say. Who acts on the
    layout itself first compares its `version` with the ConfigMap's.
    """
    try:
        cards = json.loads(data[names.MIG_CARDS])
        return NodeLayout(tuple(_card(address, values) for address, values in cards.items()))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _written(card: PlannedCard) -> dict[str, Any]:
    found: dict[str, Any] = {
        "vendor": card.vendor,
        "device": card.device,
        "uuid": card.uuid,
        "index": card.index,
        "ours": card.ours,
        "asked": card.asked,
        "version": card.version,
    }
    if card.again:
        found |= {"boot": card.boot, "again": card.again}
    if card.used_since_failure:
        found["held"] = True
    if card.layout is not None:
        found |= {"enabled": card.layout.enabled, "instances": dict(sorted(card.layout.instances.items()))}
    return found


def _card(address: str, values: dict[str, Any]) -> PlannedCard:
    """Raises KeyError, TypeError or ValueError for what we never wrote."""
    layout = None
    if "enabled" in values:
        instances = {str(name): int(count) for name, count in values["instances"].items()}
        layout = CardLayout(_of(bool, values["enabled"]), instances)
    uuid, index = values["uuid"], values["index"]
    return PlannedCard(
        address,
        _of(str, values["vendor"]),
        _of(str, values["device"]),
        None if uuid is None else _of(str, uuid),
        None if index is None else _of(int, index),
        layout,
        _of(bool, values["ours"]),
        _of(str, values.get("asked", "")),
        _of(str, values.get("boot", "")),
        _of(int, values.get("again", 0)),
        _of(bool, values.get("held", False)),
    )


def _of(kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value
