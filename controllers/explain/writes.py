"""What writing an object would change of the one that is there. Pure."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MISSING: Final = object()
Action = Literal["Create", "Same", "Extend", "Change"]
"""What a write is: Extend only adds what is not there."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that would be another."""

    path: str
    is_new: bool
    """Whether there is none now."""


def differences(there: Any, then: Any, at: str = "spec") -> list[Difference]:
    """The fields in which two values differ, by their paths; lists are compared as wholes."""
    return [Difference(path, before is MISSING) for path, before, after in _pairs(there, then, at) if before != after]


def _pairs(there: Any, then: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    if not isinstance(there, dict) or not isinstance(then, dict):
        yield at, there, then
        return
    for key in (*there, *(key for key in then if key not in there)):
        yield from _pairs(there.get(key, MISSING), then.get(key, MISSING), f"{at}.{key}")


def replaced(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The object that is there with the wanted spec, and with the wanted labels and annotations beside its own."""
    made = deepcopy(dict(there))
    made["spec"] = deepcopy(wanted["spec"])
    for part in ("labels", "annotations"):
        if marks := (wanted["metadata"].get(part) or {}):
            made["metadata"][part] = {**(made["metadata"].get(part) or {}), **marks}
    return made


def extended(there: Any, wanted: Any) -> Any:
    """The value that is there with what is wanted beside it; where both say something, the wanted one."""
    if not isinstance(there, dict) or not isinstance(wanted, dict):
        return deepcopy(wanted)
    return {**there, **{key: extended(there.get(key), value) for key, value in wanted.items()}}


def between(there: Mapping[str, Any] | None, then: Mapping[str, Any]) -> tuple[Action, list[Difference]]:
    """What turns the object that is there into the other one, as the API server would store it."""
    if there is None:
        return "Create", []
    found = differences(there.get("spec") or {}, then.get("spec") or {})
    for part in ("labels", "annotations"):
        found += differences(there["metadata"].get(part) or {}, then["metadata"].get(part) or {}, f"metadata.{part}")
    if not found:
        return "Same", []
    return ("Extend" if all(one.is_new for one in found) else "Change"), found
