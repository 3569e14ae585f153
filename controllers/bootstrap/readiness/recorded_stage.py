"""The stage of preparation that a GPUNodeInventory records beside ReadyForPooling. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import formerly

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import Bootstrap, Kept, Stage
    from controllers.api.meta import Condition


@dataclass(frozen=True, slots=True)
class RecordedStage:
    """One step of the preparation, as the node's status has it."""

    in_service: bool
    stage: Stage | None
    """None where a version that did not say it said what none of its words tells."""
    component: str | None = None
    kept: Kept | None = None


def recorded_stage(recorded: Bootstrap | None, pooling: Condition | None) -> RecordedStage | None:
    """What was recorded beside ReadyForPooling; None before that was first said."""
    if pooling is None:
        return None
    if recorded is not None and recorded.stage is not None:
        return RecordedStage(pooling.status == "True", recorded.stage, recorded.component, recorded.kept)
    stage, component = formerly.stage(pooling)
    return RecordedStage(pooling.status == "True", stage, component, formerly.kept(pooling))
