"""What nodes have shown of the revisions of a GPUDriver, kept until something else is shown of one.

One for each process, as long as that lives, and used from the event loop alone; forgotten by
`controllers.driver.observe.forgetting`. Nothing is lost with it: all of it is in statuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.driver.caches import BY_PROOF, trial_of
from controllers.driver.drivers.results import reason_of, results
from controllers.driver.views import Evidence

if TYPE_CHECKING:
    from controllers.api.driver_work import LastDriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.driver.caches import Caches
    from controllers.driver.decisions import Decisions
    from controllers.driver.views import Results


class Proofs:
    """Results of revisions, each remembered until `forget`."""

    def __init__(self, caches: Caches, decisions: Decisions) -> None:
        """Read from these caches; `decisions` tell which revision a GPUDriver wants."""
        self._caches, self._decisions = caches, decisions
        self._results: dict[str, dict[str, Results]] = {}  # by GPUDriver and revision

    def results(self, driver: GPUDriver, revision: str | None = None) -> Results:
        """What is known of a revision of a GPUDriver; of the one that it wants, where none is named."""
        of, known = revision or self._decisions.revision(driver), self._results.setdefault(driver.name, {})
        if (found := known.get(of)) is None:
            found = known[of] = results(driver, of, self.evidence(driver, of))
        return found

    def forget(self, *drivers: str) -> None:
        """Something was shown of a revision of these GPUDrivers; without names, of any."""
        for name in drivers or tuple(self._results):
            self._results.pop(name, None)

    def evidence(self, driver: GPUDriver, revision: str) -> tuple[Evidence, ...]:
        """What nodes say of a revision."""
        said = self._caches.inventories.by(BY_PROOF, trial_of(driver.name, revision))
        return tuple(_evidence_of(one, last) for one in said if (last := one.status.last_driver_work) is not None)


def _evidence_of(inventory: GPUNodeInventory, last: LastDriverWork) -> Evidence:
    """What a node says of the revision by which it was found: of nodes of the kind of which it was at that time."""
    work = inventory.status.driver_work
    return Evidence(
        inventory.name,
        last.stratum or "",
        last.result == "Good",
        last.at,
        last.reason,
        work.message if work is not None and (work.phase == "Failed" or work.undoes == last.revision) else None,
        last.fault,
        last.wave is not None,
        reason_of(last.reason),
    )
