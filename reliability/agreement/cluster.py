"""The nodes and the pods on them as the API server has them, and what the verdicts say of one more pod. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.whole_pod import WholePod
from controllers.domain.verdict.demands import Demands, NodeUse
from controllers.domain.verdict.nodes import node_verdict
from controllers.domain.verdict.records import NodeVerdict
from reliability.agreement.records import Expected

Json = dict[str, Any]
Rule = Callable[[Demands, Node, NodeUse | None], NodeVerdict]
"""What is compared with the scheduler."""
_WHOLE: Final = frozenset({"volumes", "resource claims"})


@dataclass(slots=True)
class Cluster:
    """Stored nodes and pods, as JSON: what a case keeps."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    """Those that are bound, by name."""
    _pods: dict[str, WholePod] = field(default_factory=dict)
    _read: dict[str, tuple[Node, NodeUse]] = field(default_factory=dict)

    def put_node(self, stored: Json) -> None:
        """Take a node as it was stored."""
        name = stored["metadata"]["name"]
        self.nodes[name] = stored
        self._read.pop(name, None)

    def put_pod(self, stored: Json) -> None:
        """Take a bound pod as it was stored."""
        name = stored["metadata"]["name"]
        self.pods[name], self._pods[name] = stored, _pod(stored)
        self._read.pop(stored["spec"]["nodeName"], None)

    def drop_pod(self, name: str) -> None:
        """A pod is gone."""
        del self.pods[name]
        self._read.pop(self._pods.pop(name).node or "", None)

    def expect(self, pod: Json, rule: Rule = node_verdict) -> Expected:
        """What the verdicts say of a stored pod."""
        demands = Demands.of(_pod(pod), others=self._pods.values())
        verdicts = [rule(demands, *self._known(name)) for name in self.nodes]
        return Expected(
            frozenset(one.node for one in verdicts if one.reason == "Fits"),
            frozenset(one.node for one in verdicts if one.reason == "Unknown"),
            histogram(verdicts),
            is_whole=_WHOLE.isdisjoint(demands.unseen),
        )

    def _known(self, name: str) -> tuple[Node, NodeUse]:
        found = self._read.get(name)
        if found is None:
            use = NodeUse.of(pod for pod in self._pods.values() if pod.node == name)
            found = adapter(Node).validate_python(self.nodes[name]), use
            self._read[name] = found
        return found


def histogram(verdicts: Iterable[NodeVerdict]) -> Counter[str]:
    """The scheduler's words and of how many nodes it says them, as its event FailedScheduling does."""
    return Counter(message for verdict in verdicts for message in verdict.messages)


def _pod(stored: Json) -> WholePod:
    return adapter(WholePod).validate_python(stored)
