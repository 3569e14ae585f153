"""What is taken off a node when the module goes: its own labels and taints, and nothing of others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.api import names
from controllers.domain.node_marks import unmarked
from tests.kit import objects

OF_POOL = {"key": "example.com/pool", "effect": "NoSchedule"}
OF_DRIVER = {"key": names.DRIVER_TAINT, "effect": "NoSchedule"}
OTHERS = {"key": "example.com/others", "effect": "NoSchedule"}
POOLS_NOTE = {names.POOL_TAINTS: json.dumps([{**OF_POOL, "value": "", "pool": "a"}])}
DRIVERS_NOTE = {names.DRIVER_TAINTED: "main"}


@pytest.mark.parametrize(
    ("annotations", "stay"),
    [
        (POOLS_NOTE, [OF_DRIVER, OTHERS]),
        (DRIVERS_NOTE, [OF_POOL, OTHERS]),
        (POOLS_NOTE | DRIVERS_NOTE, [OTHERS]),
    ],
)
def test_taints_go_that_are_noted_as_ours(annotations: dict[str, str], stay: list[dict[str, Any]]) -> None:
    node = objects.node(meta={"annotations": annotations}, taints=[OF_POOL, OF_DRIVER, OTHERS])
    body = unmarked(node)

    assert body["metadata"]["annotations"] == dict.fromkeys(annotations)
    assert body["spec"]["taints"] == stay


def test_of_a_node_without_a_mark_nothing_is_written() -> None:
    assert unmarked(objects.node(taints=[OF_POOL, OF_DRIVER, OTHERS])) == {}
