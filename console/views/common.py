"""What several pages show alike: notes of what may not be read, names that are kept back, conditions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from console import rights
from controllers.explain.cures import cure
from controllers.explain.words import meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from console.records import Row, Seen
    from controllers.api.meta import Condition
    from controllers.explain.explanation import Explanation

_SCOPES: Final = {"GPUDevice": "card", "GPUNodeInventory": "node", "GPUPool": "pool", "GPUDriver": "driver"}
"""By kind: under which word the list of reasons has its conditions."""


def less(**cells: Any) -> Row:
    """A row without what is not there: None, an empty text or list."""
    return {key: value for key, value in cells.items() if value is not None and value not in ("", [], {})}


def guarded(text: str, seen: Seen) -> str:
    """A text made of objects, with words in place of the stand-ins of pods that the viewer may not read.

    It hides nothing: `Sight` has taken the names out of the objects.
    """
    return rights.guarded(text, seen.may_read, (rights.HIDDEN,))


def condition_row(of: str, name: str, found: Condition) -> Row:
    """A condition of an object, with what to do about it."""
    scope = _SCOPES[of]
    return less(
        kind="condition",
        of=of,
        name=name,
        type=found.type,
        status=found.status,
        reason=found.reason,
        message=found.message,
        since=found.last_transition_time,
        do=cure(scope, found, **{scope: name}),
    )


def explanation_row(made: Explanation, seen: Seen) -> Row:
    """What `kubectl gpu explain` says of an object, as cells of a row."""
    findings = [
        less(level=each.level, text=guarded(each.text, seen), do=guarded(each.do, seen)) for each in made.findings
    ]
    unread = [guarded(why, seen) for why in made.unread]
    return less(verdict=guarded(made.verdict, seen), findings=findings, unread=unread)


def notes(seen: Seen, *kinds: str) -> dict[str, Row]:
    """What of these kinds is not shown: how many objects, or why none is."""
    found: dict[str, Row] = {}
    for kind in kinds:
        if (why := seen.refused.get(kind)) is not None:
            found[f"?/{kind}"] = {"kind": "refused", "of": kind, "text": why}
        elif number := seen.hidden.get(kind):
            found[f"?/{kind}"] = {"kind": "hidden", "of": kind, "count": number}
    return found


def missing(of: str, name: str, known: Iterable[str]) -> dict[str, Row]:
    """The only row of a page about something that is not there."""
    guess = meant(name, known).strip() if name else ""
    return {"missing": less(kind="missing", of=of, name=name, text=guess)}


def cells_of(params: Mapping[str, str], *keys: str) -> tuple[str, ...]:
    """Parameters of the URL; empty where one is not given."""
    return tuple(params.get(key, "") for key in keys)
