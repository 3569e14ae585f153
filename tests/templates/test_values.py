"""openapi/values.yaml describes the chart's values: all that there are, and all that the templates use."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import yaml

from tests.templates import harness
from tests.tools import structural

ROOT = "gpuControlPlane"
USE = re.compile(rf"\.Values\.{ROOT}((?:\.\w+)*)")
ALIAS = re.compile(r"\$(\w+) := ([^}]*)")


@cache
def schema() -> dict[str, Any]:
    """Settings and the chart's own values together, as Deckhouse joins them (x-extend)."""
    values = yaml.safe_load((harness.ROOT / "openapi" / "values.yaml").read_text())
    settings = yaml.safe_load((harness.ROOT / "openapi" / values.pop("x-extend")["schema"]).read_text())
    assert not values["properties"].keys() & settings["properties"].keys(), "one place says what a value is"
    return {"type": "object", "properties": settings["properties"] | values["properties"]}


def defaults() -> dict[str, Any]:
    """The chart's values."""
    found: dict[str, Any] = yaml.safe_load((harness.ROOT / "values.yaml").read_text())
    return found


def problems(values: dict[str, Any]) -> list[str]:
    """Where values break the schema."""
    return structural._value(schema(), values, ROOT)


def declared(path: str) -> bool:
    """Whether the schema has a value of this path, or everything below a place above it."""
    here = schema()
    for name in filter(None, path.split(".")):
        here = here.get("properties", {}).get(name)
        if here is None:
            return False
    return True


def used(text: str) -> set[str]:
    """Paths of values that a template names, by .Values or by a variable that it has set to a part of them."""
    found = {path.strip(".") for path in USE.findall(ALIAS.sub("", text))}
    for name, value in ALIAS.findall(text):
        if (part := re.fullmatch(rf".*\.Values\.{ROOT}((?:\.\w+)*)\s*-?", value.strip())) is None:
            found |= {path.strip(".") for path in USE.findall(value)}
            continue
        for below in re.findall(rf"\${name}\b((?:\.\w+)*)(?! :=)", text):
            found.add(f"{part[1]}{below}".strip("."))
    return found - {""}


def templates() -> dict[str, str]:
    """Every template of the chart."""
    paths = [path for path in (harness.ROOT / "templates").rglob("*") if path.suffix in {".yaml", ".tpl"}]
    return {str(path.relative_to(harness.ROOT)): path.read_text() for path in paths}


def test_the_charts_values_are_as_they_are_described() -> None:
    assert defaults().keys() == {ROOT}
    assert problems(defaults()[ROOT]) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"controllers": {"hostNetwork": "yes"}}, "no boolean"),
        ({"controllers": {"imagePullPolicy": "Always"}}, "breaks enum"),
        ({"webhook": {"replicas": 0}}, "breaks minimum"),
        ({"presets": {"quotas": [{"namespace": "a"}]}}, "pools is missing"),
        ({"controler": {}}, "not declared"),
    ],
)
def test_a_wrong_value_would_be_found(wrong: dict[str, Any], told: str) -> None:
    assert told in "; ".join(problems(wrong))


def test_every_value_that_a_template_uses_is_described() -> None:
    found = {(path, name) for name, text in templates().items() for path in used(text)}
    assert len(found) > 25
    assert {(path, name) for path, name in found if not declared(path)} == set()


def test_every_value_is_used_or_is_a_setting() -> None:
    settings = yaml.safe_load((harness.ROOT / "openapi" / "config-values.yaml").read_text())["properties"]
    named = {path for text in templates().values() for path in used(text)}

    def leaves(values: dict[str, Any], head: str = "") -> set[str]:
        below = [leaves(v, f"{head}{k}.") if isinstance(v, dict) and v else {f"{head}{k}"} for k, v in values.items()]
        return set().union(*below) if below else set()

    there = {leaf for leaf in leaves(defaults()[ROOT]) if leaf.partition(".")[0] not in settings}
    # nodeSelector is read by the helper library, whichever it is.
    unused = {leaf for leaf in there if not any(f"{leaf}.".startswith(f"{path}.") for path in named)}
    assert unused <= {"nodeSelector"}


def test_an_unknown_value_in_a_template_would_be_found() -> None:
    text = "{{- $c := .Values.gpuControlPlane.controllers }}{{ $c.hostNetwrk }}{{ .Values.gpuControlPlane.webhok.url }}"
    assert {path for path in used(text) if not declared(path)} == {"controllers.hostNetwrk", "webhok.url"}


def test_a_value_that_nothing_uses_would_be_found() -> None:
    assert used("{{- $c := .Values.gpuControlPlane.controllers }}{{ $c.image }}") == {"controllers.image"}
