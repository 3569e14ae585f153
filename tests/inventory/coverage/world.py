"""Clusters for the comparison: one node that is as expected, and whatever a test changes in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.api.meta import Condition
from controllers.api.record import adapter, to_json
from controllers.inventory.coverage.comparison.records import ClusterState, Report
from controllers.inventory.coverage.comparison.result import Issue, NodeResult, Result
from controllers.inventory.reports import discovered_cards
from controllers.inventory.rule import node_feature_rule
from controllers.inventory.rule.node_feature_rule import NodeFeatureRule
from tests.kit import objects
from tests.kit.objects import BOOT
from tests.kit.reports import feature, features, report, reported

NODE = "gpu-01"
NFD = "node-feature-discovery"
KERNEL = {"full": "6.8.0-90-generic", "major": "6", "minor": "8", "revision": "0"}
SYSTEM = {"ID": "ubuntu", "VERSION_ID": "24.04", "NAME": "Ubuntu"}
SYSTEM_LABELS = {
    "kernel.version.full": "6.8.0-90-generic", "kernel.version.major": "6", "kernel.version.minor": "8",
    "os.id": "ubuntu", "os.version_id": "24.04",
}  # fmt: skip
DRIVER_LABELS = {"driver.name": "nvidia", "driver.module.nvidia": "true", "driver.module.nvidia_uvm": "true"}
H100 = {"vendor": "10de", "device": "2330", "class": "0302"}
SWITCH = {"vendor": "10de", "device": "22a3", "class": "0680"}
HOST_VGA = {"vendor": "1a03", "device": "2000", "class": "0300"}


def labels(count: int = 2, *, driver: bool = True) -> dict[str, str]:
    """What the rule gives a node with so many H100, written out by hand."""
    made = dict(SYSTEM_LABELS)
    if count:
        made |= {"present": "true", "device-count": str(count)} | (DRIVER_LABELS if driver else {})
    for number in range(count):
        made |= {f"device.0{number}.{key}": value for key, value in H100.items()}
    return {names.PREFIX + key: value for key, value in made.items()}


def labels_of(elements: list[dict[str, str]], *, driver: bool = True) -> dict[str, str]:
    """The labels of cards that are not H100."""
    made = {"present": "true", "device-count": str(len(elements))} | (DRIVER_LABELS if driver else {})
    for number, one in enumerate(elements):
        made |= {f"device.{number:02}.{key}": one[key] for key in ("vendor", "device", "class")}
    return {names.PREFIX + key: value for key, value in made.items()}


def nfd_features(elements: list[dict[str, str]], *, driver: bool = True) -> dict[str, Any]:
    """What nfd-worker reports of a node, as far as the rule looks."""
    modules = ["xfs", "ipmi_si", *(["nvidia", "nvidia_uvm"] if driver else [])]
    told = features({"kernel.version": KERNEL, "system.osrelease": SYSTEM}, {"pci.device": elements})
    return told | {"flags": {"kernel.loadedmodule": {"elements": {name: {} for name in modules}}}}


def nfd_object(name: str, elements: list[dict[str, str]], *, driver: bool = True) -> dict[str, Any]:
    return feature(name, name, nfd_features(elements, driver=driver), namespace=NFD)


def nfd_report(name: str = NODE, count: int = 2, **more: Any) -> Report:
    elements = [HOST_VGA, *([H100] * count), *([SWITCH] if count else [])]
    return as_report(nfd_object(name, elements, **more))


def as_report(obj: dict[str, Any]) -> Report:
    return adapter(Report).validate_python(obj)


def agent_report(name: str = NODE, found: list[dict[str, str]] | None = None, **more: Any) -> Report:
    return as_report(report(name, [reported(0), reported(1)] if found is None else found, **more))


def node(name: str = NODE, *, boot: str = BOOT, given: dict[str, str] | None = None) -> Node:
    return objects.node(name, boot=boot, labels=labels() if given is None else given)


def incomplete(message: str) -> Condition:
    """Condition InventoryIncomplete; False where there is no message."""
    return objects.condition("InventoryIncomplete", bool(message), message=message)


def device(name: str, one: discovered_cards.DiscoveredCard, *, told: str = "") -> GPUDevice:
    hardware = to_json(one.hardware) if one.hardware else None
    return objects.card(name, one.address, hardware=hardware, conditions=[incomplete(told)])


def devices(name: str, agent: Report) -> tuple[GPUDevice, ...]:
    reading = discovered_cards.read(agent)
    assert reading is not None
    return tuple(device(name, one) for one in reading.cards)


def inventory(name: str, found: tuple[GPUDevice, ...]) -> GPUNodeInventory:
    return objects.inventory(name, found)


def our_rule(**spec: Any) -> NodeFeatureRule:
    made = node_feature_rule.manifest()
    return NodeFeatureRule(metadata=NodeFeatureRule().metadata, spec={**made["spec"], **spec})


def good(name: str = NODE, agent: Report | None = None) -> ClusterState:
    """One node with two H100, all as it should be."""
    said = agent or agent_report(name)
    found = devices(name, said)
    return ClusterState(
        nodes=(node(name),),
        reports=(nfd_report(name), said),
        devices=found,
        inventories=(inventory(name, found),),
        rule=our_rule(),
    )


def also(seen: ClusterState, other: ClusterState) -> ClusterState:
    """Both clusters in one."""
    both = {key: getattr(seen, key) + getattr(other, key) for key in ("nodes", "reports", "devices", "inventories")}
    return replace(seen, **both)


def of_node(result: Result, name: str = NODE) -> NodeResult:
    (found,) = [one for one in result.nodes if one.name == name]
    return found


def reasons(found: NodeResult | Result) -> list[str]:
    return [finding.reason for finding in found.findings]


def the_only(found: NodeResult | Result) -> Issue:
    (finding,) = found.findings
    return finding
