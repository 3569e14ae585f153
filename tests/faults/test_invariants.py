"""Each invariant can fail: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

from controllers.api import names
from reliability.faults import invariants
from reliability.faults.process_proxy import Sent
from reliability.faults.trace import Objects, Revision, key_of

NOW = 1_800_000_000.0
SLACK = 5.0


def device(name: str = "n-1", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}"}, "status": {"nodeName": "n", "inventoryID": name, **status}}


def pool(name: str = "p", **status: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"u-{name}", "generation": 2}
    return {"metadata": meta, "spec": {}, "status": status}


def pod(name: str, request: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "annotations": {names.REQUEST_ID: request}}
    return {"metadata": meta, "spec": {}}


def allowed(pool: str, *cards: str) -> dict[str, Any]:
    meta = {"name": pool, "namespace": "d8", "uid": f"c-{pool}", "labels": {names.LABEL_POOL: pool}}
    return {"metadata": meta, "data": {names.ALLOWED_DEVICES: "\n".join(cards)}}


IN_POOL = {"poolRef": {"name": "p"}, "published": {"pool": "p", "slots": 1}}


def told(
    *steps: tuple[str, dict[str, Any], float],
    until: float = NOW,
    away: tuple[tuple[float, float], ...] = (),
    initial: tuple[tuple[str, dict[str, Any]], ...] = (),
    behind: float = 0.0,
) -> list[str]:
    """What replay says of revisions: (kind, object, seconds after NOW); a kind that begins with - is a deletion."""
    history = []
    for version, (kind, obj, after) in enumerate(steps, 1):
        key = key_of(kind.removeprefix("-"), obj)
        type_ = "DELETED" if kind.startswith("-") else "MODIFIED"
        history.append(Revision(version, NOW + after, type_, key, obj))
    start: Objects = {key_of(kind, obj): obj for kind, obj in initial}
    return invariants.replay(start, history, until=until, slack=SLACK, away=away, behind=behind)


def test_a_card_that_another_pools_plugin_publishes_is_told() -> None:
    bad = device(poolRef={"name": "a"}, published={"pool": "b", "slots": 1})

    assert "in pool a, and published by the plugin of b" in told(("GPUDevice", bad, 0))[0]
    assert not told(("GPUDevice", device(**IN_POOL), 0))


def test_a_card_on_two_lists_is_told_even_if_only_for_one_revision() -> None:
    moved = [("ConfigMap", allowed("a"), 2), ("ConfigMap", allowed("b", "n-1"), 3)]

    assert (
        "n-1 is on the lists of a, b"
        in told(("ConfigMap", allowed("a", "n-1"), 0), ("ConfigMap", allowed("b", "n-1"), 1), moved[0])[0]
    )
    assert not told(("ConfigMap", allowed("a", "n-1"), 0), *moved)
    assert not told(("ConfigMap", allowed("a", "n-1"), 0), ("-ConfigMap", allowed("a", "n-1"), 1), moved[1])


def test_a_capacity_that_does_not_add_up_is_told() -> None:
    def counted(total: int, used: int, reserved: int, unavailable: int, available: int) -> list[str]:
        counts = {
            "total": total,
            "used": used,
            "reserved": reserved,
            "unavailable": unavailable,
            "available": available,
        }
        return told(("GPUPool", pool(capacity=counts), 0))

    assert counted(4, 1, 1, 1, 2)
    assert counted(1, 1, 1, 0, 1)
    assert not counted(4, 1, 1, 1, 1)
    assert not counted(1, 1, 1, 0, 0)


def test_an_observed_generation_never_falls_and_never_runs_ahead() -> None:
    def seen(number: int) -> tuple[str, dict[str, Any], float]:
        return "GPUPool", pool(conditions=[{"type": "Available", "observedGeneration": number}]), 0

    assert "fell from 2 to 1" in told(seen(2), seen(1))[0]
    assert "is 3, the generation 2" in told(seen(3))[0]
    assert not told(seen(1), seen(2), seen(2))


def sent(verb: str, resource: str, process: str = "gpupool", at: float = 0.0, **more: Any) -> Sent:
    fields = {"namespace": None, "name": "x", "subresource": None, "status": 200, "body": {}} | more
    return Sent(process=process, verb=verb, resource=resource, at=at, **fields)


def test_a_write_that_could_meet_another_object_of_that_name_is_told() -> None:
    bare = {"metadata": {"name": "x"}}
    sure = {"metadata": {"name": "x", "uid": "u"}}

    assert invariants.conditional([sent("delete", "configmaps", body=None)])
    assert invariants.conditional([sent("delete", "configmaps", body={"preconditions": {}})])
    assert invariants.conditional([sent("apply", "gpudevices", subresource="status", body=bare)])
    assert invariants.conditional([sent("patch", "gpudevices", subresource="status", body=sure)])
    good = [
        sent("delete", "configmaps", body={"preconditions": {"uid": "u"}}),
        sent("apply", "gpudevices", subresource="status", body=sure),
        sent("apply", "gpudevices", process="inventory", body=bare),
        sent("patch", "gpudevices", subresource="status", body={"metadata": {"resourceVersion": "5"}}),
    ]
    assert not invariants.conditional(good)
