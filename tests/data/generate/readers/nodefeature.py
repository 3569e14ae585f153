"""NodeFeatures, without the texts in them that only people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.data.generate.readers.one import nodes
from tests.data.told import Told

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> dict[str, Any]:
    """A node for each NodeFeature of the file; other objects say what to look for, not what is there."""
    objects = [one for one in yaml.safe_load_all(path.read_text()) if isinstance(one, dict)]
    reports = [_report(one) for one in objects if one["kind"] == "NodeFeature"]
    return nodes(Told(reports=(report,)) for report in reports)


def _report(found: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: found["metadata"][key] for key in ("name", "namespace") if key in found["metadata"]}
    return {"kind": "NodeFeature", "metadata": metadata, "spec": _without_links(found["spec"])}


def _without_links(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_links(one) for key, one in value.items() if not (isinstance(one, str) and "://" in one)}
    return [_without_links(one) for one in value] if isinstance(value, list) else value
