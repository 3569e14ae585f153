"""Drift: whether an object still has the fields that we applied, or somebody changed them. Pure.

What is wanted is compared with what is there, field by field, so that an edit by hand is
found whenever it was made, also while nobody of us ran. Defaults that the API server adds,
and fields that somebody added beside ours, do not matter: by the rules of server-side apply
the latter are theirs.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.kube import ConfigMap
    from controllers.api.meta import ObjectMeta

# What tells the entries of a list apart, as the API server's merge keys do; other lists are one value.
MERGE_KEYS = ("mountPath", "containerPort", "name")
ATOMIC = ("nodeSelector",)
"""Maps that are one value (`mapType=atomic` in Kubernetes' API): another key in them would be ours to remove."""


def spec_hash(spec: dict[str, Any]) -> str:
    """What tells one version of a spec, or of a ConfigMap's data, from another."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def is_as_built(meta: ObjectMeta, spec: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether a workload has our fields as we want them.

    The hash tells of fields that we wanted once and want no more.
    """
    wanted = body["metadata"]
    return (
        meta.annotations.get(names.SPEC_HASH) == wanted["annotations"][names.SPEC_HASH]
        and covers(meta.labels, wanted["labels"])
        and covers(spec, body["spec"])
    )


def is_as_written(found: ConfigMap, body: dict[str, Any]) -> bool:
    """Whether a ConfigMap has our keys as we want them; a key that somebody added is another file beside ours."""
    return covers(found.data, body["data"]) and covers(found.metadata.labels, body["metadata"]["labels"])


def covers(found: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and (found[key] == value if key in ATOMIC else covers(found[key], value))
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and _covers_list(found, wanted)
    return bool(found == wanted)


def _covers_list(found: list[Any], wanted: list[Any]) -> bool:
    key = _merge_key(wanted)
    if key is None:
        return len(found) == len(wanted) and all(map(covers, found, wanted))
    there = {entry.get(key): entry for entry in found if isinstance(entry, dict)}
    return all(covers(there.get(entry[key]), entry) for entry in wanted)


def _merge_key(entries: list[Any]) -> str | None:
    for key in MERGE_KEYS:
        if entries and all(isinstance(entry, dict) and key in entry for entry in entries):
            return key
    return None
