"""The exporter's own list of fields: what is in it, what a slip in it says, and how its pods get it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.api import names
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap.health.dcgm_parser import FIELDS
from controllers.components import build
from controllers.components.pods import collectors, dcgm_exporter
from controllers.runtime.drift import spec_hash
from tests.data import facts

ROOT = Path(__file__).parents[2]
NAME = "gpu-dcgm-exporter"


def exporter() -> dict[str, Any]:
    made: dict[str, Any] = build.daemonsets(Settings().bootstrap)[NAME]["spec"]["template"]
    return made


def test_everything_that_health_reads_is_asked_for() -> None:
    wanted = {spellings[0] for spellings in FIELDS.values()}

    assert wanted <= collectors.FIELDS.keys()
    assert not {name for spellings in FIELDS.values() for name in spellings[1:]} & collectors.FIELDS.keys()


def test_dcgm_knows_every_field() -> None:
    """The exporter does not start with a name that it does not know."""
    known = set(facts.read("dcgm/netdata-all_fields_nonlabel.txt")["fields"])
    metrics = {field for field, kind in collectors.FIELDS.items() if kind != "label"}

    assert len(known) > 300
    assert metrics <= known


@pytest.mark.parametrize("file", ["default-counters", "dcp-metrics-included"])
def test_dashboards_for_the_exporters_own_lists_find_what_they_look_for(file: str) -> None:
    theirs = facts.read(f"dcgm/dcgm-exporter-{file}.csv")["fields"]

    assert len(theirs) >= 20
    assert theirs.items() <= collectors.FIELDS.items()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("DCGM_FI_DEV_GPU_TEMP, gauge", "expected field, type and help"),
        ("DCGM_FI_DEV_GPU_TEMP, gauge, Temperature, of the GPU", "expected field, type and help"),
        ("DCGM_FI_DEV_GPU_TEMP, gauge, ", "expected field, type and help"),
        ("  # a comment that the exporter takes for a field", "expected field, type and help"),
        ("GPU_TEMP, gauge, Temperature", "'GPU_TEMP' is no field of DCGM"),
        ("DCGM_FI_DEV_GPU_TEMP, guage, Temperature", "type 'guage' is none of gauge, counter, label"),
        ("DCGM_FI_DEV_SM_CLOCK, gauge, The same again", "DCGM_FI_DEV_SM_CLOCK is there twice"),
    ],
)
def test_a_slip_is_told(line: str, told: str) -> None:
    usual = "# Clocks\n\nDCGM_FI_DEV_SM_CLOCK,  gauge, SM clock.\n"
    assert collectors.fields(usual) == {"DCGM_FI_DEV_SM_CLOCK": "gauge"}

    with pytest.raises(ValueError, match=re.escape(f"collectors.csv: line 4: {told}")):
        collectors.fields(usual + line)


def test_the_exporter_reads_the_list_from_its_configmap() -> None:
    template = exporter()
    (container,) = template["spec"]["containers"]
    (volume,) = (one for one in template["spec"]["volumes"] if "configMap" in one)
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == volume["name"])
    (made,) = (
        one for name, one in build.configmaps(Settings().bootstrap).items() if name == volume["configMap"]["name"]
    )
    (key,) = made["data"]

    assert mount["readOnly"] is True
    assert {"name": "DCGM_EXPORTER_COLLECTORS", "value": f"{mount['mountPath']}/{key}"} in container["env"]
    assert made["data"][key] == (Path(collectors.__file__).parent / "collectors.csv").read_text()
    assert made["metadata"]["labels"] == build.labels("dcgm-exporter")
    assert made["metadata"]["annotations"] == {names.SPEC_HASH: spec_hash(made["data"])}


def test_another_list_rolls_the_exporter_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.daemonsets(Settings().bootstrap)
    assert exporter()["metadata"]["annotations"] == {names.COLLECTORS_HASH: collectors.HASH}

    other = replace(dcgm_exporter.BUILDER, annotations={names.COLLECTORS_HASH: "another"})
    monkeypatch.setattr(dcgm_exporter, "BUILDER", other)
    after = build.daemonsets(Settings().bootstrap)

    assert {name for name in before if before[name] != after[name]} == {NAME}
    assert before[NAME]["metadata"]["annotations"] != after[NAME]["metadata"]["annotations"]


def test_without_the_exporter_there_is_no_list() -> None:
    assert build.configmaps(parse_settings({"bootstrap": {"dcgmExporter": {"enabled": False}}}).bootstrap) == {}
    assert set(build.configmaps(parse_settings({"bootstrap": {"dcgm": {"enabled": False}}}).bootstrap)) == {NAME}


def test_a_wheel_carries_the_list_and_the_toolkits_script() -> None:
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]

    assert packed[collectors.__name__.rpartition(".")[0]] == ["*.csv", "*.sh"]
