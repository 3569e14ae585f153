"""The node agent's report of a node, for processes that leave its cards to the inventory. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from controllers.api.nodefeature import Features, InstanceFeatures, NodeFeature, NodeFeatureSpec
from controllers.api.record import record

NO_CARDS = InstanceFeatures()


@record
class ReportFeatures(Features):
    """What the agent says of the node; its cards are the inventory's business."""

    instances: Annotated[InstanceFeatures, BeforeValidator(lambda _: NO_CARDS)] = NO_CARDS


@record
class ReportSpec(NodeFeatureSpec):
    """What the agent says."""

    features: ReportFeatures = Field(default_factory=ReportFeatures)


@record
class Report(NodeFeature):
    """The agent's report of a node."""

    spec: ReportSpec = Field(default_factory=ReportSpec)

    @property
    def driver_version(self) -> str:
        """The driver that is loaded; empty where none is."""
        driver = self.spec.features.attributes.driver
        return (driver.elements.get("version") or "")[:64] if driver is not None else ""
