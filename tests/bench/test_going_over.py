"""What the benchmark `takeover` counts can be wrong: each way is counted, and a node that goes over well is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controllers.api.kube import Node, Pod
from controllers.api.record import adapter
from controllers.runtime.store import Store
from reliability.bench.going_over import OURS, TEAM, Nodes, Pods
from sim import gpu_operator

THEIRS = gpu_operator.RESOURCE


class Seen:
    """What a watch shows, and what was counted of it."""

    def __init__(self) -> None:
        self.view: Any = SimpleNamespace(nodes=Store[Node]("Node"), pods=Store[Pod]("Pod"), client=None)
        self.pods = Pods(self.view, (1.0, 2.0))
        self.nodes = Nodes(self.view, self.pods)
        self._version = 0

    def _meta(self, name: str, **more: Any) -> dict[str, Any]:
        self._version += 1
        return {"name": name, "uid": f"u-{name}", "resourceVersion": str(self._version), **more}

    def node(self, **allocatable: int) -> None:
        keys = {"theirs": THEIRS, "ours": OURS}
        listed = {keys[name]: str(amount) for name, amount in allocatable.items()}
        body = {"metadata": self._meta("n"), "status": {"allocatable": listed}}
        self.view.nodes.on_watch_event(adapter(Node).validate_python(body))

    def pod(self, *, ready: bool = True, phase: str = "Running", deleted: bool = False, **meta: Any) -> None:
        body = gpu_operator.pod("x", "n")
        body["metadata"] = self._meta("x", namespace=TEAM, **meta)
        body["spec"]["nodeName"] = "n"
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        body["status"] = {"phase": phase, "conditions": conditions}
        self.view.pods.on_watch_event(adapter(Pod).validate_python(body), deleted=deleted)


def test_a_node_that_goes_over_has_a_gap_and_nothing_else() -> None:
    seen = Seen()
    for step in ({"theirs": 4}, {"theirs": 0}, {"theirs": 0, "ours": 4}):
        seen.node(**step)
    assert list(seen.nodes.gaps) == ["n"]
    assert 0 <= seen.nodes.gaps["n"] < 10
    assert (seen.nodes.taken, seen.nodes.doubled) == ([], 0)


def test_cards_that_two_plugins_offer_are_counted_once() -> None:
    seen = Seen()
    for step in ({"theirs": 4}, {"theirs": 4, "ours": 1}, {"theirs": 4, "ours": 4}):
        seen.node(**step)
    assert seen.nodes.doubled == 1


def test_a_card_that_is_taken_from_under_a_pod_is_counted_and_one_whose_user_is_done_is_not() -> None:
    for done in (False, True):
        seen = Seen()
        seen.pod()
        seen.pods.let_go |= {"x"} if done else set()
        seen.node(theirs=4)
        seen.node(theirs=0)
        assert seen.nodes.taken == ([] if done else ["n"])


@pytest.mark.parametrize(
    "ends",
    [
        {"deleted": True},
        {"phase": "Failed", "ready": False},
        {"ready": False},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_pod_that_does_not_run_on_is_counted_once(ends: dict[str, Any]) -> None:
    seen = Seen()
    seen.pod(ready=False, phase="Pending")
    seen.pod()
    seen.pod()
    assert seen.pods.ended == 0
    seen.pod(**ends)
    seen.pod(deleted=True)
    assert seen.pods.ended == 1


def test_a_pod_that_its_user_ends_is_not_counted() -> None:
    seen = Seen()
    seen.pod()
    seen.pods.let_go.add("x")
    seen.pod(deleted=True)
    assert seen.pods.ended == 0
