"""Labels that a process owns on an object, set and removed whoever wrote them. Pure.

Apply drops only what the same manager had applied before; a label of ours that somebody
else set has to be removed by merge patch, or each pass would find it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.runtime.plan import Apply, Merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.meta import ObjectMeta
    from controllers.runtime.plan import Ref


def set_labels(ref: Ref, meta: ObjectMeta, wanted: Mapping[str, str], ours: Iterable[str]) -> Apply | Merge | None:
    """The write that makes our labels of an object as wanted and leaves the others; None where they are.

    `ours` are the keys that we own: those that are not wanted go.
    """
    stale = [key for key in ours if key in meta.labels and key not in wanted]
    if stale:
        body = {"metadata": {"labels": {**wanted, **dict.fromkeys(stale)}}}
        return Merge(ref, meta.resource_version, body)
    if any(meta.labels.get(key) != value for key, value in wanted.items()):
        return Apply(ref, {"metadata": {"labels": dict(wanted)}})
    return None
