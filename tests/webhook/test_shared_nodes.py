"""A node whose cards are in several pools: one pool's taints take the node from no other pool's pods."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controllers.api import bounds, names
from tests.kit import objects
from tests.kit.objects import NOW
from tests.webhook import world
from webhook.caches.snapshot import Snapshot
from webhook.caches.stores import Stores
from webhook.decision.verdict import Placed, Queued, Verdict

THEIRS = {"key": "dedicated", "value": "ta", "effect": "NoSchedule"}
TOLERATED = {"key": "dedicated", "operator": "Equal", "value": "ta", "effect": "NoSchedule"}
PRESSURE = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}


class Shared:
    """Node n1 with a card of pool ta, which wants a taint, and one of tb; and node n2 with one of tc."""

    def __init__(self, *wanted: dict[str, Any]) -> None:
        self.stores: Stores = world.stores()
        self.snapshot: Snapshot = world.snapshot(self.stores)
        self.version = 0
        self.pool("ta", *wanted or (THEIRS,))
        self.pool("tb")
        self.pool("tc")
        self.node("n1", *wanted or (THEIRS,), pools=("ta", "tb"))
        self.node("n2", pools=("tc",))
        for number, (pool, node) in enumerate({"ta": "n1", "tb": "n1", "tc": "n2"}.items()):
            self.card(node, number, pool)

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    def pool(self, name: str, *taints: dict[str, Any], **scheduling: Any) -> None:
        meta = {"resource_version": self._next(), "creation_timestamp": f"2026-01-01T00:00:{self.version:02}Z"}
        self.stores.pools.on_watch_event(
            objects.pool(name, meta=meta, scheduling={"taints": list(taints), **scheduling})
        )

    def node(self, name: str, *taints: dict[str, Any], pools: tuple[str, ...], by: str = "ta") -> None:
        """The node with these taints, which are a pool's; `by` nobody, where it is empty."""
        noted = orjson.dumps([{"value": "", **taint, "pool": by} for taint in taints if by]).decode()
        found = objects.node(
            name,
            labels=dict.fromkeys(map(names.pool_node_label, pools), "true"),
            taints=list(taints),
            meta={"resource_version": self._next(), "annotations": {names.POOL_TAINTS: noted}},
        )
        self.stores.nodes.on_watch_event(found)

    def card(self, node: str, number: int, pool: str | None) -> None:
        meta = {"name": f"{node}-{number}", "resource_version": self._next()}
        self.stores.devices.on_watch_event(objects.card(node, number, pool=pool, meta=meta))

    def judged(self, pool: str, **spec: Any) -> Verdict:
        return world.decided(world.pod(pool=pool, **spec), world.Known.of(self.stores, self.snapshot, pool))

    def tolerations(self, pool: str) -> list[dict[str, Any]]:
        """Those that a pod of the pool gets."""
        verdict = self.judged(pool)
        assert isinstance(verdict, Placed), verdict
        found = [op["value"] for op in verdict.patch if op["path"] == "/spec/tolerations"]
        return found[0] if found else []

    def free(self, pool: str) -> int:
        return sum(shelf.free for shelf in self.snapshot.view(pool, "team", NOW).capacities)


def test_pods_tolerate_what_the_pools_beside_theirs_want() -> None:
    shared = Shared()
    assert shared.tolerations("tb") == [TOLERATED]
    assert shared.free("tb") == 1


def test_pods_of_pools_on_other_nodes_do_not() -> None:
    shared = Shared()
    assert shared.tolerations("tc") == []
    shared.card("n2", 5, "ta")
    assert shared.tolerations("tc") == [TOLERATED]
    shared.card("n2", 5, None)
    assert shared.tolerations("tc") == []


def test_they_do_before_the_taint_is_there_and_no_longer_than_it_is_wanted() -> None:
    shared = Shared()
    shared.node("n1", pools=("ta", "tb"))
    assert shared.tolerations("tb") == [TOLERATED]
    shared.pool("ta")
    assert shared.tolerations("tb") == []


def test_where_two_pools_want_other_values_of_a_taint_both_are_tolerated() -> None:
    """The older pool's stands on the node."""
    shared = Shared()
    shared.pool("tb", {**THEIRS, "value": "tb"})
    assert shared.tolerations("tb") == [{**TOLERATED, "value": "tb"}, TOLERATED]


def test_a_neighbour_makes_nobody_tolerate_how_a_node_is() -> None:
    shared = Shared(PRESSURE)
    shared.node("n1", pools=("ta", "tb"))
    assert shared.tolerations("tb") == []


def test_what_a_node_says_of_itself_keeps_the_cards_from_everybody_who_does_not_tolerate_it() -> None:
    shared = Shared()
    shared.node("n1", PRESSURE, pools=("ta", "tb"), by="")
    assert shared.free("tb") == 0
    assert isinstance(shared.judged("tb", tolerations=[{"operator": "Exists"}]), Queued)

    shared.pool("tb", tolerations=[{"key": PRESSURE["key"], "operator": "Exists"}])
    assert shared.free("tb") == 1


def test_an_administrators_own_taint_is_left_to_the_pods() -> None:
    shared = Shared()
    shared.node("n1", {"key": "mine", "effect": "NoSchedule"}, pools=("ta", "tb"), by="")
    assert shared.free("tb") == 1
    assert isinstance(shared.judged("tb"), Queued)
    assert isinstance(shared.judged("tb", tolerations=[{"key": "mine", "operator": "Exists"}]), Placed)


def test_a_pools_taint_that_is_not_tolerated_takes_the_node_out_of_what_there_is() -> None:
    """Its pool has just left the node, say, and the taint has yet to go."""
    shared = Shared()
    shared.card("n1", 0, None)
    assert shared.free("tb") == 0
    shared.node("n1", pools=("tb",))
    assert shared.free("tb") == 1


@pytest.mark.parametrize("pools", [1, 4])
def test_no_more_is_tolerated_than_a_pod_can_say_and_still_be_kept(pools: int) -> None:
    shared = Shared()
    shared.pool("ta")
    for pool in range(pools):
        shared.pool(f"p{pool}", *({"key": f"k{pool}-{one}", "effect": "NoSchedule"} for one in range(50)))
        shared.card("n1", 10 + pool, f"p{pool}")
    shared.node("n1", pools=("ta", "tb"))
    found = shared.tolerations("tb")
    assert len(found) == min(pools * 50, bounds.NEIGHBOURS)
    assert len(found) + bounds.ASKED.tolerations + 2 * 50 <= bounds.KEPT.tolerations
    assert found[0]["key"] == "k0-0"  # the oldest pool's first


def test_a_former_value_is_tolerated_until_the_node_has_the_new_one() -> None:
    shared = Shared()
    new = {**THEIRS, "value": "new"}
    shared.pool("ta", new)
    assert shared.tolerations("ta") == [{**TOLERATED, "value": "new"}, TOLERATED]
    assert shared.tolerations("tb") == [{**TOLERATED, "value": "new"}, TOLERATED]
    assert (shared.free("ta"), shared.free("tb")) == (1, 1)
    shared.node("n1", new, pools=("ta", "tb"))
    assert shared.tolerations("ta") == [{**TOLERATED, "value": "new"}]
