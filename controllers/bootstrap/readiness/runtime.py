"""What the toolkit's pod tells of a node's container runtime, out of the node's report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.gpunodeinventory import ContainerRuntime
from controllers.api.runtime_state import KIND_MAX, MESSAGE_MAX, STATES

if TYPE_CHECKING:
    from controllers.bootstrap.readiness.node_state import NodeState


def runtime_of(state: NodeState) -> ContainerRuntime | None:
    """What the node's agent tells of the runtime; None where the module runs no toolkit, or nobody has told yet."""
    report = state.observed.report
    facts = report.spec.features.attributes.toolkit if report is not None else None
    if facts is None or not state.runs("toolkit"):
        return None
    told = facts.elements
    known = next((one for one in STATES if one == told.get("runtime_state")), None)
    if known is None:
        return None
    kind, message = told.get("runtime_kind", "")[:KIND_MAX], told.get("runtime_message", "")[:MESSAGE_MAX]
    return ContainerRuntime(kind=kind, state=known, message=message)
