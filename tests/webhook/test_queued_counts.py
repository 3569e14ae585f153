"""How many pods wait behind our gate, by pool and namespace, as the cache of pods changes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.tenant import GATES_KEPT, TenantPod
from tests.kit import pods
from tests.webhook import world
from webhook.caches.pending_pods import PendingPods
from webhook.caches.stores import Stores

OURS, QUOTA = {"name": names.CARDS_GATE}, {"name": "example.com/quota"}


class Waiting:
    """The counts, with a cache of pods that a test changes."""

    def __init__(self) -> None:
        self.stores: Stores = world.stores()
        self.pending = PendingPods(self.stores.pods, self.stores.devices, lambda: 15.0)
        self.version = 0

    def put(
        self, name: str, *gates: dict[str, str], pool: str = "a", namespace: str = "team", meta: Any = None, **more: Any
    ) -> TenantPod:
        self.version += 1
        known = {"namespace": namespace, "resourceVersion": str(self.version), **(meta or {})}
        found = pods.pod(name, pool=pool, meta=known, schedulingGates=list(gates), **more)
        self.stores.pods.on_watch_event(found)
        return found

    def delete(self, pod: TenantPod) -> None:
        self.stores.pods.on_watch_event(pod, deleted=True)

    def of(self, pool: str = "a", namespace: str = "team") -> tuple[int, int]:
        return self.pending.queued(pool, namespace)

    @property
    def kept(self) -> tuple[set[str], set[str]]:
        """Pools of which counts are kept."""
        return set(self.pending._queued), set(self.pending._waiting)


def test_pods_are_counted_by_pool_and_namespace() -> None:
    waiting = Waiting()
    waiting.put("p1", OURS)
    waiting.put("p2", OURS, namespace="other")
    waiting.put("p3", OURS, pool="b")
    waiting.put("p4")
    assert waiting.of() == (2, 1)
    assert waiting.of(namespace="other") == (2, 1)
    assert waiting.of(namespace="third") == (2, 0)
    assert waiting.of("b") == (1, 1)
    assert waiting.of("c") == (0, 0)


def test_one_that_waits_for_others_too_counts_for_its_namespace_alone() -> None:
    waiting = Waiting()
    waiting.put("p", QUOTA, OURS)
    assert waiting.of() == (0, 1)
    waiting.put("p", OURS)
    assert waiting.of() == (1, 1)
    waiting.put("p", OURS, QUOTA)
    assert waiting.of() == (0, 1)
    waiting.put("p", QUOTA)
    assert waiting.of() == (0, 0)


def test_ours_counts_however_many_others_come_before_it() -> None:
    waiting = Waiting()
    waiting.put("p", *({"name": f"example.com/{number}"} for number in range(2 * GATES_KEPT)), OURS)
    assert waiting.of() == (0, 1)


def test_one_that_is_released_ends_or_goes_is_counted_no_more() -> None:
    waiting = Waiting()
    for end in (
        lambda: waiting.put("p"),
        lambda: waiting.put("p", nodeName="n1"),
        lambda: waiting.put("p", OURS, phase="Failed"),
        lambda: waiting.put("p", OURS, meta={"deletionTimestamp": "2027-01-01T00:00:00Z"}),
        lambda: waiting.delete(waiting.put("p", OURS)),
    ):
        waiting.put("p", OURS)
        waiting.put("q", OURS, QUOTA)
        assert waiting.of() == (1, 2)
        end()
        assert waiting.of() == (0, 1)
        waiting.put("q")
        assert (waiting.of(), waiting.kept) == ((0, 0), (set(), set()))


def test_nothing_is_kept_for_pools_that_nobody_waits_for() -> None:
    waiting = Waiting()
    assert waiting.of("never heard of") == (0, 0)
    waiting.put("p", OURS, pool="b")
    waiting.put("p", OURS, pool="c")
    assert waiting.of("b") == (0, 0)
    assert waiting.kept == ({"c"}, {"c"})
    waiting.put("p", pool="c")
    assert waiting.kept == (set(), set())


steps = st.tuples(
    st.sampled_from(["p", "q", "r"]),
    st.lists(st.sampled_from([names.CARDS_GATE, "a", "b"]), max_size=3, unique=True),
    st.sampled_from("ab"),
    st.sampled_from(["team", "other"]),
    st.sampled_from(["Pending", "Pending", "Succeeded"]),
    st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=20))
def test_counts_are_those_of_the_pods_that_are_there(script: list[Any]) -> None:
    waiting = Waiting()
    there: dict[tuple[str, str], tuple[list[str], str]] = {}
    for name, gates, pool, namespace, phase, goes in script:
        made = waiting.put(name, *({"name": gate} for gate in gates), pool=pool, namespace=namespace, phase=phase)
        there[namespace, name] = (gates if phase == "Pending" else [], pool)
        if goes:
            waiting.delete(made)
            del there[namespace, name]
        for of in "ab":
            gated = {key: gates for key, (gates, home) in there.items() if home == of and names.CARDS_GATE in gates}
            for team in ("team", "other"):
                alone = sum(gates == [names.CARDS_GATE] for gates in gated.values())
                assert waiting.of(of, team) == (alone, sum(space == team for space, _ in gated))
    assert waiting.kept[0] == {pool for gates, pool in there.values() if names.CARDS_GATE in gates}
    assert waiting.kept[1] == waiting.kept[0]
