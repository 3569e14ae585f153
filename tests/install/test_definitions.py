"""Which definitions are written, and which would lose what is stored."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from controllers.api.record import adapter
from controllers.install.definitions import evaluate_definition, is_established, wanted
from controllers.install.observed import MODULE_CONFIGS, OURS, Definition
from controllers.install.schema import losses
from sim.module.install import ROOT

POOLS = "gpupools.gpu.deckhouse.io"


def stored(name: str = POOLS, **more: Any) -> dict[str, Any]:
    """A definition as the API server has it."""
    body = copy.deepcopy(wanted()[name])
    versions = [version["name"] for version in body["spec"]["versions"]]
    return body | {"status": {"storedVersions": versions, "conditions": []}} | more


def read(body: dict[str, Any]) -> Definition:
    made: Definition = adapter(Definition).validate_python(body)
    return made


def spec(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def test_they_are_those_of_the_chart() -> None:
    files = {}
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        if "doc-ru-" not in path.name:
            body = yaml.safe_load(path.read_text(encoding="utf-8"))
            files[body["metadata"]["name"]] = body

    assert {name: body for name, body in wanted().items() if name in OURS} == files
    assert set(wanted()) == {*OURS, MODULE_CONFIGS}


@pytest.mark.parametrize("name", sorted(wanted()))
def test_what_is_not_there_or_the_same_is_written(name: str) -> None:
    assert evaluate_definition(None, wanted()[name]).write
    assert evaluate_definition(read(stored(name)), wanted()[name]).write


def test_deckhouse_s_definition_is_left_alone_and_ours_is_not() -> None:
    body = stored(MODULE_CONFIGS)
    body["metadata"]["labels"] = {"heritage": "deckhouse", "module": "deckhouse"}
    found = evaluate_definition(read(body), wanted()[MODULE_CONFIGS])

    assert (found.write, found.refused) == (False, False)
    assert "not ours" in found.reason


def test_a_version_in_which_objects_are_stored_is_not_dropped() -> None:
    body = stored()
    body["status"]["storedVersions"].append("v1")
    found = evaluate_definition(read(body), wanted()[POOLS])

    assert found.refused
    assert "version v1, in which objects are stored" in found.reason
    assert evaluate_definition(read(body), wanted()[POOLS], allow_downgrade=True).write


def test_a_field_of_the_future_is_not_dropped() -> None:
    body = stored()
    spec(body)["properties"]["allocation"]["properties"]["later"] = {"type": "string"}
    found = evaluate_definition(read(body), wanted()[POOLS])

    assert found.refused
    assert "field spec.allocation.later" in found.reason


def test_a_field_that_is_new_is_no_loss() -> None:
    body = stored()
    del spec(body)["properties"]["access"]
    assert evaluate_definition(read(body), wanted()[POOLS]).write


@pytest.mark.parametrize("name", [POOLS, MODULE_CONFIGS])
def test_one_that_is_being_deleted_is_waited_for(name: str) -> None:
    body = stored(name)
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    body["metadata"]["labels"] = {}
    found = evaluate_definition(read(body), wanted()[name])

    assert (found.write, found.refused, found.is_waiting) == (False, False, True)
    assert name in found.reason


def test_one_is_served_once_the_api_server_says_so() -> None:
    body = stored()
    assert not is_established(read(body | {"status": {"conditions": None, "storedVersions": None}}))
    body["status"]["conditions"] = [{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}]
    assert is_established(read(body))


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT, "b": TEXT}}, []),
        ({"properties": {"a": TEXT, "b": TEXT}}, {"properties": {"a": TEXT}}, ["field b"]),
        ({"properties": {"a": TEXT}}, {"properties": {"a": NUMBER}}, ["a as string"]),
        ({"properties": {"a": {"enum": ["x", "y"]}}}, {"properties": {"a": {"enum": ["x"]}}}, ["a: y"]),
        ({"properties": {"a": {"enum": ["x"]}}}, {"properties": {"a": TEXT}}, []),
        ({"properties": {"a": TEXT}}, {"properties": {"a": {"enum": ["x", "y"]}}}, ["a: what is not one of x, y"]),
        ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT}, "required": ["a"]}, ["the object without a"]),
        ({"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"a": TEXT}, "required": ["a"]}, []),
        ({"required": ["a"]}, {"properties": {"a": {"default": "x"}}, "required": ["a"]}, []),
        ({}, {"properties": {"a": {"default": "x"}}, "required": ["a"]}, []),
        (
            {"properties": {"a": {"items": {}}}},
            {"properties": {"a": {"items": {"required": ["b"]}}}},
            ["a[] without b"],
        ),
        ({"items": {"properties": {"b": TEXT}}}, {"items": {}}, ["field [].b"]),
        ({"additionalProperties": TEXT}, {"additionalProperties": NUMBER}, [".* as string"]),
        ({"properties": {"a": TEXT}}, {"x-kubernetes-preserve-unknown-fields": True}, []),
        ({"properties": {"a": TEXT}}, {"additionalProperties": TEXT}, []),
    ],
)  # fmt: skip
def test_what_is_lost(before: dict[str, Any], after: dict[str, Any], lost: list[str]) -> None:
    assert losses(before, after) == lost
