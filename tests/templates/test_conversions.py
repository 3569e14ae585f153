"""Settings of earlier versions: Deckhouse's conversions run as Deckhouse runs them, beside those of our processes."""

from __future__ import annotations

from typing import Any, Final

import jq
import pytest
import yaml

from controllers.api.conversions import LATEST, convert
from controllers.api.settings import Settings, parse_settings
from tests.templates import harness
from tests.templates.test_values import problems

FOLDER: Final = harness.ROOT / "openapi" / "conversions"
EARLIER: Final[dict[int, dict[str, Any]]] = {
    1: {
        "logLevel": "Debug",
        "nodeAgent": {
            "apiServer": {"host": "192.0.2.1"},
            "discover": {"runtimeClassName": "nvidia", "askRuntime": True, "driverRoot": "/run/nvidia/driver"},
        },
    },
}
"""Settings of each earlier version that the next one does not have, among some that it has."""
PARTS: Final[list[dict[str, Any]]] = [
    {},
    {"logLevel": "Debug"},
    {"nodeAgent": {}},
    {"nodeAgent": {"discover": {"askRuntime": False}}},
    {"nodeAgent": {"discover": {"runtimeClassName": "nvidia"}}, "bootstrap": {"toolkit": {"enabled": False}}},
]


def by_deckhouse(settings: dict[str, Any], version: int) -> dict[str, Any]:
    """Deckhouse's way: the expressions of a version are one, joined by `|`; the versions follow each other."""
    for number in range(version + 1, LATEST + 1):
        steps = yaml.safe_load((FOLDER / f"v{number}.yaml").read_text())["conversions"]
        settings = jq.compile(" | ".join(steps)).input_value(settings).first()
    return settings


@pytest.mark.parametrize("version", range(1, LATEST))
def test_settings_of_an_earlier_version_are_valid_once_they_are_converted(version: int) -> None:
    old = EARLIER[version]
    with pytest.raises(ValueError, match="there is no such setting"):
        parse_settings(old)
    assert problems(old)

    new = by_deckhouse(old, version)

    assert problems(new) == []
    assert parse_settings(new) == parse_settings(old, version) != Settings()


@pytest.mark.parametrize("settings", [*PARTS, *EARLIER.values()])
def test_our_processes_and_deckhouse_convert_alike(settings: dict[str, Any]) -> None:
    assert convert(settings, 1) == by_deckhouse(settings, 1)


def test_what_stays_is_kept_and_the_stored_object_is_not_touched() -> None:
    old = EARLIER[1]
    new = convert(old, 1)

    assert new["nodeAgent"] == {"apiServer": {"host": "192.0.2.1"}, "discover": {"driverRoot": "/run/nvidia/driver"}}
    assert "askRuntime" in old["nodeAgent"]["discover"]
    assert convert(old, LATEST) == old


def test_settings_of_another_shape_are_left_to_be_refused() -> None:
    for wrong in ({"nodeAgent": {"discover": "all"}}, {"nodeAgent": None}, {"nodeAgent": [1]}):
        assert convert(wrong, 1) == wrong
        with pytest.raises(ValueError, match="nodeAgent"):
            parse_settings(wrong, 1)
