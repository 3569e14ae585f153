"""What containers say to NVIDIA's runtime of cards, after the webhook."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from tests.webhook import world
from webhook.decision import visible_devices

CARD = {"limits": {names.resource_name("a"): "1"}}
VOID = {"name": names.VISIBLE_DEVICES, "value": "void"}
ALL = {"name": names.VISIBLE_DEVICES, "value": "all"}
SECRET = {"name": names.VISIBLE_DEVICES, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
OTHER = {"name": "A", "value": "1"}


def env(container: dict[str, Any], field: str = "containers") -> list[dict[str, Any]] | None:
    raw = {"spec": {field: [{"name": "first", "resources": CARD}, container]}}
    made = world.apply_patch(raw, tuple(visible_devices.operations(raw["spec"])))
    found: list[dict[str, Any]] | None = made["spec"][field][1].get("env")
    return found


@pytest.mark.parametrize("field", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("said", "left"),
    [(None, None), ([], []), ([ALL], []), ([OTHER, ALL, SECRET], [OTHER]), ([VOID], []), ([OTHER], [OTHER])],
)
def test_a_container_with_a_card_says_nothing(said: Any, left: Any, field: str) -> None:
    assert env({"name": "main", "resources": CARD, "env": said}, field) == left


@pytest.mark.parametrize(("said", "left"), [(None, [VOID]), ([ALL], [VOID]), ([SECRET, OTHER], [OTHER, VOID])])
@pytest.mark.parametrize("asks", [{}, {"resources": None}, {"resources": {"limits": {"cpu": "1"}}}])
def test_one_without_is_shown_none_whatever_its_image_asks_for(said: Any, left: Any, asks: dict[str, Any]) -> None:
    assert env({"name": "side", "env": said, **asks}) == left


def test_one_that_another_plugin_serves_is_left_to_it() -> None:
    assert env({"name": "other", "resources": {"limits": {"nvidia.com/gpu": "1"}}, "env": [ALL]}) == [ALL]


def test_what_is_as_it_should_be_is_not_written() -> None:
    containers = [{"name": "main", "resources": CARD}, {"name": "side", "env": [VOID]}]
    assert list(visible_devices.operations({"containers": containers, "initContainers": None})) == []
