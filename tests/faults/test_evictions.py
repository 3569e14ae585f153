"""Each rule of evictions can be broken: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from reliability.faults import evictions
from reliability.faults.process_proxy import Sent
from reliability.faults.trace import key_of

CARD = {"resources": {"limits": {names.resource_name("p"): "1"}}}


def pod(*, node: str = "n", containers: tuple[dict[str, Any], ...] = (CARD,), **meta: Any) -> dict[str, Any]:
    about = {"name": "x", "namespace": "team", "uid": "u-x", **meta}
    return {"metadata": about, "spec": {"nodeName": node, "containers": list(containers)}}


def inventory(phase: str = "Draining") -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": {"driverWork": {"driver": "main", "phase": phase}}}


def driver(strategy: str = "Drain") -> dict[str, Any]:
    return {"metadata": {"name": "main"}, "spec": {"rollout": {"strategy": strategy}}}


def sent(verb: str = "create", sub: str | None = "eviction", uid: str | None = "u-x", process: str = "driver") -> Sent:
    options = {"preconditions": {"uid": uid}} if uid else {}
    return Sent(process, verb, "pods", "team", "x", sub, 0.0, 201, {"deleteOptions": options})


def told(one: Sent, *objects: tuple[str, dict[str, Any]]) -> list[str]:
    return evictions.wrong([one], {key_of(kind, obj): obj for kind, obj in objects}, [])


DRAINED = (("GPUDriver", driver()), ("GPUNodeInventory", inventory()))


def test_an_eviction_of_a_pod_with_cards_from_a_node_that_is_drained_is_well() -> None:
    assert not told(sent(), *DRAINED, ("Pod", pod()))
    assert not told(sent(), *DRAINED, ("Pod", pod(containers=({"resources": {"requests": {"nvidia.com/gpu": "1"}}},))))
    assert not told(sent(process="scheduler"), ("Pod", pod())), "it is another's"


@pytest.mark.parametrize(
    ("one", "objects", "why"),
    [
        (sent("delete", None), (*DRAINED, ("Pod", pod())), "deletes pod team/x"),
        (sent(uid=None), (*DRAINED, ("Pod", pod())), "without the uid"),
        (sent(), (*DRAINED, ("Pod", pod(containers=({},)))), "which asks for no card"),
        (sent(), (*DRAINED, ("Pod", pod(node="other"))), "of node other, which no driver drains"),
        (sent(), (("GPUDriver", driver("WhenIdle")), DRAINED[1], ("Pod", pod())), "which no driver drains"),
        (sent(), (DRAINED[0], ("GPUNodeInventory", inventory("Clearing")), ("Pod", pod())), "which no driver drains"),
        (sent(), (*DRAINED, ("Pod", pod(annotations={names.DO_NOT_DISRUPT: "true"}))), "though it says"),
        (sent(), (*DRAINED, ("Pod", pod(labels={names.DO_NOT_DISRUPT: "true"}))), "though it says"),
    ],
)
def test_what_must_not_be_done_to_a_pod_is_told(one: Sent, objects: tuple[Any, ...], why: str) -> None:
    (said,) = told(one, *objects)
    assert why in said
