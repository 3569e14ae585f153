"""What the node's own validators find of the driver that runs, as an outcome. Pure.

They give up patience themselves: what they say is FAILED stays so with this loading of the driver, where it is one of
these words. Other words may pass, and count once the node has been out of service for them for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import validation
from controllers.driver.node.pod import Outcome, fault_of

if TYPE_CHECKING:
    from controllers.api.agent_report import Report
    from controllers.api.kube import Node
    from controllers.api.reasons.typed import Reason
    from controllers.api.validation import Validation
    from controllers.driver.views import ObservedNode

FINAL: Final[dict[str, Reason]] = {
    "FabricIncomplete": "FabricMismatch",
    "CudaError802": "FabricMismatch",
    "CudaError803": "CudaFailed",
    "CudaFailed": "CudaFailed",
    "CudaHangs": "CudaFailed",
    "CudaCopyDiffers": "CudaFailed",
    "CardNotInCuda": "CudaFailed",
    "CardNotStarted": "CardsLost",
    "CardLost": "CardsLost",
    "FirmwareMissing": "ModuleLoad",
}
"""Reasons by words that do not pass."""
MESSAGE_MAX: Final = 600
"""Characters of a validator's message that are passed on."""


def found_on_node(seen: ObservedNode) -> Outcome | None:
    """What fails on the node as a whole, and will not pass; None where nothing does, or nothing was found yet."""
    for role in validation.ROLES:
        said = reported_by(seen, role)
        if said is not None and said.result == validation.FAILED and (reason := FINAL.get(said.reason)) is not None:
            return _outcome(reason, f"the {role} check failed with {said.reason}: {said.message}")
    return None


def found_on_card(seen: ObservedNode, address: str) -> Outcome | None:
    """What fails of one card alone. `address`: its place on the PCI bus, as its GPUDevice has it."""
    for role in validation.ROLES:
        said = reported_by(seen, role)
        if said is not None and address in said.cards_failed:
            reason = FINAL.get(said.reason, "CardFaulted")
            return _outcome(reason, f"the {role} check of the card at {address} failed: {said.message}")
    return None


def reported_by(seen: ObservedNode, role: str) -> Validation | None:
    """What a validator found with the driver that runs; None where it has not looked since that was loaded."""
    report, node = seen.report, seen.node
    feature = report.spec.features.attributes.validation if report is not None else None
    found = validation.read(feature.elements, role) if feature is not None else None
    if report is None or node is None or feature is None or found is None:
        return None
    load = feature.elements.get(validation.key(role, validation.LOAD), "")
    return found.cut(MESSAGE_MAX) if _is_of_this_driver(found, load, report, node) else None


def _is_of_this_driver(found: Validation, load: str, report: Report, node: Node) -> bool:
    """Whether a verdict is of the present start of the node and of the present loading, as far as all tell."""
    driver, booted = report.spec.features.attributes.driver, node.status.node_info.boot_id
    loaded = driver.elements.get(validation.LOAD, "") if driver is not None else ""
    of_boot = not found.boot_id or not booted or found.boot_id == booted
    of_load = not load or not loaded or load == loaded
    return of_boot and of_load and bool(found.version) and found.version == report.driver_version


def _outcome(reason: Reason, message: str) -> Outcome:
    return Outcome(reason=reason, message=message, fault=fault_of(reason))
