"""Card models and their counts in NFD's own NodeFeatures, which have no addresses. Pure.

NFD's own reports cannot tell cards apart, and anybody may write a NodeFeature into a namespace
of theirs: they are compared with what the agent reports, and make no card.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.domain.catalogue import is_card

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controllers.api.nodefeature import NodeFeature, PciModel
    from controllers.inventory.reports.discovered_cards import DiscoveredCard

SHOWN = 4


@dataclass(frozen=True, slots=True)
class Model:
    """The cards of one model."""

    name: str
    """`vendor:device`."""
    least: int
    """How many cards there are if every virtual function that may be among them is there."""
    most: int
    """How many functions NFD sees."""


def read(reports: Iterable[NodeFeature]) -> tuple[Model, ...] | None:
    """The models that a node's worker sees, by name; None where nobody speaks of its bus.

    A second report of the same node is one left behind in another namespace, or a forged one:
    of several numbers the smallest is taken.
    """
    buses = [report.spec.features.instances.pci for report in reports]
    found = [_models(functions) for functions in buses if functions is not None]
    if not found:
        return None
    everywhere = sorted(set.intersection(*(set(models) for models in found)))
    return tuple(min((models[name] for models in found), key=lambda model: model.least) for name in everywhere)


def total(reports: Iterable[NodeFeature]) -> tuple[Model, ...]:
    """The models in all of a node's reports together, as nfd-master adds them up for its rules; by name."""
    found = _models(model for report in reports for model in report.spec.features.instances.pci or ())
    return tuple(found[name] for name in sorted(found))


def _models(functions: Iterable[PciModel]) -> dict[str, Model]:
    seen: Counter[str] = Counter()
    virtual: Counter[str] = Counter()
    for model in functions:
        if is_card(model.vendor, model.device, model.class_):
            name = f"{model.vendor}:{model.device}"
            seen[name] += model.count
            virtual[name] += model.virtual_functions
    return {name: Model(name, count - virtual[name], count) for name, count in seen.items()}


def unreported(models: Sequence[Model], cards: Iterable[DiscoveredCard]) -> list[str]:
    """The models of which the agent names fewer cards than NFD sees, as sentences.

    More is no contradiction: NFD looks once a minute, and a card that was plugged in is
    reported by the agent first.
    """
    named = Counter(f"{c.hardware.pci.vendor}:{c.hardware.pci.device}" for c in cards if c.hardware is not None)
    return [
        f"NFD sees {model.least} of {model.name} and the report names {named[model.name] or 'none'}"
        for model in models
        if named[model.name] < model.least
    ]


def describe(models: Sequence[Model]) -> str:
    """What NFD sees, in a few words: `8 of 10de:2330`; empty where it sees nothing."""
    words = [f"{model.least} of {model.name}" for model in models[:SHOWN]]
    return ", ".join([*words, "others"] if len(models) > SHOWN else words)
