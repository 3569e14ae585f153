"""What is decided about nodes by their GPUDrivers, kept until what it is decided from changes.

Which of several GPUDrivers has a node, which revision a spec comes to, and what a node gets of it are functions of
`controllers.domain.driver`; they are asked again and again of thousands of nodes that do not change.

One for each process, as long as that lives, and used from the event loop alone: an answer is worked out where it is
asked for, and `controllers.driver.observe.forgetting` has it forgotten. The settings are no source of any.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names, system_facts
from controllers.api.conditions import MANAGED_DISABLED, MANAGED_ELSEWHERE, find
from controllers.domain.driver.choice import Install
from controllers.domain.driver.images import as_labelled, choose, for_next_kernel
from controllers.domain.driver.node import DriverNode, cards_of, in_mig_mode
from controllers.domain.driver.overlaps import overlaps
from controllers.domain.driver.precedence import Precedence, Ranking
from controllers.domain.driver.revision import config_maps_of, revision
from controllers.domain.driver.variant import revision_of
from controllers.domain.report import is_of_this_boot
from controllers.driver.caches import BY_NODE
from controllers.driver.drivers.results import stratum_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.agent_report import Report
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.domain.driver.choice import Choice
    from controllers.domain.driver.overlaps import Overlap
    from controllers.driver.caches import Caches

NOBODY = Ranking()


@dataclass(frozen=True, slots=True)
class Decision:
    """What a node gets of one GPUDriver."""

    driver: str
    choice: Choice
    next_choice: Choice | None
    """Once it runs the kernel that is installed for its next start; None without one."""
    stratum: str
    """Its kind; empty where no driver is to be installed."""
    missing: frozenset[str] = frozenset()
    """The images that were known to be missing."""


class Decisions:
    """Answers, each remembered until one of its sources changes."""

    def __init__(self, caches: Caches) -> None:
        """Read from these caches."""
        self._caches = caches
        self._precedence: Precedence | None = None
        self._revisions: dict[str, str] = {}
        self._decisions: dict[str, Decision] = {}
        self._rankings: dict[str, Ranking] = {}
        self._nodes_of: dict[str, set[str]] = defaultdict(set)  # by winner
        self._stale: set[str] | None = None  # nodes whose rank may have changed; None for all
        self._overlaps: Mapping[str, Overlap] | None = None

    def drivers_changed(self) -> None:
        """A GPUDriver has come, gone, or another spec."""
        self._precedence, self._stale = None, None
        self.contents_changed()

    def contents_changed(self) -> None:
        """A ConfigMap that a GPUDriver may name has changed."""
        self._revisions.clear()
        self._decisions.clear()

    def node_changed(self, name: str) -> None:
        """What is known of a node has changed."""
        self._decisions.pop(name, None)
        if self._stale is not None:
            self._stale.add(name)

    def revision(self, driver: GPUDriver) -> str:
        """The revision that a GPUDriver's spec comes to."""
        if (found := self._revisions.get(driver.name)) is None:
            found = self._revisions[driver.name] = revision(driver.spec, self.contents(driver))
        return found

    def contents(self, driver: GPUDriver) -> dict[str, Mapping[str, str]]:
        """The data of the ConfigMaps that a GPUDriver names, by name, of those that are there."""
        named = (
            (name, self._caches.configmaps.get(f"{names.NAMESPACE}/{name}")) for name in config_maps_of(driver.spec)
        )
        return {name: found.data for name, found in named if found is not None}

    def ranking(self, name: str) -> Ranking:
        """Which GPUDrivers match a node, and which of them has it."""
        self._rank()
        return self._rankings.get(name, NOBODY)

    def nodes_of(self, driver: str) -> frozenset[str]:
        """The nodes that a GPUDriver has."""
        self._rank()
        return frozenset(self._nodes_of.get(driver, ()))

    def overlap(self, driver: str) -> Overlap | None:
        """What a GPUDriver shares with others."""
        self._rank()
        if self._overlaps is None:
            self._overlaps = overlaps(sorted(self._rankings.items()))
        return self._overlaps.get(driver)

    def _rank(self) -> None:
        """Rank the GPUDrivers on each node that has changed."""
        if self._precedence is None:
            self._precedence = Precedence(self._caches.drivers)
        if self._stale is None:
            self._rankings, self._nodes_of = {}, defaultdict(set)
            self._stale, self._overlaps = {one.name for one in self._caches.inventories}, None
        for name in self._stale:
            before, found = self._rankings.get(name, NOBODY), self._ranked(self._precedence, name)
            if found != before:
                self._rankings[name], self._overlaps = found, None
                self._nodes_of[before.winner or ""].discard(name)
                self._nodes_of[found.winner or ""].add(name)
        self._stale = set()

    def _ranked(self, precedence: Precedence, name: str) -> Ranking:
        node, inventory = self._caches.nodes.get(name), self._caches.inventories.get(name)
        if node is None or inventory is None or not _is_managed(inventory):
            return NOBODY
        work, last = inventory.status.driver_work, inventory.status.last_driver_work
        holder = work.driver if work is not None else last.driver if last is not None else None
        cards = cards_of(self._caches.devices.by(BY_NODE, name), with_lost=work is not None)
        return precedence.of(node.metadata.labels, cards, holder)

    def decision(self, name: str, driver: GPUDriver, missing: frozenset[str] = frozenset()) -> Decision | None:
        """What a node gets of a GPUDriver; None where the node is not there."""
        known = self._decisions.get(name)
        if known is not None and known.driver == driver.name and known.missing == missing:
            return known
        node, inventory = self._caches.nodes.get(name), self._caches.inventories.get(name)
        if node is None or inventory is None:
            return None
        seen = self._as_chosen_for(node, inventory)
        wanted = self.revision(driver)
        choice = choose(driver.spec, wanted, seen, missing)
        after = for_next_kernel(driver.spec, wanted, seen, missing)
        stratum = stratum_of(choice, seen) if isinstance(choice, Install) else ""
        made = self._decisions[name] = Decision(driver.name, choice, after, stratum, missing)
        return made

    def as_labelled(self, name: str, driver: GPUDriver, value: str) -> Install | None:
        """The driver of a label's value on a node, as its GPUDriver makes it; None where it makes none such."""
        node, inventory = self._caches.nodes.get(name), self._caches.inventories.get(name)
        if node is None or inventory is None or revision_of(value) != self.revision(driver):
            return None
        return as_labelled(driver.spec, self.revision(driver), self._as_chosen_for(node, inventory), value)

    def _as_chosen_for(self, node: Node, inventory: GPUNodeInventory) -> DriverNode:
        """The node as a choice sees it."""
        report = self.report(node)
        system = report.spec.features.attributes.system if report is not None else None
        looked = find(inventory.status.conditions, MANAGED_ELSEWHERE) is not None
        elsewhere = inventory.status.managed_elsewhere
        devices, at_work = self._caches.devices.by(BY_NODE, node.name), inventory.status.driver_work is not None
        known = system is not None and looked  # bootstrap, too, has to have looked at the node
        return DriverNode(
            kernel=node.status.node_info.kernel_version,
            facts=system_facts.read(system.elements) if known and system is not None else None,
            cards=cards_of(devices, with_lost=at_work),
            labels=node.metadata.labels,
            managed_elsewhere=(elsewhere.driver if elsewhere is not None else None) or "",
            in_mig_mode=in_mig_mode(devices, with_lost=at_work),
        )

    def report(self, node: Node) -> Report | None:
        """What the node's agent says, where it is of the node's present start."""
        found = self._caches.reports.get(f"{names.NAMESPACE}/{names.agent_feature(node.name)}")
        if found is None or found.node != node.name or not is_of_this_boot(found, node):
            return None
        return found


def _is_managed(inventory: GPUNodeInventory) -> bool:
    """Whether the node is the module's business; until somebody has said so, it is not."""
    found = find(inventory.status.conditions, MANAGED_DISABLED)
    return found is not None and found.status == "False"
