"""NFD's NodeFeature, as far as the module reads it: cards, driver, toolkit, validation, agent.

The objects are 10–100 kB (CPU flags, kernel options, every function of the PCI bus); only the
fields declared here are kept, and of the bus only how many of which display there are. Shapes
from NFD's CRD `nodefeatures.nfd.k8s-sigs.io/v1alpha1`: instance features are lists of string
maps, attribute features are one string map each.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from controllers.api import names
from controllers.api.meta import KubeObject
from controllers.api.record import record

DISPLAYS = ("03", "12")
"""PCI base classes of what may be a card: display controllers, processing accelerators."""


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
class PciModel:
    """Equal functions on a node's PCI bus; NFD tells no addresses, so they can only be counted."""

    vendor: str
    device: str
    class_: str
    count: int
    virtual_functions: int = 0
    """How many of them may be virtual functions of the others, which alone carry `sriov_totalvfs`."""


def _models(feature: Any) -> Any:
    """Count the displays and accelerators of NFD's `pci.device`; a hundred other functions are dropped."""
    if not isinstance(feature, dict) or not isinstance(feature.get("elements") or [], list):
        return feature  # which is then refused, with its place
    found: Counter[tuple[str, str, str]] = Counter()
    physical: Counter[tuple[str, str, str]] = Counter()
    virtual: Counter[tuple[str, str, str]] = Counter()
    for element in feature.get("elements") or ():
        attributes = element.get("attributes") if isinstance(element, dict) else None
        if not isinstance(attributes, dict) or not str(attributes.get("class", "")).startswith(DISPLAYS):
            continue
        model = (str(attributes.get("vendor", "")), str(attributes.get("device", "")), str(attributes["class"]))
        found[model] += 1
        text = str(attributes.get("sriov_totalvfs", ""))
        total = int(text) if text.isascii() and text.isdigit() and len(text) <= len("65535") else 0
        physical[model] += total > 0
        virtual[model] += total
    return tuple(
        {
            **dict(zip(("vendor", "device", "class_"), model, strict=True)),
            "count": count,
            "virtual_functions": min(virtual[model], count - physical[model]),
        }
        for model, count in sorted(found.items())
    )


@record
class InstanceFeatures:
    """The instance features that we read."""

    cards: Instances | None = Field(default=None, alias=names.FEATURE_DEVICE)
    nvml: Instances | None = Field(default=None, alias=names.FEATURE_NVML)
    pci: Annotated[tuple[PciModel, ...] | None, BeforeValidator(_models)] = Field(default=None, alias="pci.device")
    """Displays and accelerators on the bus; None where the report does not speak of the bus."""


@record
class AttributeFeatures:
    """The attribute features that we read."""

    driver: Attributes | None = Field(default=None, alias=names.FEATURE_DRIVER)
    toolkit: Attributes | None = Field(default=None, alias=names.FEATURE_TOOLKIT)
    validation: Attributes | None = Field(default=None, alias=names.FEATURE_VALIDATION)
    agent: Attributes | None = Field(default=None, alias=names.FEATURE_AGENT)
    system: Attributes | None = Field(default=None, alias=names.FEATURE_SYSTEM)


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
