"""Which namespaces there are to ask about, and which texts may name, as pods and cards tell.

Namespaces of pods are real: the API server has them. Those that cards name are a node's word, which costs a question
for each viewer: a node that makes names up is believed `FEW` of them, and one more every `EACH` seconds. Of a namespace
that is not asked about nobody sees pods by name who may not see all.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from console.rights import namespaces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.meta import KubeObject

FEW: Final = 64
"""Namespaces that a node's cards may name at once, beside those that have pods with cards."""
EACH: Final = 30.0
"""Seconds after which a node may name another one."""


class Anything:
    """Stands for the names of all namespaces."""

    def __contains__(self, name: object) -> bool:
        """Whether it may be one."""
        return True


class _Node:
    """The namespaces that one node's cards name."""

    __slots__ = ("at", "believed", "left", "named", "waiting")

    def __init__(self, now: float) -> None:
        self.named: Counter[str] = Counter()
        """By how many of its cards."""
        self.believed: set[str] = set()
        self.waiting: set[str] = set()
        """Those of `named` that are not believed yet."""
        self.left, self.at = float(FEW), now

    def believes(self, now: float) -> bool:
        """Whether it may name one more, which is counted."""
        self.left, self.at = min(float(FEW), self.left + (now - self.at) / EACH), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Namespaces:
    """Namespaces by who named them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know none; `clock` in seconds."""
        self._clock = clock
        self._of_pods: Counter[str] = Counter()
        self._of_nodes: Counter[str] = Counter()
        """By how many nodes that are believed."""
        self._nodes: dict[str, _Node] = {}
        self._known: frozenset[str] | None = frozenset()
        self.named: Container[str] = frozenset()
        """All so far, since texts name pods that are gone; `Anything` where a node has named more than is believed."""

    @property
    def known(self) -> frozenset[str]:
        """The namespaces to ask about."""
        if self._known is None:
            self._known = frozenset(name for of in (self._of_pods, self._of_nodes) for name in of if name)
        return self._known

    def pod(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """A pod with cards came, changed or went."""
        self._count(self._of_pods, _namespaces(old), _namespaces(new))

    def card(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        """A card came, changed or went."""
        by_node: dict[str, list[set[str]]] = defaultdict(lambda: [set(), set()])
        for at, each in enumerate((old, new)):
            if each is not None and (found := namespaces_of(each)):
                by_node[each.status.node_name or ""][at] = found
        for name, (before, after) in by_node.items():
            if before != after:
                self._ingest_node(name, before, after)

    def look(self) -> bool:
        """Believe what had to wait, as far as it is time; whether there is a namespace more."""
        before = self.known
        for node in self._nodes.values():
            if node.waiting:
                self._believe(node)
        return self.known != before

    def _ingest_node(self, name: str, before: set[str], after: set[str]) -> None:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node(self._clock())
        node.named.subtract(before)
        node.named.update(after)
        gone = {each for each in before if node.named[each] <= 0}
        for each in gone:
            del node.named[each]
        node.waiting = (node.waiting | (after - node.believed)) - gone
        self._count(self._of_nodes, gone & node.believed, set())
        node.believed -= gone
        self._believe(node)

    def _believe(self, node: _Node) -> None:
        for each in sorted(node.waiting):
            if each in self._of_pods or node.believes(self._clock()):
                node.waiting.discard(each)
                node.believed.add(each)
                self._count(self._of_nodes, set(), {each})
        if node.waiting:
            self.named = Anything()

    def _count(self, of: Counter[str], less: set[str], more: set[str]) -> None:
        changed = {each for each in more if each not in of}
        of.subtract(less)
        of.update(more)
        gone = {each for each in less if of[each] <= 0}
        for each in gone:
            del of[each]
        if changed or gone:
            self._known = None
        if isinstance(self.named, frozenset) and not changed <= self.named:
            self.named |= changed


def _namespaces(pod: KubeObject | None) -> set[str]:
    return {pod.metadata.namespace} if pod is not None and pod.metadata.namespace else set()
