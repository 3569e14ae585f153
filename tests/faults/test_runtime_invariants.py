"""Each invariant of turns to restart a runtime can fail: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.test_invariants import told


def config(at_once: int, *, enabled: bool = True) -> dict[str, Any]:
    settings = {"bootstrap": {"toolkit": {"runtimeRestarts": at_once}}}
    return {"metadata": {"name": "m", "uid": "u-m"}, "spec": {"enabled": enabled, "settings": settings}}


def node(name: str, state: str = "AwaitingTurn", *, allowed: bool = False, uid: str = "") -> tuple[str, Any, float]:
    runtime = {"kind": "containerd", "state": state} | ({"restartAllowed": True} if allowed else {})
    meta = {"name": name, "uid": uid or f"u-{name}"}
    return "GPUNodeInventory", {"metadata": meta, "status": {"runtime": runtime if state else None}}, 0


ONE = (("ModuleConfig", config(1)),)


def test_turns_go_from_node_to_node() -> None:
    assert not told(
        *(node("a"), node("b"), node("a", allowed=True), node("a", "Ready"), node("b", allowed=True)),
        *(("ModuleConfig", config(2), 0), node("a", allowed=True), node("b", "ByHand")),
        initial=ONE,
    )


@pytest.mark.parametrize("former", [node("a", allowed=True), node("a", "Reverted")])
def test_a_turn_too_many_is_told(former: tuple[str, Any, float]) -> None:
    (said,) = told(former, node("b"), node("b", allowed=True), initial=ONE)
    assert "GPUNodeInventory b: it gets its turn to restart its runtime beside a, and 1 may at once" in said


def test_of_no_settings_five_may() -> None:
    every = [node(name, allowed=True) for name in "abcdef"]
    assert not told(*every[:5])
    assert "and 5 may at once" in told(*every)[0]


@pytest.mark.parametrize("state", ["AwaitingTurn", "Silent", "Refused", ""])
def test_a_turn_that_is_lost_before_the_runtime_is_well_is_told(state: str) -> None:
    (said,) = told(node("a", allowed=True), node("a", state), initial=ONE)
    assert "it loses its turn to restart its runtime" in said


def test_who_is_made_again_or_disabled_has_no_turn() -> None:
    assert not told(node("a", allowed=True), node("a", uid="u-other"), initial=ONE)
    assert not told(node("a", allowed=True), ("ModuleConfig", config(1, enabled=False), 0), node("a"), initial=ONE)
