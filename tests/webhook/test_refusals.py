"""Every way in which the webhook refuses a pod is found again in its text, as `kubectl gpu` has to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names
from controllers.api.gpupool import GPUPool
from controllers.api.settings import Settings
from controllers.domain import refusals
from controllers.domain.request import PoolRequest
from controllers.explain.refused import CURES, cure
from tests.webhook import world
from webhook.decision import pod_request, shortage
from webhook.decision.context import View
from webhook.decision.verdict import MESSAGE_MAX, Denied

POOL = "training"


def refused(pool: GPUPool | None, *, namespace: str = "team", **seen: int) -> Denied:
    """What a pod gets where the pool has no card. `seen`: counts of the namespace."""
    request = replace(world.request_of(world.pod(pool=POOL)), namespace=namespace)
    view = replace(View(0, (), Settings()), **seen)
    verdict = world.decided_for(request, PoolRequest(POOL, 1), world.Known(pool, view))
    assert isinstance(verdict, Denied)
    return verdict


def closed(reason: str, *kinds: str) -> GPUPool:
    pool = world.pool(POOL, conditions=dict.fromkeys(kinds, "why."))
    conditions = tuple(replace(condition, reason=reason) for condition in pool.status.conditions)
    return replace(pool, status=replace(pool.status, conditions=conditions))


def of_two_pools() -> Any:
    containers = [world.container({names.resource_name(name): 1 for name in "ab"})]
    return pod_request.parse_pool_request(world.request_of(world.pod(containers=containers)).pod.spec)


def over_share() -> Any:
    capacities = [world.capacity_of(world.node("n1"), [world.device("n1", 0)])]
    return shortage.check_unseen_share(PoolRequest(POOL, 1), "team", capacities, shortage.UnseenHistory(2, 3.0))


going = world.pool(POOL)
going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
MIXED = world.pool(POOL, allocation={"mode": "MIG", "migLayout": [{"profile": "1g.10gb", "count": 2}]})
EVERY: dict[str, tuple[refusals.Refusal, Any, str, str]] = {
    "absent": (refusals.POOL_ABSENT, lambda: refused(None), POOL, ""),
    "deleted": (refusals.POOL_DELETED, lambda: refused(going), POOL, ""),
    "no resource": (refusals.RESOURCE_ABSENT, lambda: refused(MIXED), POOL, ""),
    "two pools": (refusals.SEVERAL_POOLS, of_two_pools, "", ""),
    "not allowed": (refusals.NOT_ALLOWED, lambda: refused(world.pool(POOL, access={"namespaces": ["x"]})), POOL, ""),
    "our namespace": (
        refusals.MODULE_NAMESPACE, lambda: refused(world.pool(POOL), namespace=names.NAMESPACE), "", "",
    ),
    "disabled": (
        refusals.MODULE_DISABLED, lambda: refused(closed("ModuleDisabled", "Maintenance")), POOL, "ModuleDisabled",
    ),
    "halted": (
        refusals.NOT_DIVIDED, lambda: refused(closed("LayoutFailed", "Maintenance", "Misconfigured")), POOL,
        "LayoutFailed",
    ),
    "divided anew": (
        refusals.BEING_DIVIDED, lambda: refused(closed("WaitingForPods", "Maintenance")), POOL, "WaitingForPods",
    ),
    "misconfigured": (refusals.POOL_CLOSED, lambda: refused(closed("Because", "Misconfigured")), POOL, ""),
    "affinity": (
        refusals.POOL_CLOSED,
        lambda: refused(world.pool(POOL, scheduling={"affinity": {"nodeAffinity": "near"}})),
        POOL,
        "",
    ),
    "no capacity": (refusals.NO_CAPACITY, lambda: refused(world.refusing_pool(POOL)), POOL, ""),
    "unseen": (refusals.UNSEEN_LIMIT, lambda: refused(world.refusing_pool(POOL), unseen=999), "", ""),
    "share": (refusals.UNSEEN_SHARE, over_share, POOL, ""),
    "waiting": (refusals.WAITING_LIMIT, lambda: refused(world.pool(POOL), queued_of_namespace=500), POOL, ""),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "make", "pool", "reason"), EVERY.values(), ids=EVERY.keys())
def test_a_refusal_is_recognized(expected: refusals.Refusal, make: Any, pool: str, reason: str) -> None:
    denied = make()
    assert isinstance(denied, Denied)
    found = refusals.recognize(denied.message)
    assert found is not None
    assert (found.refusal, found.error_code) == (expected, denied.error_code)
    assert (found.pool, found.reason) == (pool, reason)
    assert cure(denied.message)
    assert "<pool>" not in cure(denied.message) or not pool


def test_no_refusal_is_left_out() -> None:
    assert {refusal for refusal, *_ in EVERY.values()} == set(refusals.REFUSALS)
    assert {code for refusal in refusals.REFUSALS for code in refusal.error_codes} == set(CURES)


def test_too_many_waiting_pods_have_a_cure_of_their_own() -> None:
    text = cure(refused(world.pool(POOL), queued_of_namespace=500).message)
    assert f"kubectl gpu queue {POOL}" in text
    assert "spec.queue.maxWaiting" in text
    assert text != cure(refused(world.refusing_pool(POOL)).message)


def test_a_text_that_is_cut_is_recognized() -> None:
    lists = {"namespaces": [f"namespace-{number:04}" * 4 for number in range(200)]}
    message = refused(world.pool(POOL, access=lists)).message
    assert len(message) <= MESSAGE_MAX
    found = refusals.recognize(message)
    assert found is not None
    assert found.refusal is refusals.NOT_ALLOWED


@pytest.mark.parametrize("text", ["", "exceeded quota: gpu", "Invalid: GPUPool a is being deleted and", "PoolNotFound"])
def test_what_is_none_of_ours_is_not_recognized(text: str) -> None:
    assert refusals.recognize(text) is None
