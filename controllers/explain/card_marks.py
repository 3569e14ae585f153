"""What people said of cards, as a file says it, and whether it may be said of the cards that are there. Pure.

The file is a List of GPUDevices, as `kubectl get -o yaml` prints one, less what the module writes. A card has to be the
one that was spoken of: its name is its place, and what tells it from another card in that place is its uuid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import GPUDEVICE
from controllers.explain import manifests
from controllers.explain.faults import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice

OURS: Final = frozenset({names.LABEL_NODE, names.LABEL_VENDOR, names.LABEL_PRODUCT, names.LABEL_FAMILY})
"""Labels that the inventory keeps; people's own are what selectors may go by."""
TOLD: Final = frozenset({names.ASSIGNMENT, names.LABEL_IGNORE})
"""Annotations that tell the module something that lasts."""
KNOWN: Final = ("uuid", "product", "pci")
"""What is told of the card itself: by the first it is known again; the last kubectl wants where there is hardware."""


@dataclass(frozen=True, slots=True)
class CardMarks:
    """What was said of one card."""

    name: str
    uuid: str | None
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def lacking(self, device: GPUDevice) -> dict[str, dict[str, str]]:
        """What of it the card does not carry: a part of its metadata."""
        pairs = (
            ("annotations", self.annotations, device.metadata.annotations),
            ("labels", self.labels, device.metadata.labels),
        )
        missing = {part: {k: v for k, v in wanted.items() if has.get(k) != v} for part, wanted, has in pairs}
        return {part: keys for part, keys in missing.items() if keys}

    def replacing(self, device: GPUDevice) -> dict[str, tuple[str, str]]:
        """What the card says otherwise: value there and value of the file, by key."""
        has = {**device.metadata.labels, **device.metadata.annotations}
        lacking = (pair for keys in self.lacking(device).values() for pair in keys.items())
        return {key: (has[key], value) for key, value in sorted(lacking) if key in has}

    @staticmethod
    def steps(lacking: Mapping[str, Mapping[str, str]]) -> list[dict[str, dict[str, str]]]:
        """The writes in their order: the assignment last, since selectors go by labels, and it may be refused.

        A card that is to be ignored is ignored then, whatever becomes of its assignment.
        """
        rest = {part: {k: v for k, v in keys.items() if k != names.ASSIGNMENT} for part, keys in lacking.items()}
        pool = lacking.get("annotations", {}).get(names.ASSIGNMENT)
        first = {part: keys for part, keys in rest.items() if keys}
        return [*([first] if first else []), *([{"annotations": {names.ASSIGNMENT: pool}}] if pool else [])]

    def objection(self, device: GPUDevice | None) -> str | None:
        """Why it cannot be said of the card that is there; None where it can."""
        if device is None:
            return "there is no such card (yet): its node's agent has to report it, in the same place"
        found = device.status.hardware.uuid if device.status.hardware else None
        if self.uuid is None:
            return "the file does not tell its uuid, so it may be another card: kubectl gpu assign names it by hand"
        if found is None:
            return f"its uuid is not known yet, and {self.uuid} is expected: a driver on its node has to tell it"
        if found != self.uuid:
            return f"another card is in its place: {self.uuid} is expected, {found} found. Confirm that one by itself"
        return None


def exported(raws: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The List to write of these GPUDevices: those of which something was said."""
    items = [_item(raw, said) for raw in raws if (said := _of(raw)) is not None]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _item(raw: dict[str, Any], said: CardMarks) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": said.name}
    meta |= {"labels": dict(said.labels)} if said.labels else {}
    meta |= {"annotations": dict(said.annotations)} if said.annotations else {}
    status = raw.get("status") or {}
    hardware = {key: value for key, value in (status.get("hardware") or {}).items() if key in KNOWN}
    known = {"nodeName": status.get("nodeName"), "inventoryID": status.get("inventoryID"), "hardware": hardware}
    # An API server ignores a status that is applied with its object; it is there to tell the card from others.
    about = {"apiVersion": GPUDEVICE.api_version, "kind": GPUDEVICE.kind, "metadata": meta}
    return about | {"status": {key: value for key, value in known.items() if value}}


def _of(raw: dict[str, Any]) -> CardMarks | None:
    """What people said of a card; None where that is nothing."""
    meta, hardware = raw.get("metadata") or {}, (raw.get("status") or {}).get("hardware") or {}
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k in TOLD and v}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k not in OURS}
    return CardMarks(meta["name"], hardware.get("uuid"), annotations, labels) if annotations or labels else None


def read(text: str, source: str) -> list[CardMarks]:
    """What a file says, by the cards' names; raises UsageError."""
    return marks_of(manifests.documents(text, source), source)


def marks_of(objects: Iterable[dict[str, Any]], source: str) -> list[CardMarks]:
    """What the GPUDevices of a file say, by the cards' names; raises UsageError."""
    try:
        found = {said.name: said for raw in objects if (said := _of(_expected(raw))) is not None}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{source} is not what kubectl gpu export writes: {' '.join(str(error).split())[:200]}"
        ) from error
    return [said for _, said in sorted(found.items())]


def _expected(raw: dict[str, Any]) -> dict[str, Any]:
    if raw["kind"] != GPUDEVICE.kind or raw["apiVersion"] != GPUDEVICE.api_version:
        msg = f"it holds a {raw['kind']} ({raw['apiVersion']}), and only GPUDevices are expected"
        raise ValueError(msg)
    return raw
