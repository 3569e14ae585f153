"""The agent's report of a node's cards, by itself and against what NFD counts. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.catalogue import is_card
from controllers.domain.report import is_of_this_boot
from controllers.inventory.coverage.comparison.result import Issue
from controllers.inventory.record.conditions import source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.kube import Node
    from controllers.api.nodefeature import NodeFeature
    from controllers.inventory.reports import nfd
    from controllers.inventory.reports.discovered_cards import DiscoveredCards


def agent(
    node: Node, report: NodeFeature | None, reading: DiscoveredCards | None, models: Sequence[nfd.Model], recorded: int
) -> list[Issue]:
    """Whether the agent's report is there, of this boot, and whole."""
    where, pods = source(node.name), f"kubectl -n {names.NAMESPACE} get pods -l app={names.DISCOVER_DAEMONSET} -o wide"
    if report is None or reading is None:
        labelled = node.metadata.labels.get(names.LABEL_PRESENT) == "true"
        if not (models or recorded or labelled):
            return []
        seen = f"{_all(models)}, which NFD sees" if models else f"node {node.name}'s cards"
        return [
            Issue(
                reason="NoAgentReport",
                about=where,
                found="no such object" if report is None else f"no feature {names.FEATURE_DEVICE}",
                expected=f"the addresses of {seen}",
                todo=f"see whether the agent runs on node {node.name}, and its log: {pods}"
                if labelled
                else f"the agent runs on nodes with label {names.LABEL_PRESENT}=true, which this one lacks",
            )
        ]
    found = [
        Issue(
            reason="CardsUnreadable",
            about=where,
            found=problem,
            expected="every card with an address of its own",
            todo=f"look at the agent's log on node {node.name}",
        )
        for problem in reading.problems
    ]
    if not is_of_this_boot(report, node):
        told = report.spec.features.attributes.agent
        stale = Issue(
            reason="ReportOutdated",
            about=where,
            found=f"a report of boot {told.elements.get('boot_id') if told else None}",
            expected=f"one of boot {node.status.node_info.boot_id}, the node's present one",
            todo=f"see whether the agent runs on node {node.name} since its last start, and its log: {pods}",
        )
        found.insert(0, stale)
    return found


def counted(reading: DiscoveredCards, models: Sequence[nfd.Model]) -> list[Issue]:
    """Where the agent and NFD count differently; what may be virtual functions is nobody's mistake."""
    found_pci = [card.hardware.pci for card in reading.cards if card.hardware is not None]
    # What NFD's rule would not take for a card cannot be counted by it.
    named = Counter(f"{p.vendor}:{p.device}" for p in found_pci if is_card(p.vendor, p.device, p.class_))
    seen = {model.name: model for model in models}
    found = []
    for name in sorted(seen.keys() | named.keys()):
        least, most = (seen[name].least, seen[name].most) if name in seen else (0, 0)
        if least <= named[name] <= most:
            continue
        behind, other = ("the agent", "NFD") if named[name] < least else ("nfd-worker", "the agent")
        found.append(
            Issue(
                reason="CountDiffers",
                about=f"cards {name}",
                found=f"{named[name]} in the agent's report",
                expected=f"{least}{f' to {most}' if most != least else ''}, as NFD sees",
                todo=f"where a card was just added or lost, wait a minute and look again; else see the log of {behind}"
                f" on this node: {other} sees more",
            )
        )
    return found


def _all(models: Sequence[nfd.Model]) -> str:
    return ", ".join(f"{model.least} × {model.name}" for model in models)
