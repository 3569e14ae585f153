"""Settings that the chart alone follows: a ModuleConfig may have them, and what is rendered shows each."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controllers.api.record import to_json
from controllers.api.settings import Settings, parse_settings
from tests.templates import harness
from tests.templates.chart_settings import SHOWN, Objects, nested
from tests.templates.test_values import ROOT, defaults, leaves, paths, problems

if TYPE_CHECKING:
    from pathlib import Path

APIS = ("deckhouse.io/v1alpha1/OperationPolicy",)
NO_DEFAULT = {"highAvailability"}
"""Unset, Deckhouse's helper decides."""


def rendered(folder: Path, values: dict[str, Any]) -> Objects:
    """What Helm makes of the chart with these values."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump({ROOT: values}))
    text = harness.render(harness.programs()["helm"], apis=APIS, values=[path])
    return {(one["kind"], one["metadata"]["name"]): one for one in harness.objects(text)}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    return rendered(tmp_path_factory.mktemp("usual"), {})


@pytest.mark.cluster
@pytest.mark.parametrize("path", SHOWN)
def test_a_setting_of_the_chart_is_rendered(usual: Objects, tmp_path: Path, path: str) -> None:
    case = SHOWN[path]
    without = rendered(tmp_path, nested(case.beside)) if case.beside else usual
    assert case.look(without) != case.found
    assert case.look(rendered(tmp_path, nested((case.beside or {}) | {path: case.value}))) == case.found


@pytest.mark.parametrize("path", SHOWN)
def test_a_moduleconfig_may_have_it(path: str) -> None:
    values = nested((SHOWN[path].beside or {}) | {path: SHOWN[path].value})
    parse_settings(values)
    assert problems(values) == []


def test_every_value_of_the_chart_that_is_a_setting_has_a_case() -> None:
    settings = leaves(yaml.safe_load((harness.ROOT / "openapi" / "config-values.yaml").read_text()))
    ours = settings & paths(defaults()[ROOT])
    assert ours | NO_DEFAULT == set(SHOWN)


@pytest.mark.parametrize("path", sorted(SHOWN.keys() - NO_DEFAULT))
def test_the_chart_has_the_settings_default(path: str) -> None:
    setting, value = to_json(Settings()), defaults()[ROOT]
    for name in path.split("."):
        setting, value = setting[name], value[name]
    assert setting == value


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"webhook": {"askedFrom": ["10.0.0.1"]}}, "such as 10.0.0.1/32"),
        ({"webhook": {"askedFrom": ["10.0.0.1/64"]}}, "such as 10.0.0.1/32"),
        ({"webhook": {"url": "https://127.0.0.1:9443"}}, "webhook.url: there is no such setting"),
        ({"nodeAgent": {"apiServer": {"port": "https"}}}, "nodeAgent.apiServer.port"),
        ({"nodeAgent": {"discover": {"driverRoot": "run"}}}, "nodeAgent.discover.driverRoot"),
        ({"presets": {"quotas": [{"namespace": "a", "pools": {"x": 1}}] * 2}}, "namespace a stands there twice"),
    ],
)
def test_a_wrong_one_is_refused_in_a_sentence(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_settings(wrong)


@pytest.mark.cluster
def test_two_quotas_of_one_namespace_are_refused_before_anything_is_installed(tmp_path: Path) -> None:
    two = [{"namespace": "team-a", "pools": {"training": 4}}, {"namespace": "team-a", "pools": {"dev": 1}}]
    with pytest.raises(subprocess.CalledProcessError) as error:
        rendered(tmp_path, {"presets": {"quotas": two}})
    assert 'presets.quotas names namespace "team-a" twice; name all its pools in one entry' in error.value.stderr
