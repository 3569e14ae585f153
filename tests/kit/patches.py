"""What an API server makes of a write: merge patches (RFC 7386), and server-side apply as far as our objects go.

Of server-side apply: nested maps, `conditions` by type, everything else atomic; what a manager applied before and
leaves out now is removed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def merge(target: Json, patch: Json) -> None:
    """Merge a patch into an object; what is None there goes."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def json_patch(target: Json, operations: Iterable[Json]) -> None:
    """Carry out the operations of a JSON patch: `add`, `replace` and `remove`."""
    for operation in operations:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        place: Any = target
        for part in way:
            place = place[int(part) if isinstance(place, list) else part]
        if operation["op"] == "remove":
            del place[int(last) if isinstance(place, list) else last]
        elif isinstance(place, list):
            assert last == "-", operation
            place.append(copy.deepcopy(operation["value"]))
        else:
            place[last] = copy.deepcopy(operation["value"])


def apply(target: Json, body: Json) -> None:
    """Write the fields of a body."""
    for key, value in body.items():
        if isinstance(value, dict) and key != "nodeSelector":  # that map is atomic
            apply(target.setdefault(key, {}), value)
        elif key == "conditions":
            merged = _by_type(target.get(key, [])) | _by_type(value)
            target[key] = list(merged.values())
        else:
            target[key] = value


def remove(target: Json, before: Json, now: Json) -> None:
    """Remove what was applied before and is left out now."""
    for key, value in before.items():
        if key not in target:
            continue
        if isinstance(value, dict):
            remove(target[key], value, now.get(key, {}))
            if not target[key] and key not in now:
                del target[key]
        elif key == "conditions":
            gone = set(_by_type(value)) - set(_by_type(now.get(key, [])))
            target[key] = [entry for entry in target[key] if entry["type"] not in gone]
        elif key not in now:
            del target[key]


def _by_type(entries: list[Json]) -> Json:
    return {entry["type"]: entry for entry in entries}
