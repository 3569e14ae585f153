"""Conditions in objects that are JSON, as an API server stores them."""

from __future__ import annotations

from typing import Any

from controllers.api.meta import Condition
from tests.kit.manifests import body


def find(obj: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """A condition of an object; None where it does not say it."""
    conditions: list[dict[str, Any]] = obj.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), None)


def state_of(obj: dict[str, Any], kind: str) -> tuple[str, str]:
    """Status and reason of a condition, which must be there."""
    found = find(obj, kind)
    assert found is not None, f"no {kind} in {obj}"
    return found["status"], found["reason"]


def message(obj: dict[str, Any], kind: str) -> str:
    """The sentence of a condition, which must be there."""
    found = find(obj, kind)
    assert found is not None, f"no {kind} in {obj}"
    return str(found["message"])


def holds(obj: dict[str, Any], kind: str) -> bool:
    """Whether a condition is True."""
    found = find(obj, kind)
    return found is not None and found["status"] == "True"


def put(obj: dict[str, Any], condition: Condition) -> None:
    """Say a condition in place of what was said under that type."""
    status = obj.setdefault("status", {})
    others = [one for one in status.get("conditions", []) if one["type"] != condition.type]
    status["conditions"] = [*others, body(condition)]
