"""Whatever an agent writes of a card has an end: a node's stolen token fills no memory and adds up to nothing odd."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
AGENT = "gpu-nodeagent-"


def owned() -> list[str]:
    """The fields of a card's status that agents write."""
    text = (ROOT / "templates/policies/_owners.tpl").read_text("utf-8")
    (table,) = re.findall(r"^gpudevices:\n(?: .*\n)+", text, re.MULTILINE)
    owners = yaml.safe_load(table)["gpudevices"]
    return [field for owner, what in owners.items() if owner.startswith(AGENT) for field in what["fields"]]


def status() -> dict[str, Any]:
    """The schema of a card's status, as the API server has it."""
    (version,) = yaml.safe_load((ROOT / "crds/gpudevice.yaml").read_text("utf-8"))["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    return found


def endless(schema: dict[str, Any], at: str) -> Iterator[str]:
    """Places that may hold as much, or as great a number, as somebody likes."""
    match schema["type"]:
        case "integer" | "number" if "maximum" not in schema or "minimum" not in schema:
            yield at
        case "string" if not schema.keys() & {"maxLength", "enum"}:
            yield at
        case "array":
            if "maxItems" not in schema:
                yield at
            yield from endless(schema["items"], f"{at}[]")
        case "object":
            if "properties" not in schema:
                yield at
            for name, each in schema.get("properties", {}).items():
                yield from endless(each, f"{at}.{name}")


def test_whatever_an_agent_writes_of_a_card_has_an_end() -> None:
    fields = owned()
    assert len(fields) >= 3
    assert [place for field in fields for place in endless(status()[field], field)] == []


@pytest.mark.parametrize("lost", ["maximum", "maxLength", "maxItems"])
def test_what_has_none_would_be_found(lost: str) -> None:
    def without(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: without(value) for key, value in schema.items() if key != lost}
        return schema

    assert [place for field in owned() for place in endless(without(status()[field]), field)]
