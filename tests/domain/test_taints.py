"""Who tolerates a pool's taints, who is beside whom, and which taints keep a pool off a node."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api import bounds, names
from controllers.api.gpupool import GPUPool, Toleration
from controllers.domain.node_fit import REPELLING
from controllers.domain.node_marks import is_ours, taint_marks
from controllers.domain.taints import keeps_off, pools_sharing_nodes, tolerations, wanted
from tests.kit import objects

GPU = {"key": "gpu", "value": "a", "effect": "NoSchedule"}
PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
MORE = {"key": "more", "operator": "Exists"}


def pool(name: str, *taints: dict[str, Any], created: int = 1, **scheduling: Any) -> GPUPool:
    meta = {"creation_timestamp": f"2026-01-{created:02}T00:00:00Z"}
    return objects.pool(name, meta=meta, scheduling={"taints": list(taints), **scheduling})


def test_the_pools_taints_are_tolerated_exactly_and_extras_as_they_are() -> None:
    one = pool("a", GPU, {"key": "other", "effect": "NoExecute"}, PRESSURE, tolerations=[MORE])
    assert tolerations(one) == (
        Toleration(key="gpu", operator="Equal", value="a", effect="NoSchedule"),
        Toleration(key="other", operator="Equal", value="", effect="NoExecute"),
        Toleration(key=PRESSURE["key"], operator="Equal", value="", effect="NoSchedule"),
        Toleration(key="more", operator="Exists"),
    )
    assert tolerations(objects.pool("a")) == ()


def test_of_a_neighbour_what_it_puts_on_nodes_is_tolerated_and_not_what_it_tolerates() -> None:
    other = pool("b", GPU, PRESSURE, tolerations=[MORE])
    assert tolerations(objects.pool("a"), [other]) == tolerations(pool("a", GPU))
    assert tolerations(pool("a", GPU), [other]) == tolerations(pool("a", GPU))  # once


def test_neighbours_are_those_with_cards_on_the_same_node_the_oldest_first() -> None:
    homes = {"a": {"n1", "n2"}, "b": {"n2", "n3"}, "c": {"n3"}, "d": {"n1"}, "e": set[str]()}
    pools = [pool("b", GPU, created=3), pool("c", GPU), pool("d", GPU, created=2), pool("e", GPU), pool("a", GPU)]
    found = pools_sharing_nodes("a", pools, homes.__getitem__)
    assert [one.name for one in found] == ["d", "b"]


@given(st.lists(st.integers(0, 50), max_size=8))
def test_tolerations_of_neighbours_are_bounded_and_the_pools_own_never_cut(counts: list[int]) -> None:
    others = [pool(f"p{n}", *({**GPU, "value": f"{n}-{i}"} for i in range(count))) for n, count in enumerate(counts)]
    made = tolerations(pool("a", GPU, tolerations=[MORE]), others)
    assert len(made) == 2 + min(sum(counts), bounds.NEIGHBOURS)
    assert made[0].value == "a"
    assert made[-1].key == "more"


def node(*taints: dict[str, Any], ours: tuple[dict[str, Any], ...] = ()) -> Any:
    noted = orjson.dumps([{**taint, "pool": "x"} for taint in ours]).decode()
    return objects.node("n", taints=list(taints), meta={"annotations": {names.POOL_TAINTS: noted}})


@pytest.mark.parametrize(
    ("there", "ours", "off"),
    [
        (GPU, True, True),
        (GPU, False, False),  # an administrator's: who comes brings a toleration
        ({**GPU, "effect": "PreferNoSchedule"}, True, False),
        (PRESSURE, False, True),
        ({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoExecute"}, False, True),
    ],
)
def test_what_keeps_a_pool_off_a_node(there: dict[str, Any], ours: bool, off: bool) -> None:
    found = keeps_off(node(there, ours=(there,) if ours else ()), ())
    assert (found is not None) == off
    assert keeps_off(node(there, ours=(there,)), [Toleration(operator="Exists")]) is None


def test_a_taint_with_another_value_than_is_remembered_is_not_ours() -> None:
    there = node({**GPU, "value": "mine"}, ours=(GPU,))
    assert not is_ours(there.spec.taints[0], taint_marks(there))
    assert keeps_off(there, ()) is None
    typed = ('[{"key":["x"],"effect":"NoSchedule","pool":"p"}]', '[{"key":"x","effect":"e","value":5,"pool":"p"}]')
    for odd in ("nonsense", *typed):
        assert taint_marks(objects.node("n", meta={"annotations": {names.POOL_TAINTS: odd}})) == {}


def test_a_node_that_says_nothing_keeps_nobody_off() -> None:
    assert keeps_off(node(), ()) is None
    assert set(REPELLING) == {"NoSchedule", "NoExecute"}
    assert wanted(objects.pool("a")) == ()


def test_a_former_value_is_tolerated_while_it_stands_on_a_node_of_the_pool() -> None:
    new = pool("a", {**GPU, "value": "new"})
    former = Toleration(key="gpu", operator="Equal", value="a", effect="NoSchedule")
    nodes = [node(GPU, ours=(GPU,)), node(GPU, ours=(GPU,)), node()]
    assert tolerations(new, (), nodes) == (*tolerations(new), former)
    assert tolerations(objects.pool("b"), [new], nodes) == (*tolerations(new), former)
    assert tolerations(pool("a", GPU), (), nodes) == tolerations(pool("a", GPU))
    # By what the node has, and not by what somebody noted; and before what neighbours want, of which there may be many.
    assert tolerations(new, (), [node(ours=({**GPU, "value": "not a label value!!"},))]) == tolerations(new)
    keys = [[f"k{n}-{m}" for m in range(50)] for n in range(bounds.NEIGHBOURS // 50 + 1)]
    many = [pool(f"c{n}", *({**GPU, "key": key} for key in some)) for n, some in enumerate(keys)]
    assert former in tolerations(new, many, nodes)
    # What nobody wants in any value goes at once, and so does one of another effect.
    assert tolerations(objects.pool("b"), (), nodes) == ()
    other = pool("a", {**GPU, "effect": "NoExecute"})
    assert tolerations(other, (), nodes) == tolerations(other)
