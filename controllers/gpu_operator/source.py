"""What an import reads: objects of GPU Operator's, out of a cluster or of files. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.explain import manifests
from controllers.explain.faults import UsageError
from controllers.gpu_operator.chart import is_values, of_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROUP = "nvidia.com"
BUILT_IN = "default-mig-parted-config"
"""The ConfigMap in which it keeps MIG configurations of its own."""
NAMESPACE = "gpu-operator"
"""Where the operator usually runs, and where the ConfigMaps lie that its objects name."""


@dataclass(slots=True)
class Source:
    """The objects, as the API server or a file has them."""

    policies: list[Mapping[str, Any]] = field(default_factory=list)
    """ClusterPolicies, of which the operator follows the oldest."""
    drivers: list[Mapping[str, Any]] = field(default_factory=list)
    """NVIDIADrivers."""
    clusters: list[str] = field(default_factory=list)
    """Names of GPUClusters."""
    config_maps: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Data of ConfigMaps by name."""
    nodes: list[Mapping[str, Any]] | None = None
    """Nodes; None where nobody knows which there are."""

    def add(self, found: Mapping[str, Any]) -> None:
        """Add one object; what is none of these counts for nothing."""
        kind, group = found.get("kind"), str(found.get("apiVersion", "")).partition("/")[0]
        if group == GROUP and kind == "ClusterPolicy":
            self.policies.append(found)
        elif group == GROUP and kind == "NVIDIADriver":
            self.drivers.append(found)
        elif group == GROUP and kind == "GPUCluster":
            self.clusters.append(name_of(found))
        elif kind == "ConfigMap":
            self.config_maps[name_of(found)] = {str(k): str(v) for k, v in (found.get("data") or {}).items()}
        elif kind == "Node":
            self.nodes = [*(self.nodes or ()), found]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing of GPU Operator's."""
        return not (self.policies or self.drivers)


def namespace_of(source: Source) -> str:
    """The operator's namespace, as a ClusterPolicy's status has it."""
    found = ((raw.get("status") or {}).get("namespace") for raw in source.policies)
    return next((name for name in found if isinstance(name, str) and name), NAMESPACE)


def config_maps_named(source: Source) -> set[str]:
    """ConfigMaps that are read for an import, as far as these objects name them."""
    paths = ("devicePlugin.config.name", "migManager.config.name", "driver.kernelModuleConfig.name")
    specs: list[tuple[Any, tuple[str, ...]]] = [(raw.get("spec"), paths) for raw in source.policies]
    specs += [(raw.get("spec"), ("kernelModuleConfig.name",)) for raw in source.drivers]
    found = (_at(spec, path) for spec, those in specs for path in those)
    return {BUILT_IN} | {name for name in found if isinstance(name, str) and name}


def _at(spec: Any, path: str) -> Any:
    for key in path.split("."):
        spec = spec.get(key) if isinstance(spec, dict) else None
    return spec


def name_of(raw: Mapping[str, Any]) -> str:
    """The object's name; raises UsageError where it has none."""
    name = (raw.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"A {raw.get('kind')} has no metadata.name.")
    return name


def read(texts: Iterable[tuple[str, str]]) -> Source:
    """The source from texts of files, each with its name; raises UsageError.

    Each text holds objects as YAML or JSON, Lists among them, or values of GPU Operator's chart.
    """
    source = Source()
    for file, text in texts:
        try:
            for document in manifests.documents(text, file):
                for found in of_values(document) if is_values(document) else (document,):
                    source.add(found)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise UsageError(f"{file} holds no objects of Kubernetes, and no values of GPU Operator's chart.") from None
    return source
