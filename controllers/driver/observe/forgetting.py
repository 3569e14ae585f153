"""What is kept of the caches is forgotten where what it was made from changes: decisions, proofs, facts of nodes.

The handlers run in the event loop, as the caches change, and before those that wake keys: whoever is woken finds
nothing that is out of date. What they forget is worked out anew when somebody asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.kube import Node
from controllers.components import cooldown
from controllers.domain.driver.revision import config_maps_of
from controllers.driver.caches import BY_CLAIM, proofs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.agent_report import Report
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, DaemonSet
    from controllers.api.user_pod import ResourceClaim, UserPod
    from controllers.driver.observe.sources import Sources


class Forgetting:
    """Follows the caches for as long as they live; has nothing of its own."""

    def __init__(self, sources: Sources) -> None:
        """Follow the caches of these sources from now on."""
        self._sources = sources
        caches = sources.caches
        caches.drivers.subscribe(self._driver_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.reports.subscribe(self._report_changed)
        caches.inventories.subscribe(self._inventory_changed)
        caches.devices.subscribe(self._device_changed)
        caches.users.subscribe(self._user_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.configmaps.subscribe(self._configmap_changed)
        caches.daemonsets.subscribe(self._daemonset_changed)

    def _driver_changed(self, old: GPUDriver | None, new: GPUDriver | None) -> None:
        if is_another(old, new):
            self._sources.decisions.drivers_changed()
            self._sources.proofs.forget()
        else:
            self._sources.proofs.forget((new or old or Node()).name)

    def _configmap_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        found = new or old
        if found is not None and is_named(self._sources, found):
            self._sources.decisions.contents_changed()
            self._sources.proofs.forget()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._forget((new or old or Node()).name)

    def _report_changed(self, old: Report | None, new: Report | None) -> None:
        for node in nodes_of_reports(old, new):
            self._forget(node)

    def _inventory_changed(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        self._forget((new or old or Node()).name)
        if proved := newly_proved(old, new):
            self._sources.proofs.forget(*proved)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        same = old is not None and new is not None and card_of(old) == card_of(new)
        for node in nodes_of_cards(old, new):
            self._sources.roster.forget(node)
            if not same:
                self._sources.decisions.node_changed(node)

    def _user_changed(self, old: UserPod | None, new: UserPod | None) -> None:
        self._users_changed(nodes_of_users(old, new))

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._users_changed(nodes_of_claim(self._sources, new or old))

    def _users_changed(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._sources.roster.forget(node)

    def _daemonset_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        """Remember when a name became free."""
        cooldown.record_deletion(self._sources.deleted_at, old, new, self._sources.clock())

    def _forget(self, node: str) -> None:
        self._sources.decisions.node_changed(node)
        self._sources.roster.forget(node)


def nodes_of_reports(*reports: Report | None) -> set[str]:
    """The nodes of which these are the agents' reports."""
    return {report.node for report in reports if report is not None and report.is_agent_report}


def nodes_of_cards(*devices: GPUDevice | None) -> set[str]:
    """The nodes that have these cards."""
    return {one.status.node_name for one in devices if one is not None and one.status.node_name}


def nodes_of_users(*pods: UserPod | None) -> set[str]:
    """The nodes to which these pods are bound."""
    return {pod.node for pod in pods if pod is not None and pod.node}


def nodes_of_claim(sources: Sources, claim: ResourceClaim | None) -> set[str]:
    """The nodes of the pods that use a claim."""
    return nodes_of_users(*sources.caches.users.by(BY_CLAIM, claim.key)) if claim is not None else set()


def is_another(old: GPUDriver | None, new: GPUDriver | None) -> bool:
    """Whether a GPUDriver has come, gone, or another spec."""
    return old is None or new is None or _spec(old) != _spec(new)


def is_named(sources: Sources, found: ConfigMap) -> bool:
    """Whether a GPUDriver names the ConfigMap."""
    return any(found.name in config_maps_of(driver.spec) for driver in sources.caches.drivers)


def newly_proved(old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> set[str]:
    """The GPUDrivers of whose revisions a node shows something else by now."""
    if old is not None and new is not None and old.status.last_driver_work == new.status.last_driver_work:
        return set()
    return {proof.rpartition("/")[0] for one in (old, new) if one is not None for proof in proofs_of(one)}


def card_of(device: GPUDevice) -> tuple[object, ...]:
    """What of a card decides which GPUDriver has its node, and what it gets."""
    return device.status.node_name, device.status.hardware, device.status.lost_since, device.metadata.labels


def _spec(driver: GPUDriver) -> tuple[object, ...]:
    return driver.metadata.uid, driver.spec, driver.metadata.deletion_timestamp
