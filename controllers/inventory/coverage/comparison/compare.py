"""From what is seen of a cluster to what is not as expected in it. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from controllers.api import names
from controllers.domain.report import is_of_this_boot
from controllers.inventory.coverage.comparison import hardware, labels, models, prerequisites, reported
from controllers.inventory.coverage.comparison.records import merged
from controllers.inventory.coverage.comparison.result import Issue, NodeResult, Result, failing
from controllers.inventory.identity import node_of
from controllers.inventory.reports import discovered_cards, nfd
from controllers.inventory.rule.expected_labels import labels as expected_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.inventory.coverage.comparison.records import ClusterState, Report

T = TypeVar("T")


def compare(seen: ClusterState, *, strict: bool = False) -> Result:
    """The whole comparison; `strict`: notes and unknown models fail too."""
    reports = _by(seen.reports, lambda report: report.node)
    devices = _by(seen.devices, node_of)
    inventories = {one.name: one for one in seen.inventories}
    nodes = {node.name: node for node in seen.nodes}
    everywhere = {*nodes, *reports, *devices, *inventories} - {""}
    wanted = sorted(everywhere & seen.only if seen.only else everywhere)
    of_nodes = tuple(
        _node(nodes[name], reports[name], devices[name], inventories.get(name), served=seen.nfd)
        if name in nodes
        else _no_node(name, reports[name], devices[name], inventories.get(name))
        for name in wanted
    )
    found = tuple(prerequisites.findings(seen))
    strange = models.compare_models({name: reports[name] for name in wanted if name in nodes})
    failed = (
        failing(found, strict=strict)
        or any(failing(node.findings, strict=strict) for node in of_nodes)
        or (strict and bool(strange))
    )
    return Result(ok=not failed, findings=found, nodes=of_nodes, models=strange)


def _by(items: Iterable[T], key: Callable[[T], str]) -> defaultdict[str, list[T]]:
    found: defaultdict[str, list[T]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def _node(
    node: Node,
    reports: list[Report],
    devices: list[GPUDevice],
    inventory: GPUNodeInventory | None,
    *,
    served: bool,
) -> NodeResult:
    """A node that is there."""
    if not served:
        return NodeResult(name=node.name, cards=len(devices))
    report = next((one for one in reports if one.is_agent_report), None)
    others = [one for one in reports if one is not report]
    seen, counts, reading = merged(reports), nfd.total(others), discovered_cards.read(report)
    fresh = report is not None and is_of_this_boot(report, node)
    found = reported.agent(node, report, reading, counts, len(devices))
    same = 0
    if others:
        expected = expected_labels(seen.elements, seen.modules, seen.kernel, seen.os)
        same, wrong = labels.compare_labels(node, expected)
        found += wrong
        found += reported.counted(reading, counts) if reading is not None else []
    else:
        found.append(_unseen(node, reading, devices))
    good, wrong = hardware.recorded(node.name, reading, devices, fresh=fresh)
    found += wrong
    found += hardware.inventory(node.name, inventory, devices, wanted=bool(reading and reading.cards))
    return NodeResult(name=node.name, labels=same, cards=good, findings=tuple(found))


def _unseen(node: Node, reading: discovered_cards.DiscoveredCards | None, devices: list[GPUDevice]) -> Issue:
    """A node of which NFD says nothing: a mistake where it has cards, a remark where nothing tells of any."""
    has = bool(devices) or bool(reading and reading.cards) or names.LABEL_PRESENT in node.metadata.labels
    return Issue(
        reason="NotSeenByNFD",
        about=f"Node {node.name}",
        found="no NodeFeature of nfd-worker",
        expected="one, that tells of its cards" if has else "one, if the node may have cards",
        todo="see whether nfd-worker's DaemonSet tolerates the node's taints and its pod there runs",
        note=not has,
    )


def _no_node(
    name: str, reports: list[Report], devices: list[GPUDevice], inventory: GPUNodeInventory | None
) -> NodeResult:
    """A name without a node: what is on record under it should be gone."""
    found = hardware.gone(name, devices, inventory)
    if not found:
        which = ", ".join(sorted(report.key for report in reports))
        todo = "NFD's garbage collector (nfd-gc) removes it within an hour; delete it by hand where there is none"
        left = f"NodeFeature {which}"
        found = [
            Issue(
                reason="ReportLeftOver", about=f"Node {name}", found=left, expected="a node of that name", todo=todo,
                note=True,
            )
        ]  # fmt: skip
    return NodeResult(name=name, findings=tuple(found))
