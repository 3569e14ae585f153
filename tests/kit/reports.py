"""What is reported of nodes: NodeFeatures of our agent, of NFD's own worker, and of anybody.

They are JSON, and `read_report` gives the record: the record keeps only a little of what NFD says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controllers.api import names
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from tests.kit.objects import BOOT, H100, address


def feature(name: str, node: str | None, told: Any, *, namespace: str = names.NAMESPACE) -> dict[str, Any]:
    """A NodeFeature as JSON, with features of any shape; of no node: without the label that tells which it is about."""
    labels = {names.NFD_NODE_NAME: node} if node is not None else {}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": meta, "spec": {"features": told}}


def features(
    attributes: Mapping[str, Mapping[str, str]], instances: Mapping[str, Iterable[Mapping[str, str]]] | None = None
) -> dict[str, Any]:
    """The features of a report, as NFD nests them: values by name, and lists of what there are many of."""
    made: dict[str, Any] = {"attributes": {name: {"elements": dict(values)} for name, values in attributes.items()}}
    if instances is not None:
        made["instances"] = {
            name: {"elements": [{"attributes": dict(one)} for one in elements]} for name, elements in instances.items()
        }
    return made


def reported(number: int, **changes: str) -> dict[str, str]:
    """One card of a report as the agent writes it, with the driver loaded; an empty value removes one."""
    card = {
        "address": address(0x17 + number), **H100,
        "numa_node": "0", "sriov": "none", "driver": "nvidia", "uuid": f"GPU-00000000-0000-0000-0000-{number:012d}",
        "product": "NVIDIA H100 80GB HBM3", "memory_mib": "81559", "compute_major": "9", "compute_minor": "0",
        "mig_capable": "true", "mig_mode": "disabled", "mig_profiles": "1g.10gb,7g.80gb",
    }  # fmt: skip
    return {key: value for key, value in {**card, **changes}.items() if value}


def report(
    node: str,
    cards: list[dict[str, str]] | None,
    *,
    boot: str = BOOT,
    driver: str = "580.65.06",
    cuda: str = "13.0",
    toolkit: str = "true",
) -> dict[str, Any]:
    """What the agent of a node publishes, as JSON; `cards` None: it says nothing of cards."""
    attributes = {
        names.FEATURE_AGENT: {"boot_id": boot, "version": "1"},
        names.FEATURE_TOOLKIT: {"installed": toolkit},
    }
    if driver:
        attributes[names.FEATURE_DRIVER] = {"version": driver, "cuda_version": cuda}
    instances = None if cards is None else {names.FEATURE_DEVICE: cards}
    return feature(names.agent_feature(node), node, features(attributes, instances))


def nfd_report(node: str, elements: list[dict[str, str]], *, namespace: str = "default") -> dict[str, Any]:
    """What NFD's worker publishes of a node's bus, in its own namespace, as JSON."""
    return feature(node, node, features({}, {"pci.device": elements}), namespace=namespace)


def on_the_bus(count: int, *, device: str = "2330", class_: str = "0302", **more: str) -> list[dict[str, str]]:
    """Equal NVIDIA functions as NFD sees them."""
    return [H100 | {"device": device, "class": class_, **more}] * count


def read_report(report: dict[str, Any]) -> NodeFeature:
    """A report as the module reads it."""
    return adapter(NodeFeature).validate_python(report)
