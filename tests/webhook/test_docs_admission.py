"""docs/admission.md quotes what is really said, and has a row for each word that a pod's creator may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controllers.api import names
from controllers.api.gpupool import GPUPool
from controllers.api.record import adapter, to_json
from controllers.api.settings import Settings
from controllers.domain.placement.capacity import NodeCapacity
from controllers.domain.queue.policy import queue_of
from controllers.domain.request import PoolRequest
from tests.kit.objects import namespace, reservation
from tests.webhook import world
from webhook.decision import access, pod_request, shortage
from webhook.decision.access import AccessReview, Requester
from webhook.decision.context import View
from webhook.decision.records import UserInfo
from webhook.decision.shortage import UnseenHistory
from webhook.decision.verdict import FAULT, INVALID, NOT_READY, UNWRITTEN, Denied, Queued
from webhook.handlers import pod_creation

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "admission.md").read_text()
POOL = "training"


def decided(pool: Any, units: Any = 1, **limits: str) -> Denied | None:
    containers = [world.container({names.resource_name(name): value for name, value in limits.items()})]
    raw = world.pod(units, pool=POOL, **({"containers": containers} if limits else {}))
    request = world.request_of(raw)
    wanted = pod_request.parse_pool_request(request.pod.spec)
    if not isinstance(wanted, PoolRequest):
        return wanted
    known = world.Known(pool, View(0, (), Settings()), namespace("team"), ("inference", POOL))
    found = world.decided_for(request, wanted, known)
    return found if isinstance(found, Denied) else None


def two_nodes() -> tuple[NodeCapacity, ...]:
    """Each with two free cards."""
    return tuple(
        world.capacity_of(
            world.node(f"n{at}"),
            [world.device(f"n{at}", n, reservations=[reservation(f"{at}{n}")] if n > 1 else []) for n in range(4)],
        )
        for at in range(2)
    )


def fragmented() -> Denied:
    return shortage.insufficient_capacity(PoolRequest(POOL, 3), world.pool(POOL), two_nodes())


def in_maintenance() -> GPUPool:
    body = to_json(
        world.pool(POOL, conditions={"Maintenance": "Waiting for pods (2): team-a/train-0, team-a/train-1."})
    )
    body["status"]["conditions"][0]["reason"] = "WaitingForPods"
    return adapter(GPUPool).validate_python(body)


SAID: dict[str, Any] = {
    names.POOL_NOT_FOUND: lambda: pod_request.check_pool_is_open(PoolRequest("traning", 1), None, ["inference", POOL]),
    names.MIXED_POOL_REQUEST: lambda: decided(None, a="1", b="2"),
    INVALID: lambda: decided(None, "500m"),
    names.ACCESS_DENIED: lambda: (
        access.resolve(
            world.pool(POOL, access={"namespaces": ["team-a"], "dexGroups": ["ml"]}),
            Requester("team-b", None, user=UserInfo(username="joe")),
            AccessReview(reviewed=("system:serviceaccount:team-b:default", "joe")),
        ).denied
    ),
    names.POOL_IN_MAINTENANCE: lambda: decided(in_maintenance()),
    names.POOL_MISCONFIGURED: lambda: decided(world.pool(POOL, scheduling={"affinity": {"nodeAffinity": "near"}})),
    names.INSUFFICIENT_CAPACITY: fragmented,
    UNWRITTEN: lambda: pod_creation.LATE,
    FAULT: lambda: pod_creation._fault(world.request_of(world.pod())),
}


@pytest.mark.parametrize("word", SAID)
def test_an_example_is_what_is_said(word: str) -> None:
    refusal = SAID[word]()
    assert isinstance(refusal, Denied)
    assert refusal.error_code == word
    (row,) = [line for line in TEXT.splitlines() if line.startswith("| `") and f"`{word}`" in line.split("|")[1]]
    assert f"`{refusal.detail}`" in row


def test_the_sentences_about_pods_that_never_appeared_are_what_is_said() -> None:
    capacities = [world.capacity_of(world.node("n1"), [world.device("n1", number) for number in range(8)])]
    for refusal in (
        shortage.check_unseen_limit("team", 32, 32),
        shortage.check_unseen_share(PoolRequest("training", 1), "team", capacities, UnseenHistory(2, 3.0)),
    ):
        assert refusal is not None
        assert f"`{refusal.detail}`" in " ".join(TEXT.split())


def test_the_sentences_of_the_queue_are_what_is_said() -> None:
    pool, raw = world.pool(POOL), world.pod(3, pool=POOL)
    queued = world.decided(raw, world.Known(pool, View(0, two_nodes(), Settings())))
    assert isinstance(queued, Queued)
    limit = world.decided(raw, world.Known(pool, View(0, (), Settings(), queued_of_namespace=500)))
    assert isinstance(limit, Denied)
    for said in (*queued.warnings, limit.detail):
        assert f"`{said}`" in " ".join(TEXT.split())


def test_every_verdict_has_its_meaning() -> None:
    meaning = TEXT.partition("### When a pool has no cards now")[2].partition("### ")[0]
    assert all(f"**{verdict}**" in meaning for verdict in ("granted", "queued", "refused"))
    assert f"more than {pod_creation.RESERVED_WITHIN} s" in meaning
    assert f"`admission.reservationsInFlight` ({Settings().admission.reservations_in_flight})" in meaning
    assert f"At most {queue_of(world.pool()).max_waiting} pods of one namespace may wait" in meaning


def test_every_word_has_its_row() -> None:
    words = {names.POOL_NOT_FOUND, names.MIXED_POOL_REQUEST, names.ACCESS_DENIED, names.POOL_IN_MAINTENANCE}
    words |= {names.POOL_MISCONFIGURED, names.INSUFFICIENT_CAPACITY, INVALID, NOT_READY, UNWRITTEN, FAULT}
    heads = " ".join(line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `"))
    assert {word for word in words if f"`{word}`" not in heads} == set()
