"""Whatever stands in labels and reports, the comparison ends in findings, and what can be printed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.record import adapter, to_json
from controllers.inventory.coverage.comparison import entry
from controllers.inventory.coverage.comparison.compare import compare
from controllers.inventory.coverage.comparison.records import ClusterState, Report
from controllers.inventory.coverage.comparison.text import render
from tests.data import facts
from tests.inventory.coverage.world import NFD, NODE, as_report, good, node, our_rule
from tests.kit.reports import feature

ROOT = Path(__file__).resolve().parents[3]
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
ids = st.sampled_from(["10de", "1002", "8086", "2330", "20b0", "0302", "0300", "030200", "", "xyz", "10DE"]) | words
owned = st.sampled_from(
    ["present", "device-count", "device.00.vendor", "device.zz", "driver.name", "driver.module.nvidia", "os.ID",
     "kernel.version.full", "pool.a", ""]
)  # fmt: skip
attributes = st.fixed_dictionaries(
    {},
    optional={
        "vendor": ids, "device": ids, "class": ids, "sriov_totalvfs": st.sampled_from(["16", "-1", "x", "9" * 30]),
        "address": st.sampled_from(["0000:17:00.0", "0000:18:00.0", "00000000:17:00.0", "", "x"]),
        "subsystem_vendor": ids, "subsystem_device": ids, "product": words, "memory_mib": words | st.just("81559"),
        "uuid": words, "compute_major": st.sampled_from(["9", "x", ""]), "compute_minor": st.sampled_from(["0", "x"]),
        "mig_capable": st.sampled_from(["true", "false", "x"]), "mig_profiles": st.sampled_from(["1g.10gb", ",", "x"]),
        "sriov": st.sampled_from(["none", "pf", "vf", "x"]), "driver": words,
    },
)  # fmt: skip
elements = st.lists(attributes.map(lambda one: {"attributes": one}), max_size=5).map(lambda many: {"elements": many})
mapping = st.dictionaries(words | st.sampled_from(["full", "major", "ID", "VERSION_ID", "boot_id"]), words, max_size=4)
features = st.fixed_dictionaries(
    {},
    optional={
        "instances": st.fixed_dictionaries({}, optional={"pci.device": elements, "gpu.device": elements}),
        "attributes": st.fixed_dictionaries(
            {},
            optional={
                name: mapping.map(lambda values: {"elements": values})
                for name in ("kernel.version", "system.osrelease", "gpu.agent", "gpu.driver")
            },
        ),
        "flags": st.just({}) | mapping.map(lambda m: {"kernel.loadedmodule": {"elements": {key: {} for key in m}}}),
    },
)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    """A good node's records, with labels and reports of all kinds."""
    reports = []
    for name, namespace in ((NODE, NFD), (names.agent_feature(NODE), names.NAMESPACE), ("other", "default")):
        if draw(st.booleans()):
            reports.append(as_report(feature(name, NODE, draw(features), namespace=namespace)))
    given_labels = draw(st.dictionaries(owned.map(lambda key: names.PREFIX + key) | words, words, max_size=6))
    rules: Any = draw(st.none() | st.lists(words, max_size=2) | mapping)
    seen = good()
    return replace(
        seen,
        nodes=(node(given=given_labels),) if draw(st.booleans()) else (),
        reports=tuple(reports),
        devices=seen.devices[: draw(st.integers(0, 2))],
        inventories=seen.inventories if draw(st.booleans()) else (),
        rule=our_rule(rules=rules) if draw(st.booleans()) else None,
        nfd=draw(st.booleans()),
    )


@given(clusters(), st.booleans())
@settings(max_examples=300)
def test_no_input_ends_in_an_exception(seen: ClusterState, strict: bool) -> None:
    result = compare(seen, strict=strict)

    assert result == compare(replace(seen, reports=seen.reports[::-1]), strict=strict)
    assert all(finding.reason and finding.about and finding.todo for one in result.nodes for finding in one.findings)
    assert render(result)
    assert yaml.safe_load(yaml.safe_dump(to_json(result))) == json.loads(json.dumps(to_json(result)))
    for model in result.models:
        tomllib.loads(model.entry)


def test_a_text_of_any_characters_is_written_as_toml_reads_it() -> None:
    text = '\U0001f600 \x7f \x00 " \\ \n'
    assert tomllib.loads(f"text = {entry._text(text)}") == {"text": text}


@pytest.mark.parametrize("dump", [dump for dump in facts.dumps("nodefeature*/*.yaml") if facts.nodes(dump)])
def test_real_reports_end_in_findings(dump: str) -> None:
    found = [dict(report) for node in facts.nodes(dump) for report in node.reports]
    assert found
    for one in found:
        one["metadata"].setdefault("labels", {}).setdefault(names.NFD_NODE_NAME, NODE)
        report = adapter(Report).validate_python(one)
        result = compare(ClusterState(nodes=(node(report.node, given={}),), reports=(report,), rule=our_rule()))
        assert render(result)
