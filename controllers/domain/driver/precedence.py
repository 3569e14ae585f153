"""Which of several GPUDrivers has a node: the highest priority; of equal ones who has it, the older, the name. Pure.

Nobody waits for a conflict to be solved: each node has one driver at any time, and an overlap is told, not refused.
Compiled once for a set of drivers: a node is compared with those alone whose rarest label it has, and nodes of one kind
share the answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.domain.catalogue.drivers import VENDOR
from controllers.domain.selectors.match import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudriver import GPUDriver, TargetDevices
    from controllers.domain.driver.node import Card

ANSWERS_MAX: Final = 4096
"""Kinds of nodes whose answer is remembered."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The drivers that match a node."""

    winner: str | None = None
    """Who has the node; None where no driver matches it."""
    losers: tuple[str, ...] = ()
    """Who else matches it, the next in line first."""
    equals: tuple[str, ...] = ()
    """Losers with the winner's priority: only age, name or possession decides between them."""


class Precedence:
    """The drivers of a cluster, ready to be asked about nodes."""

    __slots__ = ("_answers", "_by_label", "_keys", "_others", "compared")

    def __init__(self, drivers: Iterable[GPUDriver]) -> None:
        """Sort the drivers by rank and by what a node must have; one that is being deleted has no nodes."""
        ranked = sorted((d for d in drivers if d.metadata.deletion_timestamp is None), key=_rank)
        common = Counter(label for driver in ranked for label in _match_labels(driver))
        self._by_label: dict[tuple[str, str], list[tuple[int, GPUDriver]]] = defaultdict(list)
        """By that label of the driver's selector which fewest others have, with its place among all."""
        self._others: list[tuple[int, GPUDriver]] = []
        for place, driver in enumerate(ranked):
            rarest = min(_match_labels(driver), key=lambda label: (common[label], label), default=None)
            (self._others if rarest is None else self._by_label[rarest]).append((place, driver))
        self._keys = tuple(sorted({key for driver in ranked for key in _label_keys(driver)}))
        self._answers: dict[object, tuple[GPUDriver, ...]] = {}
        self.compared = 0
        """How many times a node was compared with a driver: what the speed depends on."""

    def of(self, labels: Mapping[str, str], cards: tuple[Card, ...], holder: str | None = None) -> Ranking:
        """Who has a node with these labels and cards; `holder` is the driver that has it already.

        A node without a card of NVIDIA's is nobody's, whatever a target selects.
        """
        found = self._matching(labels, cards) if cards else ()
        if not found:
            return Ranking()
        best = found[0].spec.priority
        top = [driver.metadata.name for driver in found if driver.spec.priority == best]
        winner = holder if holder in top else top[0]
        return Ranking(
            winner,
            tuple(driver.metadata.name for driver in found if driver.metadata.name != winner),
            tuple(name for name in top if name != winner),
        )

    def _matching(self, labels: Mapping[str, str], cards: tuple[Card, ...]) -> tuple[GPUDriver, ...]:
        """The drivers that match, the best first."""
        seen = tuple((key, labels[key]) for key in self._keys if key in labels)
        kinds = frozenset(cards)
        answer = self._answers.get((seen, kinds))
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            candidates = [*self._others, *(one for label in seen for one in self._by_label.get(label, ()))]
            self.compared += len(candidates)
            found = sorted((place, driver) for place, driver in candidates if _takes(driver, labels, kinds))
            answer = self._answers[seen, kinds] = tuple(driver for _, driver in found)
        return answer


def _rank(driver: GPUDriver) -> tuple[int, str, str]:
    return -driver.spec.priority, driver.metadata.creation_timestamp or "", driver.metadata.name


def _match_labels(driver: GPUDriver) -> tuple[tuple[str, str], ...]:
    selector = driver.spec.target.node_selector
    return tuple(selector.match_labels.items()) if selector is not None else ()


def _label_keys(driver: GPUDriver) -> Iterable[str]:
    selector = driver.spec.target.node_selector
    if selector is not None:
        yield from selector.match_labels
        yield from (wanted.key for wanted in selector.match_expressions)


def _takes(driver: GPUDriver, labels: Mapping[str, str], cards: frozenset[Card]) -> bool:
    target = driver.spec.target
    return matches(target.node_selector, labels) and has_device(target.devices, cards)


def has_device(wanted: TargetDevices | None, cards: Iterable[Card]) -> bool:
    """Whether one of the cards is such a device; every key that is given must match the same card."""
    if wanted is None or not (wanted.families or wanted.pci_ids or wanted.products):
        return True
    families, ids, products = (
        {text.lower() for text in texts} for texts in (wanted.families, wanted.pci_ids, wanted.products)
    )
    return any(
        (not families or card.family in families)
        and (not ids or f"{VENDOR}:{card.device}" in ids)
        and (not products or not products.isdisjoint(card.products))
        for card in cards
    )
