"""What people are shown of a card is what the webhook goes by: nobody hears that a card is free that no pod can get."""

from __future__ import annotations

from typing import Any

import pytest

from console.views.cards import square
from controllers.api.gpudevice import ForeignAllocation, GPUDevice
from controllers.domain.issuing import BLOCKING, issuable
from controllers.explain import card as cards
from controllers.explain import pool as pools
from tests.kit.objects import NOW, card, condition, pool, pool_ref, published

POOL = "a"
TAKEN = ForeignAllocation(namespace="legacy", pod="train", container="main", resource="nvidia.com/gpu")
AWAITED = condition("Configured", False, "AwaitingWithdrawal", "Its node's plugin was told, and has not answered.")
CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "offered": ({}, "Free", "is free", ""),
    "not offered": ({"published": None}, "NotOffered", "cannot be issued now", "not offered"),
    "offered for another pool": (
        {"published": published("b")}, "NotOffered", "cannot be issued now", "not offered",
    ),
    "to be withdrawn": (
        {"offer": "AwaitingWithdrawal"}, "NotOffered", "cannot be issued now", "not offered",
    ),
    "to be withdrawn, as an earlier version said it": (
        {"conditions": (AWAITED,)}, "NotOffered", "cannot be issued now", "not offered, AwaitingWithdrawal",
    ),
    "others have it": (
        {"foreign_allocations": (TAKEN,)}, "Blocked", "cannot be issued now", "pods have it by another resource",
    ),
    "leaving": (
        {"meta": {"annotations": {}}}, "Leaving", f"is leaving GPUPool {POOL}",
        "its annotation does not name the pool any more, it leaves",
    ),
    **{
        kind: (
            {"conditions": (condition(kind, reason="Because"),)}, "Faulted" if kind == "Faulted" else "Blocked",
            "cannot be issued now", f"{kind}: Because",
        )
        for kind in BLOCKING
    },
}  # fmt: skip
"""By what is the matter: more of the card, its square, the end of its verdict, why its pool cannot issue it."""


def idle(made: GPUDevice, name: str = POOL) -> list[str]:
    return [finding.text for finding in pools.idle((made,), name)]


@pytest.mark.parametrize(("status", "shown", "verdict", "why"), CASES.values(), ids=CASES.keys())
def test_a_card_is_shown_as_it_is_given(status: dict[str, Any], shown: str, verdict: str, why: str) -> None:
    made = card(pool=POOL, **status)
    told = cards.explained(cards.CardSeen(made, None, NOW))

    assert square(made, NOW) == shown
    assert told.verdict.endswith(verdict)
    assert idle(made) == ([f"1 card cannot be issued ({why}): {made.name}"] if why else [])
    is_given = issuable(made, POOL)
    assert (shown == "Free", verdict == "is free", not idle(made)) == (is_given,) * 3
    assert any("offers it as" in finding.text for finding in told.findings) == (
        made.status.published is not None and shown != "NotOffered"
    )


def test_a_card_that_another_pool_has_by_now_is_not_this_ones_to_give() -> None:
    moved = card(pool="b", pool_ref=pool_ref("b"))
    assert not issuable(moved, POOL)
    assert idle(moved) == [f"1 card cannot be issued (the pool does not have it any more): {moved.name}"]


def test_every_unavailable_card_of_a_pool_is_explained() -> None:
    members = tuple(card(at=at, pool=POOL, **status) for at, (status, *_) in enumerate(CASES.values(), start=1))
    told = pools.explained(pools.PoolSeen(pool(POOL), members))
    said = " ".join(finding.text for finding in told.findings)

    assert [one.name for one in members if one.name not in said] == [one.name for one in members if issuable(one, POOL)]
