"""NFD's NodeFeature, as far as the module reads it: cards, driver, toolkit, validation, agent.

The objects are 10–100 kB (CPU flags, kernel options); only the fields declared here are
kept. Shapes from NFD's CRD `nodefeatures.nfd.k8s-sigs.io/v1alpha1`: instance features are
lists of string maps, attribute features are one string map each.
"""

from __future__ import annotations

from pydantic import Field

from controllers.api import names
from controllers.api.meta import KubeObject
from controllers.api.record import record


@record
class Element:
    """One instance of a feature."""

    attributes: dict[str, str] = Field(default_factory=dict)


@record
class Instances:
    """All instances of a feature."""

    elements: tuple[Element, ...] = ()


@record
class Attributes:
    """The values of an attribute feature."""

    elements: dict[str, str] = Field(default_factory=dict)


@record
class InstanceFeatures:
    """The instance features that we read."""

    cards: Instances | None = Field(default=None, alias=names.FEATURE_DEVICE)
    pci: Instances | None = Field(default=None, alias="pci.device")


@record
class AttributeFeatures:
    """The attribute features that we read."""

    driver: Attributes | None = Field(default=None, alias=names.FEATURE_DRIVER)
    toolkit: Attributes | None = Field(default=None, alias=names.FEATURE_TOOLKIT)
    validation: Attributes | None = Field(default=None, alias=names.FEATURE_VALIDATION)
    agent: Attributes | None = Field(default=None, alias=names.FEATURE_AGENT)


@record
class Features:
    """Features by their form."""

    instances: InstanceFeatures = Field(default_factory=InstanceFeatures)
    attributes: AttributeFeatures = Field(default_factory=AttributeFeatures)


@record
class NodeFeatureSpec:
    """What somebody says of a node."""

    features: Features = Field(default_factory=Features)


@record
class NodeFeature(KubeObject):
    """One report about one node; several reports may speak of the same node."""

    spec: NodeFeatureSpec = Field(default_factory=NodeFeatureSpec)

    @property
    def node(self) -> str:
        """The node that the report is about; empty where its label is missing."""
        return self.metadata.labels.get(names.NFD_NODE_NAME, "")

    @property
    def is_agent_report(self) -> bool:
        """Whether this is our agent's own report, the only one that tells cards apart."""
        meta = self.metadata
        return bool(self.node) and meta.namespace == names.NAMESPACE and meta.name == names.agent_feature(self.node)
