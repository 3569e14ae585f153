"""Events about a node's conditions: what is told of, and under which name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.conditions import INVENTORY_INCOMPLETE, MANAGED_DISABLED, PREREQUISITE_NOT_MET
from controllers.api.resources import GPUNODEINVENTORY
from controllers.inventory.record.events import condition_event
from controllers.runtime.plan import Ref
from tests.kit.objects import condition

if TYPE_CHECKING:
    from controllers.api.meta import Condition
    from controllers.inventory.record.desired import ReportState

ABOUT = Ref(GPUNODEINVENTORY, "n1")
WAS_WELL = condition(INVENTORY_INCOMPLETE, False)


@pytest.mark.parametrize(
    ("before", "now", "report", "told"),
    [
        (WAS_WELL, condition(INVENTORY_INCOMPLETE), "Current", names.EVENT_INVENTORY_CONDITION),
        (WAS_WELL, condition(INVENTORY_INCOMPLETE), "Outdated", names.EVENT_INVENTORY_OUTDATED),
        (condition(INVENTORY_INCOMPLETE), condition(INVENTORY_INCOMPLETE), "Outdated", None),
        (
            condition(INVENTORY_INCOMPLETE, message="x"),
            condition(INVENTORY_INCOMPLETE),
            "Outdated",
            names.EVENT_INVENTORY_OUTDATED,
        ),
        (WAS_WELL, condition(INVENTORY_INCOMPLETE), "Absent", names.EVENT_NODE_FEATURE_MISSING),
        (None, condition(INVENTORY_INCOMPLETE), "Absent", None),
        (None, condition(INVENTORY_INCOMPLETE), "NotLabelled", names.EVENT_NODE_FEATURE_MISSING),
        (WAS_WELL, condition(INVENTORY_INCOMPLETE, "Unknown"), "NotServed", names.EVENT_NODE_FEATURE_MISSING),
        (None, condition(PREREQUISITE_NOT_MET), "NotServed", names.EVENT_NODE_FEATURE_MISSING),
        (
            condition(PREREQUISITE_NOT_MET),
            condition(PREREQUISITE_NOT_MET, False),
            "Current",
            names.EVENT_INVENTORY_CONDITION,
        ),
        (None, condition(MANAGED_DISABLED), "Outdated", names.EVENT_INVENTORY_CONDITION),
        (None, condition(MANAGED_DISABLED, False), "Absent", None),
    ],
)
def test_a_condition_is_told_of_by_what_its_report_is(
    before: Condition | None, now: Condition, report: ReportState, told: str | None
) -> None:
    found = condition_event(ABOUT, before, now, report)
    assert (found.reason if found is not None else None) == told
