"""The contract: generated files are fresh, structural, and agree with what the code reads and writes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import conditions, crdgen, names
from controllers.api.duration import parse_duration
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.meta import Condition
from controllers.api.record import adapter, json_name, to_json
from controllers.api.settings import Settings, parse_settings

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"gpudevice": GPUDevice, "gpunodeinventory": GPUNodeInventory, "gpupool": GPUPool, "gpudriver": GPUDriver}


def schema(kind: str) -> dict[str, Any]:
    crd = yaml.safe_load((ROOT / "crds" / f"{kind}.yaml").read_text())
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for key, value in node.get("properties", {}).items():
        yield from nodes(value, f"{path}.{key}")
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            yield from nodes(node[word], f"{path}[]")


def test_generated_files_are_fresh() -> None:
    assert crdgen.main(["--check"]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_structural_and_described(kind: str) -> None:
    for path, node in nodes(schema(kind)):
        assert "type" in node, path
        assert not {"anyOf", "$ref", "title", "nullable"} & set(node), path
        top = path.count(".") <= 1 and path.rsplit(".", 1)[-1] in ("", "apiVersion", "kind", "metadata")
        assert top or "[]" in path or node.get("description"), f"{path} has no description"


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_are_a_map_by_type(kind: str) -> None:
    found = schema(kind)["properties"]["status"]["properties"]["conditions"]

    assert found["x-kubernetes-list-type"] == "map"
    assert found["x-kubernetes-list-map-keys"] == ["type"]


def test_defaults_stay_out_of_status() -> None:
    for kind in KINDS:
        for path, node in nodes(schema(kind)["properties"]["status"]):
            assert "default" not in node, path


def test_no_default_decides_about_approval() -> None:
    assignment = schema("gpupool")["properties"]["spec"]["properties"]["deviceAssignment"]

    assert "default" not in assignment["properties"]["requireAnnotation"]


def test_names_are_spelled_as_kubernetes_spells_them() -> None:
    spelled = {
        "inventory_id": "inventoryID",
        "pod_uid": "podUID",
        "min_memory_mib": "minMemoryMiB",
        "unseen_ttl": "unseenTTL",
    }

    assert {name: json_name(name) for name in spelled} == spelled


def test_an_object_survives_reading_and_writing() -> None:
    status = {
        "inventoryID": "n-0000:17:00.0",
        "state": "Reserved",
        "conditions": [
            {"type": "Faulted", "status": "False", "reason": "Fine", "message": "", "lastTransitionTime": "t"}
        ],
        "reservations": [
            {"requestID": "r", "namespace": "d", "pod": "p", "slots": 1, "since": "a", "expiresAt": "b", "seen": False}
        ],
        "hardware": {"pci": {"vendor": "10de", "device": "2330", "class": "0302", "address": "0000:17:00.0"}},
    }
    device = adapter(GPUDevice).validate_python({"metadata": {"name": "d"}, "status": status})

    assert {key: value for key, value in to_json(device)["status"].items() if value} == status


def test_two_objects_are_equal_when_what_we_read_is_equal() -> None:
    read = adapter(GPUDevice).validate_json
    one = read(b'{"metadata":{"name":"d","resourceVersion":"1"},"status":{"later":1}}')

    assert one == read(b'{"metadata":{"name":"d","resourceVersion":"2","managedFields":[]}}')
    assert one != read(b'{"metadata":{"name":"d","resourceVersion":"1"},"status":{"managed":true}}')


def test_a_cached_card_is_small() -> None:
    """Slots all the way down: no instance carries a __dict__."""
    device = adapter(GPUDevice).validate_python(
        {
            "status": {
                "hardware": {"pci": {"vendor": "10de", "device": "2330", "class": "0302", "address": "0000:17:00.0"}}
            }
        }
    )

    for record in (device, device.metadata, device.status, device.status.hardware):
        assert dataclasses.is_dataclass(record)
        assert not hasattr(record, "__dict__")


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("2m", 120), ("1h30m", 5400), ("500ms", 0.5), ("1.5s", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "2 m", "-1s", "1d", None, True])
def test_what_is_no_duration_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match="such as 30s or 2m"):
        parse_duration(text)


def test_the_settings_pattern_accepts_the_settings_defaults() -> None:
    """The Go original's pattern matched no value, its own default included."""
    values = yaml.safe_load((ROOT / "openapi" / "config-values.yaml").read_text())
    durations = [node for _, node in nodes(values) if "ms|s|m|h" in node.get("pattern", "")]

    assert len(durations) >= 4
    for node in durations:
        assert re.search(node["pattern"], node["default"])


def test_settings_name_every_mistake_with_its_place() -> None:
    with pytest.raises(ValueError, match="logLevel") as error:
        parse_settings({"logLevel": "Loud", "health": {"maxUnavailablePercent": 0}, "loglevel": "Info"})

    assert "loglevel: there is no such setting" in str(error.value)
    assert "health.maxUnavailablePercent" in str(error.value)
    assert parse_settings({}) == Settings()


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    def at(existing: tuple[Condition, ...], status: bool | None, now: str) -> Condition:
        return conditions.condition(existing, "X", status=status, reason="R", message="m" * 2000, now=now)

    first = at((), True, "t1")
    assert at((first,), True, "t2").last_transition_time == "t1"
    assert at((first,), None, "t2") == dataclasses.replace(first, status="Unknown", last_transition_time="t2")
    assert len(first.message) == conditions.MESSAGE_MAX


def test_labels_and_names_fit() -> None:
    longest = "p" * names.POOL_NAME_MAX

    for key in (names.pool_node_label(longest), names.resource_name(longest)):
        assert len(key.partition("/")[2]) <= 63
    assert len(names.plugin_object(longest)) <= names.LABEL_VALUE_MAX  # it is a label's value too


def test_no_module_spells_a_name_by_itself() -> None:
    """Labels and annotations of ours are constants of `controllers.api.names`."""
    stray = re.compile(r"""["'](gpu\.deckhouse\.io/|gpupool-controller\.deckhouse\.io)""")
    allowed = {"controllers/api/names.py"}
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for package in ("controllers", "webhook", "nodeagent")
        for path in sorted((ROOT / package).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in allowed
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if stray.search(line)
    ]

    assert found == []
