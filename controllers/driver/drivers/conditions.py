"""The conditions of a GPUDriver. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.domain.driver.choice import Blocked
from controllers.domain.driver.overlaps import explain
from controllers.domain.wording import listed
from controllers.driver.drivers.progress import BEHIND, BUSY, TROUBLE
from controllers.driver.drivers.results import reason_of
from controllers.driver.node.begin import contents_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from controllers.api.reasons.typed import Reason
    from controllers.driver.drivers.progress import NodeProgress
    from controllers.driver.views import ObservedDriver

READY: Final = "Ready"
PROGRESSING: Final = "Progressing"
BLOCKED: Final = "Blocked"
FAILED: Final = "Failed"
HALTED: Final = "Halted"
OVERLAPS: Final = "Overlaps"
SETTINGS_INVALID: Final = "SettingsInvalid"
NEXT_KERNEL_UNSERVED: Final = "NextKernelUnserved"
MOVING: Final[tuple[Reason, ...]] = (
    "AwaitingSlot",
    "AwaitingProof",
    "AwaitingWave",
    "BudgetReached",
    "PoolBudgetReached",
    "GPUHoursSpent",
    "AwaitingWindow",
    "TooManyNodesOut",
    "PoolInMaintenance",
    "NodeCordoned",
    "NodeNotReady",
    "KernelChanged",
    "AwaitingFacts",
)
"""What nodes wait for that comes by itself, or that is one node's alone; the first that holds is told."""
HELD: Final[tuple[Reason, ...]] = ("RolloutPaused", "ConfigMapMissing", "RevisionBad", "RolloutHalted")
"""What keeps all nodes until a person does something; likewise."""
GOES_BACK: Final = {
    "None": "none gets the former one back by itself",
    "FailedNodes": "those on which it failed get the former one back",
    "Wave": "those of the wave in which it failed get the former one back",
    "All": "all that have it get the former one back",
}
"""Which nodes are rolled back, by `rollout.rollback`."""
EXPLAINED: Final = 3
"""Reasons that a message explains one by one."""


@dataclass(frozen=True, slots=True)
class About:
    """A GPUDriver, and where its nodes are."""

    observed: ObservedDriver
    nodes: tuple[NodeProgress, ...]


def findings(seen: ObservedDriver, nodes: tuple[NodeProgress, ...]) -> dict[str, Finding]:
    """Every condition by its type."""
    return {kind: find(About(seen, nodes)) for kind, find in CONDITIONS.items()}


def _ready(about: About) -> Finding:
    words: Counter[str] = Counter(node.phase for node in about.nodes)
    total = sum(words.values())
    if about.observed.driver.metadata.deletion_timestamp is not None:
        return Finding(False, "BeingDeleted", f"{_nodes(total)} still under way; what is loaded stays")
    if total == 0:
        return Finding(None, "NoNodes", "no node with cards is this driver's")
    away = sum(node.is_away for node in about.nodes)
    served = words["Current"] - away + words["Host"] + words["OptedOut"]
    found: tuple[tuple[int, Reason, str], ...] = (
        (sum(words[word] for word in TROUBLE), "NodesFailed", "failed"),
        (words["Blocked"], "NodesBlocked", "cannot get it"),
        (sum(words[word] for word in BUSY), "NodesAtWork", "without it yet"),
        (sum(words[word] for word in BEHIND), "NodesOutdated", "with another revision"),
        (away, "NodesOutOfService", "out of service with it"),
    )
    said = ", ".join(f"{number} {what}" for number, _, what in found if number)
    reason = next((word for number, word, _ in found if number), None)
    if reason is None:
        return Finding(True, "AllNodesReady", f"{_nodes(total)} as asked for")
    return Finding(False, reason, f"of {_nodes(total)} {served} as asked for, {said}")


def _progressing(about: About) -> Finding:
    working = [node for node in about.nodes if node.phase in BUSY and not node.is_waiting]
    waiting = [node for node in about.nodes if node.is_waiting]
    if working:
        counts = Counter(node.phase for node in working)
        said = ", ".join(f"{counts[word]} in {word}" for word in sorted(counts))
        return Finding(True, "NodesAtWork", f"{said}, {len(waiting)} waiting")
    if not waiting:
        return Finding(False, "NothingToDo", "no node is at work, and none waits")
    counted = _by_reason(waiting)
    reason: Reason = next((word for word in (*MOVING, *HELD) if word in counted), "RevisionBad")
    return Finding(reason in MOVING, reason, _counted(counted))


def _blocked(about: About) -> Finding:
    return _blockers(about.nodes, ("Blocked",), "no node is kept from the driver")


def _failed(about: About) -> Finding:
    return _blockers(about.nodes, TROUBLE, "no node failed with the driver")


def _blockers(nodes: Iterable[NodeProgress], words: Collection[str], none: str) -> Finding:
    """Nodes in a state of trouble: the most frequent reason, how many have each, and what one of each says."""
    found = [node for node in nodes if node.phase in words]
    if not found:
        return Finding(False, "AsExpected", none)
    counted = _by_reason(found)
    said = {node.reason: node.message for node in reversed(found) if node.reason is not None}
    most = max(counted, key=lambda reason: (counted[reason], reason), default=None)
    if most is None:
        return Finding(True, "PreflightFailed" if "Blocked" in words else "DriverPodFailed", f"{_nodes(len(found))}")
    explained = [f"{reason}: {said[reason]}" for reason, _ in counted.most_common(EXPLAINED)]
    return Finding(True, most, f"{_counted(counted)}. {'; '.join(explained)}")


def _halted(about: About) -> Finding:
    """What speaks against the revision: on which kinds of nodes none is started any more, why, and how to go on."""
    bad = sorted(key for key, result in about.observed.results.strata.items() if result == "Bad")
    if (alike := about.observed.results.halted) is not None:
        return Finding(True, alike, _alike(about, alike))
    if about.observed.results.revision != "Bad" and not bad:
        return Finding(False, "AsExpected", f"nothing speaks against revision {about.observed.revision}")
    first = min((one for one in about.observed.evidence if not one.good), key=lambda one: one.since, default=None)
    reason: Reason = (reason_of(first.reason) if first is not None else None) or "DriverPodFailed"
    failed = len({one.node for one in about.observed.evidence if one.fault == "Revision"})
    on = f"{_nodes(failed)}, first on" if failed > 1 else "node"
    why = f"on {on} {first.node}: {first.message or ''}" if first is not None else "on a node that is gone"
    where = f"no node like these gets it: {listed(bad)}" if bad else "it is given to no node"
    do = f"set another spec.version, or kubectl annotate gpudriver {about.observed.driver.name} {names.RESUME}=true"
    back = GOES_BACK[about.observed.driver.spec.rollout.rollback]
    return Finding(True, reason, f"revision {about.observed.revision} failed {why[:600]}. {where}; {back}; {do}")


def _alike(about: About, reason: Reason) -> str:
    """What befell several nodes, by which no node at all is started."""
    names_of = sorted(one.node for one in about.observed.evidence if one.reason == reason)
    driver = about.observed.driver.name
    do = f"mend it, then kubectl annotate gpudriver {driver} {names.RESUME}=true"
    return f"{reason} befell {len(names_of)} nodes within an hour ({listed(names_of)}), so no node is started: {do}"


def _overlaps(about: About) -> Finding:
    if about.observed.overlap is None or not (text := explain(about.observed.overlap)):
        return Finding(False, "AsExpected", "no node that it matches is matched by another driver")
    return Finding(True, "OthersHaveNodes" if about.observed.overlap.lost else "EqualPriority", text)


def _settings(about: About) -> Finding:
    if not about.observed.missing:
        return Finding(False, "AsExpected", "what the driver names is there")
    return Finding(True, "ConfigMapMissing", contents_missing(about.observed.missing))


def _next_kernel(about: About) -> Finding:
    found = {one.name: one.next_choice for one in about.observed.members if isinstance(one.next_choice, Blocked)}
    if not found:
        return Finding(False, "AsExpected", "the driver serves the kernels that nodes will start with")
    said = next(iter(found.values())).message
    return Finding(True, "NextKernelUnserved", f"{_nodes(len(found))} ({listed(found)}): {said}")


CONDITIONS: Final[dict[str, Callable[[About], Finding]]] = {
    READY: _ready,
    PROGRESSING: _progressing,
    BLOCKED: _blocked,
    FAILED: _failed,
    HALTED: _halted,
    OVERLAPS: _overlaps,
    SETTINGS_INVALID: _settings,
    NEXT_KERNEL_UNSERVED: _next_kernel,
}


def _by_reason(nodes: Iterable[NodeProgress]) -> Counter[Reason]:
    return Counter(node.reason for node in nodes if node.reason is not None)


def _counted(counted: Counter[Reason]) -> str:
    return ", ".join(f"{reason}: {_nodes(number)}" for reason, number in counted.most_common())


def _nodes(number: int) -> str:
    return f"{number} node{'s' if number != 1 else ''}"
