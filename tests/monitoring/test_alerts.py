"""Each alert fires when it should and not when it should not, by promtool; and has what Deckhouse wants of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.cases import CASES, Case
from tests.monitoring.exported import of_others, ours
from tests.monitoring.rules import Alert, alerts, groups, metrics_in
from tools.programs import prometheus_package

PROMTOOL = prometheus_package.find("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason=prometheus_package.MISSING)
with_promtool = pytest.mark.more("asks promtool")
SENTENCES = re.compile(r"^[A-Z`{0-9].*[.)}]$", re.DOTALL)
GROUPING = ("plk_create_group_if_not_exists__", "plk_grouped_by__")


@pytest.fixture(scope="session")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The groups as promtool reads them."""
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": list(groups())}))
    return path


def promtool(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROMTOOL), *args], capture_output=True, text=True, check=False)


@with_promtool
@needs_promtool
def test_promtool_takes_the_rules_and_their_templates(rules: Path) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(rules))
    assert done.returncode == 0, done.stdout + done.stderr


def group(case: Case, series: dict[str, str], name: str, *, fires: bool) -> dict[str, Any]:
    """A test of promtool: whether an alert of that name and those labels fires."""
    matching = "".join(f', {key}="{value}"' for key, value in case.says.items())
    labels = ", ".join(f'{key}="{value}"' for key, value in case.says.items())
    asked = {
        "expr": f"count by ({', '.join(case.says)})"
        f' (ALERTS{{alertname="{case.alert}", alertstate="firing"{matching}}})',
        "eval_time": case.at,
        "exp_samples": [{"labels": f"{{{labels}}}", "value": 1}] if fires else [],
    }
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "promql_expr_test": [asked],
    }


def judged(name: str, folder: Path, *tests: dict[str, Any]) -> None:
    """Let promtool judge the rules of that name; the others would only take its time."""
    rules, path = folder / "rules.yaml", folder / "test.yaml"
    ours = [{**one, "rules": [rule for rule in one["rules"] if rule["alert"] == name]} for one in groups()]
    rules.write_text(yaml.safe_dump({"groups": ours}))
    path.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": list(tests)}))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
@needs_promtool
@pytest.mark.parametrize("name", sorted({alert.name for alert in alerts()}))
def test_it_fires_when_it_should_and_not_otherwise(name: str, tmp_path: Path) -> None:
    tests = [
        group(case, series, f"case {at} {'fires' if fires else 'is quiet'}", fires=fires)
        for at, case in enumerate(CASES)
        if case.alert == name
        for series, fires in ((case.firing, True), (case.quiet, False))
    ]
    judged(name, tmp_path, *tests)


@with_promtool
@needs_promtool
def test_it_does_not_fire_before_its_time(tmp_path: Path) -> None:
    """What passes by itself wakes nobody."""
    case = next(one for one in CASES if one.alert == "GPUDriverMissing")
    early, late = case._replace(at="4m"), case._replace(at="6m")
    judged(
        case.alert,
        tmp_path,
        group(early, case.firing, "early", fires=False),
        group(late, case.firing, "late", fires=True),
    )


@with_promtool
@needs_promtool
def test_a_case_that_does_not_hold_is_found(tmp_path: Path) -> None:
    case = next(one for one in CASES if one.alert == "GPUDriverMissing")
    with pytest.raises(AssertionError, match="got: nil"):
        judged(case.alert, tmp_path, group(case, case.quiet, "not so", fires=True))


def test_every_alert_has_a_case_and_every_case_an_alert() -> None:
    assert {case.alert for case in CASES} == {alert.name for alert in alerts()}


def test_cases_are_made_of_series_that_are_exported() -> None:
    names = {
        name for case in CASES for series in (case.firing, case.quiet) for key in series for name in metrics_in(key)
    }
    assert names <= ours() | of_others()


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: f"{alert.name}-{alert.labels.get('process', '')}")
def test_an_alert_is_as_deckhouse_wants_it(alert: Alert) -> None:
    assert alert.labels["severity_level"] in map(str, range(1, 10))
    assert (alert.labels["tier"], alert.labels["d8_module"]) == ("cluster", "gpu-control-plane")
    said = alert.annotations
    assert (said["plk_protocol_version"], said["plk_markup_format"]) == ("1", "markdown")
    suffixes = [{key.removeprefix(prefix) for key in said if key.startswith(prefix)} for prefix in GROUPING]
    assert suffixes[0] == suffixes[1] != set()
    # An alert that is its own group is never delivered.
    assert all(value.split(",")[0] != alert.name for key, value in said.items() if key.startswith(GROUPING))
    for text in (said["summary"], *said["description"].split("\n\n")):
        assert SENTENCES.match(text), text
    assert len(said["description"].split("\n\n")) >= 2  # what was found, and what to do
    assert said["runbook_url"] == f"docs/alerts.md#{alert.name.lower()}"


def test_the_names_of_the_adr_are_there() -> None:
    adr = "GPUDriverMissing GPUNodeFeatureMissing GPUNodeWithoutPool GPUUnassignedDevice GPUPoolCapacityLow"
    adr += " GPUReservationExpired GPUDeviceDegraded LatencySpikes Maintenance Misconfigured"
    assert {alert.name for alert in alerts()} >= set(adr.split())
