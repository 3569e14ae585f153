"""The laws of the budget, on many histories.

Never do more than the share of the nodes leave for their silence, those that are shown to be bad counted; those leave
whatever the share; and nobody is held for ever.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.bootstrap.readiness.node_pass import pass_over_node
from controllers.bootstrap.telemetry_records import Heartbeat, NodeTelemetry
from controllers.domain.disruption_budget import limit
from tests.bootstrap.world import LIMITS, Cluster
from tests.kit.cluster import ConflictError

if TYPE_CHECKING:
    from controllers.bootstrap.readiness.disruption_budget import DisruptionBudget
    from controllers.bootstrap.world import World

NODES = [f"worker-{number}" for number in range(6)]
READY = Cluster()
for _node in NODES:
    READY.prepare(_node)
    READY.pooled("a", on=_node)

nodes = st.sampled_from(NODES)
histories = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["mute", "answer", "break", "mend", "plan", "plan"]), nodes),
        st.tuples(st.sampled_from(["refresh", "restart"]), st.just("")),
    ),
    max_size=40,
)


class Process:
    """A controller over a fleet: it sees what its caches were last told, and remembers whom it let go."""

    def __init__(self, percent: int) -> None:
        self.cluster = Cluster()
        self.cluster.settings = parse_settings({"health": {"maxUnavailablePercent": percent}})
        for name, obj in READY.objects.items():
            self.cluster.objects[name] = _copy(obj)
        self.cluster.answers = dict(READY.answers)
        self.broken: set[str] = set()
        self.restart()

    def restart(self) -> None:
        self.world: World = self.cluster.view()
        self.budget: DisruptionBudget = self.cluster.budget(self.world)

    def refresh(self) -> None:
        fresh = self.cluster.view()
        for name in ("nodes", "features", "inventories", "devices", "pods"):
            getattr(self.world, name).replace(list(getattr(fresh, name)), 1)

    def plan(self, node: str) -> None:
        cluster, now = self.cluster, self.cluster.now
        seen = self.world.node(node, NodeTelemetry(Heartbeat(now, cluster.answers[node])))
        made = pass_over_node(
            *(seen, LIMITS, cluster.settings, now), budget=self.budget, restarts=cluster.restarts(self.world)
        )
        with suppress(ConflictError):  # it is planned anew
            cluster.execute(made.plan.actions, names.MANAGER_BOOTSTRAP)

    def happen(self, what: str, node: str) -> None:
        match what:
            case "mute" | "answer":
                self.cluster.answers[node] = what == "answer"
            case "break":
                self.cluster.report(driver="", on=node)
                self.broken.add(node)
            case "mend":
                self.cluster.report(on=node)
                self.broken.discard(node)
            case "plan":
                self.plan(node)
            case "refresh":
                self.refresh()
            case "restart":
                self.restart()

    @property
    def mute(self) -> set[str]:
        """Nodes of which nothing is known but their silence."""
        return {node for node in NODES if not self.cluster.answers[node]} - self.broken

    @property
    def out(self) -> set[str]:
        """Nodes that are out of service."""
        return {node for node in NODES if self.cluster.pooling(node)[0] != "True"}

    def settle(self) -> None:
        for _ in range(2 * len(NODES)):
            self.refresh()
            for node in NODES:
                self.plan(node)


def _copy(obj: Any) -> Any:
    if isinstance(obj, dict):
        return {key: _copy(value) for key, value in obj.items()}
    return [_copy(value) for value in obj] if isinstance(obj, list) else obj


def lives(history: list[tuple[str, str]], percent: int) -> Process:
    """Live through a history, and look after each event whom it took out for its silence alone."""
    process = Process(percent)
    for what, node in history:
        before = process.out
        process.happen(what, node)
        left = process.out - before
        reasons = {process.cluster.pooling(one)[1] for one in left}
        assert "HeartbeatMissing" not in reasons or len(process.out) <= limit(len(NODES), percent)
    return process


@settings(max_examples=100, deadline=None)
@given(histories, st.sampled_from([1, 20, 34, 50, 100]))
def test_silence_keeps_the_share_and_evidence_goes_whatever_the_caches_know(history: list[Any], percent: int) -> None:
    process = lives(history, percent)
    process.settle()

    assert process.broken <= process.out <= process.broken | process.mute  # who is mended is back
    # Nobody is held while there is room; whom silence took out stays out though others are shown to be bad later.
    room = min(len(process.mute | process.broken), limit(len(NODES), percent))
    assert len(process.out) >= max(room, len(process.broken))
