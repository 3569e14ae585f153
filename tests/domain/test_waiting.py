"""Where the demand of pods that wait counts: as a slow look at every node would find it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.tenant import TenantPod
from controllers.domain.node_fit import node_fits
from controllers.domain.waiting import NodeCapacities, NodeCapacity, PendingPod, pending_pod

NODES = ("n-0", "n-1", "n-2")


def room(name: str, free: int, used: int) -> NodeCapacity:
    meta = {"name": name, "labels": {names.LABEL_HOSTNAME: name}}
    return NodeCapacity(adapter(Node).validate_python({"metadata": meta}), free, free + used)


def pod(units: int, home: str, only: str | None, **meta: Any) -> TenantPod:
    marks = {names.REQUEST_ID: "r", names.DEVICES: f"{home}-0000:17:00.0,{home}-0000:65:00.0" if home else ""}
    spec: dict[str, Any] = {"containers": [{"resources": {"limits": {names.resource_name("a"): units}}}]}
    if only:
        spec["nodeSelector"] = {names.LABEL_HOSTNAME: only}
    body = {"metadata": {"name": "p", "namespace": "t", "annotations": marks, **meta}, "spec": spec}
    return adapter(TenantPod).validate_python(body)


def wanted(units: int, home: str, only: str | None) -> PendingPod:
    found = pending_pod(pod(units, home, only), "a")
    assert found is not None
    return found


def slowly(one: PendingPod, free: dict[str, int], rooms: list[NodeCapacity]) -> str | None:
    """The node, by the words of the rule."""
    fit = [r for r in rooms if free[r.node.name] > 0 and r.total >= one.units and node_fits(one.wants, r.node)]
    enough = [r.node.name for r in fit if free[r.node.name] >= one.units]
    if one.preferred_node in enough:
        return one.preferred_node
    return min(enough or [r.node.name for r in fit], key=lambda name: (-free[name], name), default=None)


asked = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["", *NODES]), st.sampled_from([None, *NODES])), max_size=8
)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=3, max_size=3), asked)
def test_one_after_another_they_take_what_is_left(
    sizes: list[tuple[int, int]], asking: list[tuple[int, str, str | None]]
) -> None:
    rooms = [room(name, *size) for name, size in zip(NODES, sizes, strict=True)]
    left = NodeCapacities(rooms)
    free = {r.node.name: r.free for r in rooms}
    for one in (wanted(*what) for what in asking):
        expected = slowly(one, free, rooms)
        found = left.take(one)
        assert (found.node.name if found else None) == expected
        if found is not None:
            assert found.free == free[found.node.name]
            free[found.node.name] -= min(one.units, found.free)
        assert bool(left) == any(free.values())


def test_the_home_of_a_pod_is_the_node_of_its_cards() -> None:
    assert wanted(1, "worker-01.example", None).preferred_node == "worker-01.example"
    assert not wanted(1, "", None).preferred_node


def test_a_pod_that_goes_waits_for_nothing() -> None:
    assert pending_pod(pod(1, "", None, deletionTimestamp="2026-01-01T00:00:00Z"), "a") is None
    assert pending_pod(pod(1, "", None), "b") is None
    assert pending_pod(pod(1, "", None, annotations={}), "a") is None
