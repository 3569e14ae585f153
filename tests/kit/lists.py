"""What a list of the API server means: its selectors over labels and fields, as the module writes them."""

from __future__ import annotations

from typing import Any

from controllers.runtime.plan import Precondition


def is_meant(action: Precondition, obj: dict[str, Any]) -> bool:
    """Whether the selectors of a list mean an object."""
    meta = obj["metadata"]
    where = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta.get("namespace"),
        "spec.nodeName": obj.get("spec", {}).get("nodeName") or "",
        "status.phase": obj.get("status", {}).get("phase"),
    }
    for part in (part for part in (action.fields or "").split(",") if part):
        field, is_not, value = part.partition("!=") if "!=" in part else part.partition("=")
        if (where[field] == value) == (is_not == "!="):
            return False
    label, equals, value = (action.labels or "").partition("=")
    labels = meta.get("labels", {})
    labelled = not label or (labels.get(label) == value if equals else label in labels)
    return labelled and action.namespace in (None, meta.get("namespace"))
