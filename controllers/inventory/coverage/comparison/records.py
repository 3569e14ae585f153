"""What is read for the comparison: NodeFeatures with what NFD's rules look at, and the cluster as seen. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from controllers.api import nodefeature
from controllers.api.nodefeature import Attributes, Instances
from controllers.api.record import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.inventory.rule.node_feature_rule import NodeFeatureRule


def _words(elements: Any) -> Any:
    """The names of flags; NFD gives each an empty object."""
    return tuple(sorted(elements)) if isinstance(elements, dict) else elements


@record
class Words:
    """A flag feature: what is there, by name."""

    elements: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()


@record
class FlagFeatures:
    """The flag features that the rule looks at."""

    modules: Words | None = Field(default=None, alias="kernel.loadedmodule")


@record
class AttributeFeatures(nodefeature.AttributeFeatures):
    """The agent's attribute features, and those of NFD that the rule looks at."""

    kernel: Attributes | None = Field(default=None, alias="kernel.version")
    os: Attributes | None = Field(default=None, alias="system.osrelease")


def _displays(feature: Any) -> Any:
    """Of NFD's `pci.device` what may be a card: a hundred other functions of each node are dropped."""
    elements = feature.get("elements") if isinstance(feature, dict) else None
    if not isinstance(elements, list):
        return feature
    kept = [one for one in elements if not isinstance(one, dict) or _may_be_card(one.get("attributes"))]
    return {"elements": kept}


def _may_be_card(attributes: Any) -> bool:
    return not isinstance(attributes, dict) or str(attributes.get("class", "")).startswith(nodefeature.DISPLAYS)


@record
class InstanceFeatures(nodefeature.InstanceFeatures):
    """The instance features; of the bus also each element, since the rule numbers them."""

    bus: Annotated[Instances | None, BeforeValidator(_displays)] = Field(default=None, alias="pci.device")


@record
class Features(nodefeature.Features):
    """Features by their form."""

    instances: InstanceFeatures = Field(default_factory=InstanceFeatures)
    attributes: AttributeFeatures = Field(default_factory=AttributeFeatures)
    flags: FlagFeatures = Field(default_factory=FlagFeatures)


@record
class Spec(nodefeature.NodeFeatureSpec):
    """What somebody says of a node."""

    features: Features = Field(default_factory=Features)


@record
class Report(nodefeature.NodeFeature):
    """A NodeFeature, the agent's or another's."""

    spec: Spec = Field(default_factory=Spec)


@dataclass(frozen=True, slots=True)
class Merged:
    """What NFD's rules see of one node."""

    elements: tuple[Mapping[str, str], ...] = ()
    """Attributes of each element of `pci.device`; none has an address."""
    modules: frozenset[str] = frozenset()
    kernel: Mapping[str, str] = field(default_factory=dict)
    os: Mapping[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nobody reports anything that the rule looks at."""
        return not (self.elements or self.modules or self.kernel or self.os)


def merged(reports: Iterable[Report]) -> Merged:
    """A node's reports as nfd-master merges them: instances and flags add up, of attributes the last wins.

    NFD puts the reports of its own namespace first and sorts the others by name. Its namespace is
    taken to be that of the report named as the node, nfd-worker's.
    """
    elements: list[Mapping[str, str]] = []
    modules: set[str] = set()
    kernel: dict[str, str] = {}
    os: dict[str, str] = {}
    for report in sorted(reports, key=lambda one: (one.name != one.node, one.name, one.metadata.namespace or "")):
        features = report.spec.features
        elements += [element.attributes for element in (features.instances.bus or Instances()).elements]
        modules |= set((features.flags.modules or Words()).elements)
        kernel |= (features.attributes.kernel or Attributes()).elements
        os |= (features.attributes.os or Attributes()).elements
    return Merged(tuple(elements), frozenset(modules), kernel, os)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster as the API server shows it."""

    nodes: tuple[Node, ...] = ()
    reports: tuple[Report, ...] = ()
    devices: tuple[GPUDevice, ...] = ()
    inventories: tuple[GPUNodeInventory, ...] = ()
    rule: NodeFeatureRule | None = None
    """Our NodeFeatureRule; None where it is absent."""
    nfd: bool = True
    """Whether NodeFeature is served."""
    rules: bool = True
    """Whether NodeFeatureRule is served."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Objects that cannot be read, and why."""
    only: frozenset[str] = frozenset()
    """The nodes that were asked for; empty for all."""
