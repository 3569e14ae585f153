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


NO_SETTING = {
    "internal": "what hooks compute",
    "registry.base": "Deckhouse fills it from the module's source",
    "registry.dockercfg": "Deckhouse fills it from the module's source",
    "registry.scheme": "Deckhouse fills it from the module's source",
    "registry.ca": "Deckhouse fills it from the module's source",
    "hooks.crds": "Deckhouse writes CRDs itself",
    "hooks.allowDowngrade": "of the hook that writes CRDs",
    "hooks.cleanup": "Deckhouse disables the module first, and the processes clean up",
    "webhook.url": "for a control plane outside the cluster's network, as `make up` has one",
    "webhook.replicas": "highAvailability decides; for a single node's network",
    "controllers.deploy": "for who runs the programs without pods, as `make up` does",
    "controllers.image": "Deckhouse gives digests of the release",
    "controllers.imagePullPolicy": "images by digest are never others",
    "controllers.hostNetwork": "Deckhouse's own network reaches pods and the API server",
    "controllers.listen": "Deckhouse's pods have IPv4 addresses",
    "controllers.apiServer.host": "Deckhouse's own network routes the Service where the processes run",
    "controllers.apiServer.port": "Deckhouse's own network routes the Service where the processes run",
    "monitoring.scrapers": "Deckhouse's Prometheus is known; who has another binds it to the Role",
    "monitoring.namespace": "Deckhouse's Prometheus is in d8-monitoring",
    "monitoring.token.secret": "Deckhouse makes it there",
    "monitoring.token.key": "Deckhouse makes it there",
    "monitoring.runbook": "Deckhouse serves the documentation of its modules",
    "nodeAgent.image": "Deckhouse gives digests of the release",
    "nodeAgent.imagePullPolicy": "images by digest are never others",
}
"""Values of the chart that an administrator of Deckhouse cannot set, and why."""


def schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings, and the chart's values."""
    values = yaml.safe_load((harness.ROOT / "openapi" / "values.yaml").read_text())
    return yaml.safe_load((harness.ROOT / "openapi" / values.pop("x-extend")["schema"]).read_text()), values


@cache
def schema() -> dict[str, Any]:
    """Settings and the chart's own values together, as Deckhouse joins them (x-extend): by their uppermost names."""
    settings, values = schemas()
    return {"type": "object", "properties": settings["properties"] | values["properties"]}


def leaves(schema: dict[str, Any], head: str = "") -> set[str]:
    """Paths of a schema's values; one whose names are anybody's counts as one."""
    below = [
        leaves(part, f"{head}{name}.") if "properties" in part else {f"{head}{name}"}
        for name, part in schema["properties"].items()
    ]
    return set().union(*below)


def defaults() -> dict[str, Any]:
    """The chart's values."""
    found: dict[str, Any] = yaml.safe_load((harness.ROOT / "values.yaml").read_text())
    return found


def problems(values: dict[str, Any]) -> list[str]:
    """Where values break the schema."""
    return structural._value(schema(), values, ROOT)


def paths(values: dict[str, Any], head: str = "") -> set[str]:
    """Paths of values."""
    below = [paths(v, f"{head}{k}.") if isinstance(v, dict) and v else {f"{head}{k}"} for k, v in values.items()]
    return set().union(*below) if below else set()


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
    named = {path for text in templates().values() for path in used(text)}
    # nodeSelector is read by the helper library, whichever it is. What processes follow has no value here.
    unused = {leaf for leaf in paths(defaults()[ROOT]) if not any(f"{leaf}.".startswith(f"{p}.") for p in named)}
    assert unused <= {"nodeSelector"}


def test_a_value_is_a_setting_or_has_a_reason_not_to_be() -> None:
    settings, values = map(leaves, schemas())
    assert values - settings == NO_SETTING.keys()


def test_a_group_of_settings_and_values_says_the_same_of_each_setting() -> None:
    def differing(setting: dict[str, Any], value: dict[str, Any], path: str) -> list[str]:
        if "properties" not in setting:
            return [] if setting == value else [path]
        parts = value.get("properties", {})
        below = setting["properties"].items()
        return [one for name, part in below for one in differing(part, parts.get(name, {}), f"{path}.{name}")]

    settings, values = (each["properties"] for each in schemas())
    shared = settings.keys() & values.keys()
    assert shared == {"webhook", "controllers", "nodeAgent"}
    assert [path for name in shared for path in differing(settings[name], values[name], name)] == []


def test_an_unknown_value_in_a_template_would_be_found() -> None:
    text = "{{- $c := .Values.gpuControlPlane.controllers }}{{ $c.hostNetwrk }}{{ .Values.gpuControlPlane.webhok.url }}"
    assert {path for path in used(text) if not declared(path)} == {"controllers.hostNetwrk", "webhok.url"}


def test_a_value_that_nothing_uses_would_be_found() -> None:
    assert used("{{- $c := .Values.gpuControlPlane.controllers }}{{ $c.image }}") == {"controllers.image"}
