"""The law of the fuses, on many histories: never more than the share goes by itself, and nobody is held for ever."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.bootstrap import plan
from controllers.bootstrap.health.view import CardNews, Telemetry
from controllers.domain.fuse import limit
from tests.bootstrap.world import LIMITS, Cluster, device_name
from tests.kit.cluster import ConflictError

if TYPE_CHECKING:
    from controllers.bootstrap.fuses import Fuses
    from controllers.bootstrap.observe import World

NODES = [f"worker-{number}" for number in range(6)]
READY = Cluster()
for _node in NODES:
    READY.prepare(_node)
    READY.pooled("a", on=_node)
    READY.hear("well", on=_node)
    READY.step(on=_node)

nodes = st.sampled_from(NODES)
histories = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["break", "mend", "plan", "plan"]), nodes),
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
        self.cluster.memory, self.cluster.answers = dict(READY.memory), dict(READY.answers)
        self.restart()

    def restart(self) -> None:
        self.world: World = self.cluster.view()
        self.fuses: Fuses = self.cluster.fuses(self.world)

    def refresh(self) -> None:
        fresh = self.cluster.view()
        for name in ("nodes", "features", "inventories", "devices", "pods"):
            getattr(self.world, name).replace(list(getattr(fresh, name)), 1)

    def plan(self, node: str) -> None:
        cluster, now = self.cluster, self.cluster.now
        cards = {one.name: CardNews(cluster.memory[one.name]) for one in self.world.cards(node)}
        seen = self.world.node(node, Telemetry(cluster.answers[node], now, cards=cards))
        found = plan.assess(seen, cluster.settings, now)
        made = plan.plan(seen, found, self.fuses.ask(seen, found), LIMITS, now)
        with suppress(ConflictError):  # it is planned anew
            cluster.execute(made.actions, names.MANAGER_BOOTSTRAP)

    def happen(self, what: str, node: str, *, card: bool) -> None:
        match what:
            case "break" if card:
                self.cluster.hear("xid", on=node)
            case "mend" if card:
                self.cluster.hear("well", on=node, times=20)
            case "break":
                self.cluster.report(driver="", on=node)
            case "mend":
                self.cluster.report(on=node)
            case "plan":
                self.plan(node)
            case "refresh":
                self.refresh()
            case "restart":
                self.restart()

    def out(self, *, card: bool) -> set[str]:
        """Nodes, or nodes of cards, that are out of service."""
        if card:
            return {node for node in NODES if (self.cluster.faulted(node) or ("",))[0] == "True"}
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


def lives(history: list[tuple[str, str]], percent: int, *, card: bool) -> Process:
    """Live through a history, and look after each event that the share is kept."""
    process = Process(percent)
    for what, node in history:
        process.happen(what, node, card=card)
        assert len(process.out(card=card)) <= limit(len(NODES), percent)
    return process


def broken(process: Process, *, card: bool) -> set[str]:
    """Nodes that have no driver, or whose cards have a fault."""
    if card:
        return {node for node in NODES if process.cluster.memory[device_name(node)].fault is not None}
    reports = {node: process.cluster.objects["NodeFeature", _key(node)] for node in NODES}
    return {node for node in NODES if names.FEATURE_DRIVER not in reports[node]["spec"]["features"]["attributes"]}


def _key(node: str) -> str:
    return f"{names.NAMESPACE}/{names.agent_feature(node)}"


@settings(max_examples=60, deadline=None)
@given(histories, st.sampled_from([1, 20, 34, 50, 100]), st.booleans())
def test_the_share_is_kept_whatever_the_caches_know(history: list[Any], percent: int, card: bool) -> None:
    process = lives(history, percent, card=card)
    process.settle()
    out, want = process.out(card=card), broken(process, card=card)

    assert out <= want  # who is mended is back
    assert len(out) == min(len(want), limit(len(NODES), percent))  # and nobody is held while there is room
