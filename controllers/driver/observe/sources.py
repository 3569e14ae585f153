"""What views are cut from: the caches, what follows from them, and how the process is set.

One for each process, used from the event loop alone, but for what metrics read of the caches. What is kept here and in
no object (`missing`, `refusals`, `deleted_at`) is forgotten with the process, which asks or waits once more then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api.settings import DriverSettings, HealthSettings
from controllers.components.images import AGENT_IMAGE
from controllers.domain.driver.revision import config_maps_of
from controllers.driver.caches import BY_DRIVER, BY_PHASE
from controllers.driver.decisions import Decisions
from controllers.driver.missing import Missing
from controllers.driver.observe.roster import Roster
from controllers.driver.proofs import Proofs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.api.gpudriver import GPUDriver, Proxy
    from controllers.driver.caches import Caches
    from controllers.driver.decisions import Decision
    from controllers.runtime.plan import Refusal


@dataclass(slots=True)
class Sources:
    """The caches, what is decided from them, and how the process is set."""

    caches: Caches
    clock: Callable[[], float] = time.time
    """Tells epoch seconds."""
    settings: DriverSettings = field(default_factory=DriverSettings)
    max_unavailable_percent: int = HealthSettings().max_unavailable_percent
    """As of `health.maxUnavailablePercent`."""
    enabled: bool = True
    """Whether the module is, and brings drivers onto nodes; else nodes are let go, and nothing more is begun."""
    agent_image: str = AGENT_IMAGE
    cluster_proxy: Proxy | None = None
    missing: Missing = field(default_factory=Missing)
    """Images that a registry does not have."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """Evictions that the API server has refused of late, by the pod's uid."""
    deleted_at: dict[str, float] = field(default_factory=dict)
    """When DaemonSets were gone, in epoch seconds by name (`controllers.components.cooldown`)."""
    decisions: Decisions = field(init=False)
    proofs: Proofs = field(init=False)
    roster: Roster = field(init=False)

    def __post_init__(self) -> None:
        """Decide from these caches."""
        self.decisions = Decisions(self.caches)
        self.proofs = Proofs(self.caches, self.decisions)
        self.roster = Roster(self.caches)

    def driver_of(self, name: str) -> GPUDriver | None:
        """The GPUDriver that has a node, where the module is to bring drivers onto nodes."""
        winner = self.decisions.ranking(name).winner if self.enabled else None
        return self.caches.drivers.get(winner) if winner is not None else None

    def nodes_of(self, driver: str) -> frozenset[str]:
        """The nodes that a GPUDriver has, or is at work on."""
        at_work = (one.name for one in self.caches.inventories.by(BY_DRIVER, driver))
        return self.decisions.nodes_of(driver).union(at_work)

    def decided(self, name: str, driver: GPUDriver) -> Decision | None:
        """What a node gets of a GPUDriver, with regard to missing images; None where the node is not there."""
        inventory = self.caches.inventories.get(name)
        work = inventory.status.driver_work if inventory is not None else None
        return self.decisions.decision(
            name, driver, self.missing.for_node(self.caches.nodes.get(name), work, self.clock())
        )

    def missing_contents(self, driver: GPUDriver) -> tuple[str, ...]:
        """ConfigMaps that a GPUDriver names and that are not there."""
        there = self.decisions.contents(driver)
        return tuple(name for name in config_maps_of(driver.spec) if name not in there)

    def note_missing(self, image: str) -> None:
        """A node's registry does not have an image: no other node asks for it, for a while."""
        self.missing.note_missed(image, self.clock())

    def note_found(self, image: str) -> tuple[str, ...]:
        """A node has got an image; says which nodes waited for it."""
        self.missing.note_found(image, self.clock())
        blocked = self.caches.inventories.by(BY_PHASE, "Blocked")
        return tuple(
            one.name
            for one in blocked
            if one.status.driver_work is not None and image in one.status.driver_work.missing
        )
