"""When a pod of the role goes for good, and what it did to the node goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from nodeagent.toolkit import leaving

THERE: dict[str, Any] = {"metadata": {"name": leaving.OBJECT}}
OPEN: dict[str, Any] = {"metadata": {"labels": {names.deploy_label(leaving.COMPONENT): "true"}}}


@pytest.mark.parametrize(
    ("daemonset", "node", "over"),
    [
        (THERE, OPEN, False),
        (None, OPEN, True),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, OPEN, True),
        (THERE, {"metadata": {}}, True),
        (THERE, {"metadata": {"labels": {names.deploy_label("toolkit"): "false"}}}, True),
        (THERE, None, True),
    ],
)
def test_the_work_is_over_with_the_daemonset_or_with_the_nodes_gate(
    daemonset: dict[str, Any] | None, node: dict[str, Any] | None, over: bool
) -> None:
    assert leaving.is_over(daemonset, node) is over


async def test_where_nobody_can_be_asked_all_stays() -> None:
    assert await leaving.for_good("a", None) is False
