"""What has changed between two answers of a page: a JSON merge patch (RFC 7396) for each row. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.records import Row


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that makes `new` of `old`, neither of which has a null; empty where they are equal."""
    changed: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if before == value:
            continue
        both = isinstance(before, dict) and isinstance(value, dict)
        changed[key] = merge_patch(before, value) if both and before is not None else value
    return changed


def rows_patch(old: Mapping[str, Row], new: Mapping[str, Row]) -> dict[str, Any] | None:
    """What a reader of `old` needs: `rows`, by key a patch, or null where the row is gone; None where nothing changed.

    `order`, all keys, comes with it where the rows that are left and new ones at the end are not the new order.
    """
    rows: dict[str, Any] = dict.fromkeys(key for key in old if key not in new)
    for key, row in new.items():
        before = old.get(key)
        if before is None:
            rows[key] = row
        elif before is not row and before != row:
            rows[key] = merge_patch(before, row)
    guess = [key for key in old if key in new] + [key for key in new if key not in old]
    order = list(new)
    if guess != order:
        return {"rows": rows, "order": order}
    return {"rows": rows} if rows else None
