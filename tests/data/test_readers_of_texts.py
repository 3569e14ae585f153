"""Readers of series, lists and schemas, and the text made of series: on small dumps of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.data import text
from tests.data.generate.readers import collectors, exporter, layouts, schema
from tests.data.small import found

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEFINITIONS = """\
spec: {names: {kind: NodeFeature}}
---
metadata: {name: rules.x}
spec:
  group: x
  names: {kind: NodeFeatureRule, plural: rules}
  scope: Cluster
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: What it is.
        type: object
        required: [spec]
        properties:
          description: {type: string, description: A field that is called so.}
          op: {type: string, enum: [In, description], description: What to do.}
          rules: {type: array, items: {type: object, description: One.}}
"""
LAYOUTS = """\
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  all-enabled: [{devices: all, mig-enabled: true, mig-devices: {}}]
  all-balanced:
  - {device-filter: "0x20B010DE", devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 2}}
  - {device-filter: ["0x233010de", "0x233110DE"], devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 2}}
"""
SERIES = """\
Idle 1g.5gb allocated

# HELP DCGM_FI_DEV_GPU_TEMP Words of theirs.
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0", UUID="GPU-1", Hostname="host-7", pod="theirs", namespace=""} 40
DCGM_FI_DEV_GPU_TEMP{gpu="1", UUID="GPU-2"} 9223372036854775794

# Words of theirs.
DCGM_FI_DEV_XID_ERRORS{gpu="1", UUID="GPU-2"} 31.500000
DCGM_FI_DEV_GPU_TEMP{gpu="1", UUID="GPU-2"} 2.5e+09
up 1
"""
SEEN = {
    "families": [
        {"name": "DCGM_FI_DEV_GPU_TEMP", "type": "gauge", "values": [[0, "40"], [1, "9223372036854775794"]]},
        {"name": "DCGM_FI_DEV_XID_ERRORS", "values": [[1, "31.500000"]]},
        {"name": "DCGM_FI_DEV_GPU_TEMP", "values": [[1, "2.5e+09"]]},
        {"name": "up", "values": [[2, "1"]]},
    ],
    "form": ["title", "space after comma", "blank lines"],
    "labels": [
        [["gpu", "0"], ["UUID", "GPU-1"], ["Hostname", "node"], ["pod", "pod"], ["namespace", ""]],
        [["gpu", "1"], ["UUID", "GPU-2"]],
        [],
    ],
}
OLD = """\
$ curl localhost:9400/metrics
# TYPE a gauge
# TYPE b counter
...
a{gpu="0", UUID="GPU-1"} 139
b 1
...
"""
CASES: dict[str, tuple[Callable[[Path], dict[str, Any]], str, dict[str, Any]]] = {
    "a definition": (schema.read, DEFINITIONS, {"nodes": [], "definition": {
        "group": "x", "names": {"kind": "NodeFeatureRule", "plural": "rules"}, "scope": "Cluster", "version": "v1",
        "schema": {"type": "object", "required": ["spec"], "properties": {
            "description": {"type": "string"},
            "op": {"type": "string", "enum": ["In", "description"]},
            "rules": {"type": "array", "items": {"type": "object"}},
        }},
    }}),
    "layouts": (layouts.read, LAYOUTS, {"layouts": {
        "all-disabled": [{}],
        "all-enabled": [{}],
        "all-balanced": [
            {"devices": ["20b0"], "instances": {"1g.5gb": 2}},
            {"devices": ["2330", "2331"], "instances": {"1g.10gb": 2}},
        ],
    }}),
    "names of fields": (collectors.names, "B\nA\n", {"fields": ["A", "B"]}),
    "fields with types": (collectors.types, "# A, gauge, no\nB ,  counter, Words, and more\n\nC, label, Words\nD\n", {
        "fields": {"B": "counter", "C": "label"},
    }),
    "series": (exporter.read, SERIES, SEEN),
    "an old exporter's": (exporter.read, OLD, {
        "families": [
            {"name": "a", "type": "gauge", "values": [[0, "139"]]},
            {"name": "b", "type": "counter", "values": [[1, "1"]]},
        ],
        "form": ["commands", "headers first", "dots", "space after comma"],
        "labels": [[["gpu", "0"], ["UUID", "GPU-1"]], []],
    }),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_reader_finds_what_is_told_and_no_more(tmp_path: Path, case: str) -> None:
    read, dump, told = CASES[case]
    assert found(tmp_path / "dump", read, dump) == told


@pytest.mark.parametrize("dump", [SERIES, OLD])
def test_a_text_made_of_series_is_read_as_the_same_series_and_oddities(tmp_path: Path, dump: str) -> None:
    """The words of the text are ours; series, their order and what is odd are those of the dump."""
    file = tmp_path / "dump"
    file.write_text(dump)
    told = exporter.read(file)
    file.write_text("".join(f"{line}\n" for line in text.lines(told)))
    assert exporter.read(file) == told
    assert "theirs" not in file.read_text()
    assert "host-7" not in file.read_text()


def test_the_text_of_a_real_exporter() -> None:
    made = text.exported("dcgm/docs-dcgm-old-format.txt").decode().splitlines()
    head, dots, sample = made[0], made[6], made[7]
    assert (head, dots) == ("# HELP DCGM_FI_DEV_SM_CLOCK The value of DCGM_FI_DEV_SM_CLOCK.", "...")
    assert sample == 'DCGM_FI_DEV_SM_CLOCK{gpu="0", UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"} 139'
    assert made[-1] == "..."
