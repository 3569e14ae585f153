"""The view of a GPUDriver: what is known of its revisions, and its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.driver.node.begin import may_start
from controllers.driver.node.work import last_of
from controllers.driver.observe.rollout import rolled
from controllers.driver.views import Member, ObservedDriver

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver
    from controllers.driver.observe.sources import Sources


def observe_driver(sources: Sources, name: str) -> ObservedDriver | None:
    """One GPUDriver with its nodes; None where it is not there."""
    caches, decisions, proofs = sources.caches, sources.decisions, sources.proofs
    driver = caches.drivers.get(name)
    if driver is None:
        return None
    wanted = decisions.revision(driver)
    return ObservedDriver(
        driver,
        wanted,
        tuple(
            member for node in sorted(sources.nodes_of(name)) if (member := _member(sources, node, driver)) is not None
        ),
        proofs.results(driver),
        {one.hash: proofs.results(driver, one.hash) for one in driver.status.revisions if one.hash != wanted},
        proofs.evidence(driver, wanted),
        decisions.overlap(name),
        sources.missing_contents(driver),
        rolled(sources, name),
        sources.enabled,
    )


def _member(sources: Sources, name: str, driver: GPUDriver) -> Member | None:
    node, inventory = sources.caches.nodes.get(name), sources.caches.inventories.get(name)
    if node is None or inventory is None:
        return None
    found, report = sources.decided(name, driver), sources.decisions.report(node)
    label = node.metadata.labels.get(names.DRIVER_VARIANT)
    version = report.driver_version if report is not None else ""
    return Member(
        name=name,
        choice=found.choice if found is not None else None,
        next_choice=found.next_choice if found is not None else None,
        stratum=found.stratum if found is not None else "",
        kernel=node.status.node_info.kernel_version,
        label=label,
        work=inventory.status.driver_work,
        last=last_of(node, inventory),
        version=version,
        node_ready=node.ready,
        may_start=may_start(node),
        loaded=bool(version) and label is None,
        in_service=is_true(inventory.status.conditions, READY_FOR_POOLING),
    )
