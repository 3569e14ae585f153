"""Cycles that nobody ran: readings as they would be, with what a test wants to grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reliability.soak.records import Boundary, Own, Reading

CYCLE = 30.0
OURS, SERVER = "gpupool-controller", "etcd"


def own(**changed: Any) -> Own:
    values: dict[str, Any] = {
        "tasks": 40,
        "queue": 0,
        "cached": 100,
        "series": 500,
        "stall": 0.001,
        "lists": 8,
        "writes": 0,
        "requests": {"GET 200": 0.0},
        "expired": 0,
    }
    return Own(**values | changed)


def reading(at: float, said: Own | None, **changed: Any) -> Reading:
    values: dict[str, Any] = {"pid": 1, "rss": 80.0, "anonymous": 60.0, "descriptors": 30, "threads": 4, "cpu": at / 10}
    return Reading(at=at, own=said, **values | changed)


def ends(
    count: int,
    *,
    kernel: Callable[[int], Mapping[str, Any]] = lambda _: {},
    said: Callable[[int], Mapping[str, Any]] = lambda _: {},
    stored: Callable[[int], Mapping[str, int]] = lambda _: {},
    lasted: float = CYCLE,
) -> list[Boundary]:
    """The ends of so many cycles; each function says what is not as usual after a cycle."""
    found = []
    for number in range(count + 1):
        at = 100.0 + number * lasted
        requests = {"requests": {"GET 200": 200.0 * number, "PATCH 200": 100.0 * number}, "writes": 100 * number}
        ours = reading(at, own(**{**requests, **said(number)}), **kernel(number))
        kept = {"Pod": 40, "ConfigMap": 9, "Event": 300 + number % 3, **stored(number)}
        found.append(Boundary(at, {OURS: ours, SERVER: reading(at, None, rss=200.0 + number)}, kept))
    return found
