"""The view of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.domain.driver.choice import Blocked
from controllers.domain.driver.states import UNDER_WAY
from controllers.domain.driver.variant import object_name
from controllers.driver.caches import BY_NODE, is_used
from controllers.driver.drivers.results import counted_since
from controllers.driver.observe.objects import check_of, look_of, objects_of
from controllers.driver.observe.replaced import recalled, way_back
from controllers.driver.observe.start_permits import permits_of
from controllers.driver.observe.target import bounded_target, target_of, version_of
from controllers.driver.observe.users import users_on
from controllers.driver.views import Named, Objects, ObservedNode, StartPermits

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.domain.driver.choice import Install
    from controllers.driver.caches import Caches
    from controllers.driver.decisions import Decision
    from controllers.driver.observe.sources import Sources
    from controllers.driver.records import Pod


def observe_node(sources: Sources, name: str) -> ObservedNode:
    """Everything about one node: as it is, and what the GPUDriver that has it comes to there."""
    caches = sources.caches
    node, inventory = caches.nodes.get(name), caches.inventories.get(name)
    if node is None or inventory is None:
        return ObservedNode(name, node, inventory, checks=_checks(caches.pods.by(BY_NODE, name)))
    seen = _as_it_is(sources, node, inventory)
    driver = sources.driver_of(name)
    found = sources.decided(name, driver) if driver is not None else None
    if driver is not None and found is not None:
        seen = _with_driver(sources, seen, driver, found)
    work, label = seen.work, node.metadata.labels.get(names.DRIVER_VARIANT)
    return replace(
        seen,
        recalled=recalled(sources, driver, node, work, seen.target),
        wanted_version=version_of(sources, work, work.to if work is not None else None, seen.target),
        labelled_version=version_of(sources, work, label, seen.target),
    )


def _as_it_is(sources: Sources, node: Node, inventory: GPUNodeInventory) -> ObservedNode:
    """The node, whoever has it."""
    caches, name, work = sources.caches, node.name, inventory.status.driver_work
    pods, devices, users = caches.pods.by(BY_NODE, name), caches.devices.by(BY_NODE, name), users_on(caches, name)
    given = [pod for pod in caches.adopted.by(BY_NODE, name) if pod.is_adopted]
    adopted = min((pod for pod in given if not pod.finished), key=_name, default=None)
    wanted = work.to if work is not None and work.to is not None else node.metadata.labels.get(names.DRIVER_VARIANT)
    report = sources.decisions.report(node)
    return ObservedNode(
        name=name,
        node=node,
        inventory=inventory,
        report=report,
        checks=_checks(pods),
        pod=_pod_of(pods, wanted),
        driver_pods=(*(pod for pod in pods if pod.metadata.daemonset is not None), *((adopted,) if adopted else ())),
        adopted=adopted,
        lost_adopted=adopted is None and bool(given),
        devices=tuple(devices),
        closed_pools=_closed_pools(caches, devices),
        users=users,
        refusals=sources.refusals,
        is_asked_again=work is not None and sources.missing.is_asked_again(node, work, sources.clock()),
        used=any(map(is_used, devices)) or bool(users and (report is None or report.driver_version)),
    )


def _with_driver(sources: Sources, seen: ObservedNode, driver: GPUDriver, found: Decision) -> ObservedNode:
    """With what its GPUDriver comes to on the node, and what is to be made for that."""
    name, node, inventory, work = seen.name, seen.node, seen.inventory, seen.work
    if node is None or inventory is None:
        return seen
    back = way_back(sources, driver, node, work, found)
    undone = work is not None and work.undoes is not None
    choice, target = found.choice, back if undone else target_of(sources, name, driver, found)
    if target is not None and isinstance(one_more := bounded_target(sources, target), Blocked):
        choice, target = one_more, None
    made = target if _may_be_begun(node, inventory) else None
    return replace(
        seen,
        driver=driver,
        choice=choice,
        target=target,
        wanted_check=check_of(sources, name, driver, made) if made is not None else None,
        wanted_clearing_check=_clearing_check(sources, name, driver, target, work),
        way_back=back,
        objects=objects_of(sources, driver, made) if made is not None else Objects(),
        permits=permits_of(sources, name, driver, target, found) if target is not None else StartPermits(),
        stratum=found.stratum,
        wanted_result=sources.proofs.results(driver).on(found.stratum),
        counted_since=counted_since(driver, sources.decisions.revision(driver)),
    )


def _clearing_check(
    sources: Sources, name: str, driver: GPUDriver, target: Install | None, work: DriverWork | None
) -> Named | None:
    """The pod that looks before the driver goes; None for a node that is not that far."""
    if work is None or work.phase != "Clearing":
        return None
    if work.hand_over is not None:
        return look_of(sources, name, driver)
    if target is None:
        return None
    return check_of(sources, name, driver, target, clearing=True)


def _closed_pools(caches: Caches, devices: list[GPUDevice]) -> frozenset[str]:
    """Those of the cards' pools that offer none of their cards; one that is not there says nothing."""
    homes = {home for one in devices if (home := one.home) is not None}
    return frozenset(name for name in homes if (pool := caches.pools.get(name)) is not None and pool.is_closed)


def _may_be_begun(node: Node, inventory: GPUNodeInventory) -> bool:
    """Whether the node may need what is made for a target: one whose driver serves, or is under way, does not."""
    work = inventory.status.driver_work
    if work is not None:
        return work.phase not in UNDER_WAY
    serves = is_true(inventory.status.conditions, READY_FOR_POOLING)
    return not (serves and names.DRIVER_VARIANT in node.metadata.labels)


def _checks(pods: list[Pod]) -> tuple[Pod, ...]:
    """The pods that look at the node."""
    return tuple(pod for pod in pods if pod.metadata.daemonset is None)


def _pod_of(pods: list[Pod], variant: str | None) -> Pod | None:
    """The pod of a variant's DaemonSet; of several the one that stays."""
    found = [pod for pod in pods if variant is not None and pod.metadata.daemonset == object_name(variant)]
    return min(found, key=lambda pod: pod.metadata.deletion_timestamp is not None, default=None)


def _name(pod: Pod) -> str:
    return pod.key
