"""What people decided, as a file from which a cluster is made anew: pools, drivers, settings, and marks of cards.

Pure. The file is a List that holds ModuleConfig, GPUPools, GPUDrivers and GPUDevices; of a GPUDevice only what
`card_marks` keeps. Secrets and ConfigMaps that drivers name are not in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import GPUDRIVER, GPUPOOL, MODULECONFIG, Resource
from controllers.explain import card_marks, manifests
from controllers.explain.faults import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpudriver import GPUDriver
    from controllers.explain.card_marks import CardMarks

KEPT: Final = (MODULECONFIG, GPUPOOL, GPUDRIVER)
"""Kinds of which the spec is kept, in the order in which they are written: cards are assigned to pools."""
_COMMANDS: Final = frozenset({names.RESUME, "kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations that are obeyed once, or that belong to the cluster they were in."""


@dataclass(slots=True)
class Backup:
    """What a file holds."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    """ModuleConfig, GPUPools and GPUDrivers, in the order in which they are written."""
    cards: list[CardMarks] = field(default_factory=list)


def backed_up(raws: Iterable[Mapping[str, Any]], devices: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The List to write of these objects, and of what was said of these cards."""
    kinds = [resource.kind for resource in KEPT]
    items = sorted((_bare(raw) for raw in raws), key=lambda raw: (kinds.index(raw["kind"]), raw["metadata"]["name"]))
    return {"apiVersion": "v1", "kind": "List", "items": [*items, *card_marks.exported(devices)["items"]]}


def _bare(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what a cluster adds to it."""
    meta = raw["metadata"]
    kept: dict[str, Any] = {"name": meta["name"]}
    if labels := meta.get("labels"):
        kept["labels"] = dict(labels)
    if annotations := {k: v for k, v in (meta.get("annotations") or {}).items() if k not in _COMMANDS}:
        kept["annotations"] = annotations
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": kept, "spec": raw.get("spec") or {}}


def read(text: str, source: str) -> Backup:
    """What a file holds; raises UsageError."""
    made = Backup()
    cards: list[dict[str, Any]] = []
    try:
        for raw in manifests.documents(text, source):
            if resource_of(raw) is not None:
                made.objects.append(_bare(raw))
            else:
                cards.append(raw)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{source} is not what kubectl gpu backup writes: {' '.join(str(error).split())[:200]}"
        ) from error
    made.cards = card_marks.marks_of(cards, source)
    made.objects.sort(key=lambda raw: [resource.kind for resource in KEPT].index(raw["kind"]))
    return made


def resource_of(raw: Mapping[str, Any]) -> Resource | None:
    """The kind of an object of which the spec is kept; None for another."""
    found = ((raw["kind"], raw["apiVersion"]) == (each.kind, each.api_version) for each in KEPT)
    return next((each for each, same in zip(KEPT, found, strict=True) if same), None)


def located(cards: Sequence[CardMarks], devices: Iterable[GPUDevice]) -> list[CardMarks]:
    """The same of the cards where they are now: a card is known again by its uuid, whatever its node is called.

    Where several cards have one uuid, each stays that of its place.
    """
    there = [(device.status.hardware.uuid, device.name) for device in devices if device.status.hardware is not None]
    found = Counter(uuid for uuid, _ in there)
    asked = Counter(card.uuid for card in cards)
    places = {uuid: name for uuid, name in there if uuid is not None and found[uuid] == 1}
    return [replace(card, name=places[card.uuid]) if card.uuid in places and asked[card.uuid] == 1 else card
            for card in cards]  # fmt: skip


def beside(drivers: Iterable[GPUDriver]) -> list[str]:
    """Secrets and ConfigMaps of the module's namespace that drivers name, and that no backup holds."""
    made: set[str] = set()
    for driver in drivers:
        spec = driver.spec
        maps = (spec.build.repositories.config_map, spec.build.certificates.config_map)
        secrets = (spec.build.secret_env, spec.licensing.secret_name, *spec.image.pull_secrets)
        made |= {f"ConfigMap {name}" for name in maps if name} | {f"Secret {name}" for name in secrets if name}
    return sorted(made)
