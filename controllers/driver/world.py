"""Views, cut out of the caches for the planners."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.settings import DriverSettings
from controllers.components.images import AGENT_IMAGE
from controllers.domain.driver.bound import VARIANTS_MAX, bounded
from controllers.domain.driver.choice import Blocked, Install
from controllers.domain.driver.flavour import branch_of
from controllers.domain.driver.revision import config_maps_of
from controllers.domain.driver.variant import Variant, is_for_any_kernel, revision_of
from controllers.driver.caches import BY_DRIVER, BY_NODE, BY_PHASE, BY_PROOF, BY_TRIAL, BY_VARIANT, is_used, trial_of
from controllers.driver.decisions import Decisions
from controllers.driver.drivers.results import remembered, results
from controllers.driver.missing import Missing
from controllers.driver.node.begin import may_start
from controllers.driver.node.states import UNDER_WAY
from controllers.driver.node.work import last_of
from controllers.driver.pods import build
from controllers.driver.pods.container_names import DRIVER
from controllers.driver.pods.inputs import Files
from controllers.driver.views import (
    Evidence,
    Member,
    Named,
    Objects,
    ObservedDriver,
    ObservedNode,
    ObservedVariant,
    Results,
    Slots,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.driver_work import DriverWork, LastDriverWork
    from controllers.api.gpudriver import GPUDriver, Proxy
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import DaemonSet, Node
    from controllers.driver.caches import Caches
    from controllers.driver.decisions import Decision
    from controllers.driver.records import Pod


@dataclass(slots=True)
class World:
    """The caches, what is decided from them, and how the process is set."""

    caches: Caches
    clock: Callable[[], float] = time.time
    settings: DriverSettings = field(default_factory=DriverSettings)
    enabled: bool = True
    """Whether the module is, and brings drivers onto nodes; else nodes are let go, and nothing more is begun."""
    agent_image: str = AGENT_IMAGE
    cluster_proxy: Proxy | None = None
    missing: Missing = field(default_factory=Missing)
    """Images that a registry does not have."""
    deleted_at: dict[str, float] = field(default_factory=dict)
    """When DaemonSets were gone, in epoch seconds by name (`controllers.components.cooldown`)."""
    decisions: Decisions = field(init=False)
    _results: dict[str, dict[str, Results]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Decide from these caches."""
        self.decisions = Decisions(self.caches)

    # --- nodes ----------------------------------------------------------------------------

    def node(self, name: str) -> ObservedNode:
        """Everything about one node."""
        node, inventory = self.caches.nodes.get(name), self.caches.inventories.get(name)
        pods = self.caches.pods.by(BY_NODE, name)
        checks = tuple(pod for pod in pods if pod.daemonset is None)
        if node is None or inventory is None:
            return ObservedNode(name, node, inventory, checks=checks)
        driver = self._driver_of(name)
        found = self._decided(name, driver) if driver is not None else None
        choice = found.choice if found is not None else None
        target = self._target(name, driver, found) if driver is not None and found is not None else None
        if target is not None and isinstance(one_more := self._bounded(target), Blocked):
            choice, target = one_more, None
        work = inventory.status.driver_work
        wanted = work.to if work is not None and work.to is not None else node.metadata.labels.get(names.DRIVER_VARIANT)
        made = driver is not None and target is not None and _may_be_begun(node, inventory)
        return ObservedNode(
            name=name,
            node=node,
            inventory=inventory,
            report=self.decisions.report(node),
            driver=driver,
            choice=choice,
            target=target,
            checks=checks,
            wanted_check=self._check(name, driver, target) if made and driver and target else None,
            pod=_pod_of(pods, wanted),
            objects=self.objects(driver, target) if made and driver and target else Objects(),
            slots=self._slots(name, driver, target, found) if driver and target and found else Slots(),
            stratum=found.stratum if found is not None else "",
            is_asked_again=work is not None and self.missing.is_asked_again(node, work, self.clock()),
            used=any(is_used(one) for one in self.caches.devices.by(BY_NODE, name)),
            wanted_version=self._version_of(work, work.to if work is not None else None, target),
            labelled_version=self._version_of(work, node.metadata.labels.get(names.DRIVER_VARIANT), target),
        )

    def _driver_of(self, name: str) -> GPUDriver | None:
        """The GPUDriver that has a node, where the module is to bring drivers onto nodes."""
        winner = self.decisions.ranking(name).winner if self.enabled else None
        return self.caches.drivers.get(winner) if winner is not None else None

    def _decided(self, name: str, driver: GPUDriver) -> Decision | None:
        inventory = self.caches.inventories.get(name)
        work = inventory.status.driver_work if inventory is not None else None
        return self.decisions.decision(
            name, driver, self.missing.for_node(self.caches.nodes.get(name), work, self.clock())
        )

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

    def _target(self, name: str, driver: GPUDriver, found: Decision) -> Install | None:
        """What a node without a driver gets: what is wanted, or the last good revision while that is not proved."""
        choice = found.choice
        if not isinstance(choice, Install):
            return None
        if self.results(driver).on(found.stratum) == "Good" or self._has_failed(name, driver):
            return choice
        return self._former(driver, choice, found.stratum) or choice

    def _has_failed(self, name: str, driver: GPUDriver) -> bool:
        """Whether the last driver that the node was to have failed there: the last good revision is no better."""
        last = last_of(self.caches.nodes.get(name), self.caches.inventories.get(name))
        return last is not None and last.driver == driver.name and last.result == "Failed"

    def _bounded(self, target: Install) -> Install | Blocked:
        """What a node gets, unless it would need one DaemonSet too many."""
        if self.caches.daemonsets.get(f"{names.NAMESPACE}/{target.variant.object_name}") is not None:
            return target
        revision = target.variant.revision
        there = {value for one in self.caches.daemonsets if (value := one.metadata.labels.get(names.DRIVER_VARIANT))}
        return bounded(target, {value for value in there if revision_of(value) == revision}, VARIANTS_MAX)

    def _former(self, driver: GPUDriver, choice: Install, stratum: str) -> Install | None:
        """The last good revision for such a node, where its DaemonSet is still there."""
        current = driver.status.current
        if current is None or current == choice.variant.revision:
            return None
        if self.results(driver, current).on(stratum) != "Good":
            return None  # it is good on nodes of another kind
        variant = Variant(current, choice.variant.system, choice.variant.kernel, choice.variant.modules)
        found = self.caches.daemonsets.get(f"{names.NAMESPACE}/{variant.object_name}")
        known = remembered(driver, current)
        if found is None or known is None or (image := _image_of(found)) is None:
            return None
        version = branch_of(known.version) if variant.kernel else known.version
        return Install(variant, "Precompiled" if variant.kernel else "Compiled", image, version)

    def _check(self, name: str, driver: GPUDriver, target: Install) -> Named:
        body = build.check_pod(
            driver, name, target, self.agent_image, files=self._files(driver), cluster_proxy=self.cluster_proxy
        )
        return Named(build.check_name(name, target), body)

    def objects(self, driver: GPUDriver, target: Install, *, all_of_them: bool = False) -> Objects:
        """A variant's objects as they are built, those that are not there or `all_of_them`."""
        key = f"{names.NAMESPACE}/{target.variant.object_name}"
        daemonset = configmap = None
        if all_of_them or self.caches.daemonsets.get(key) is None:
            daemonset = build.daemonset(
                driver,
                target,
                self.agent_image,
                files=self._files(driver),
                cluster_proxy=self.cluster_proxy,
                reboot_sentinel=self.settings.reboot_sentinel,
            )
        if all_of_them or self.caches.configmaps.get(key) is None:
            configmap = build.configmap(driver, target, files=self._files(driver))
        return Objects(daemonset, configmap)

    def _files(self, driver: GPUDriver) -> Files:
        contents, named = self.decisions.contents(driver), driver.spec.build
        return Files(contents.get(named.repositories.config_map, {}), contents.get(named.certificates.config_map, {}))

    def _slots(self, name: str, driver: GPUDriver, target: Install, found: Decision) -> Slots:
        index, tried = self.caches.inventories, target.variant.revision
        known = remembered(driver, tried)
        result = self.results(driver, tried).on(found.stratum)
        return Slots(
            preflight=index.count(BY_PHASE, "Preflight") < self.settings.prefetch_parallel,
            install=self._installing() < self.settings.install_parallel,
            proved=result == "Good" or not self._is_tried(name, driver, tried, found.stratum),
            bad=result == "Bad",
            held=bool(self._missing_contents(driver)),
            resumed=known.since if known is not None else None,
        )

    def _installing(self) -> int:
        """How many nodes have a slot to install: those that are away take nothing from the registry."""
        at_work = self.caches.inventories.by(BY_PHASE, "Installing")
        return sum(1 for one in at_work if (node := self.caches.nodes.get(one.name)) is not None and node.ready)

    def _is_tried(self, name: str, driver: GPUDriver, revision: str, stratum: str) -> bool:
        """Whether another node of the same kind tries the revision."""
        trying = self.caches.inventories.by(BY_TRIAL, trial_of(driver.name, revision))
        works = (one.status.driver_work for one in trying if one.name != name)
        return any(work is not None and work.stratum == stratum for work in works)

    def _version_of(self, work: DriverWork | None, value: str | None, target: Install | None) -> str | None:
        """What the driver of a variant has to report on a node that is at work."""
        if work is None or value is None:
            return None
        if target is not None and target.variant.value == value:
            return target.version
        driver = self.caches.drivers.get(work.driver)
        known = remembered(driver, revision_of(value)) if driver is not None else None
        if known is None:
            return None
        return known.version if is_for_any_kernel(value) else branch_of(known.version)

    # --- GPUDrivers -------------------------------------------------------------------------

    def results(self, driver: GPUDriver, revision: str | None = None) -> Results:
        """What is known of a revision of a GPUDriver; of the one that it wants, where none is named."""
        of, known = revision or self.decisions.revision(driver), self._results.setdefault(driver.name, {})
        if (found := known.get(of)) is None:
            found = known[of] = results(driver, of, self._evidence(driver, of))
        return found

    def forget_results(self, *drivers: str) -> None:
        """Something was shown of a revision of these GPUDrivers; without names, of any."""
        for name in drivers or tuple(self._results):
            self._results.pop(name, None)

    def _evidence(self, driver: GPUDriver, wanted: str) -> tuple[Evidence, ...]:
        said = self.caches.inventories.by(BY_PROOF, trial_of(driver.name, wanted))
        return tuple(_evidence_of(one, last) for one in said if (last := one.status.last_driver_work) is not None)

    def driver(self, name: str) -> ObservedDriver | None:
        """One GPUDriver with its nodes; None where it is not there."""
        driver = self.caches.drivers.get(name)
        if driver is None:
            return None
        wanted = self.decisions.revision(driver)
        has = {one.name for one in self.caches.inventories.by(BY_DRIVER, name)}
        has |= {one.name for one in self.caches.inventories if self.decisions.ranking(one.name).winner == name}
        return ObservedDriver(
            driver,
            wanted,
            tuple(member for node in sorted(has) if (member := self._member(node, driver)) is not None),
            self.results(driver),
            {one.hash: self.results(driver, one.hash) for one in driver.status.revisions if one.hash != wanted},
            self._evidence(driver, wanted),
            self.decisions.overlap(name),
            self._missing_contents(driver),
            self.enabled,
        )

    def _missing_contents(self, driver: GPUDriver) -> tuple[str, ...]:
        """ConfigMaps that a GPUDriver names and that are not there."""
        there = self.decisions.contents(driver)
        return tuple(name for name in config_maps_of(driver.spec) if name not in there)

    def _member(self, name: str, driver: GPUDriver) -> Member | None:
        node, inventory = self.caches.nodes.get(name), self.caches.inventories.get(name)
        if node is None or inventory is None:
            return None
        found, report = self._decided(name, driver), self.decisions.report(node)
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
            last=inventory.status.last_driver_work,
            version=version,
            node_ready=node.ready,
            may_start=may_start(node),
            loaded=bool(version) and label is None,
            in_service=is_true(inventory.status.conditions, READY_FOR_POOLING),
        )

    # --- variants ---------------------------------------------------------------------------

    def variant(self, value: str) -> ObservedVariant:
        """One variant with its objects."""
        key = f"{names.NAMESPACE}/gpu-driver-{value}"
        labelled = [one.name for one in self.caches.nodes.by(BY_VARIANT, value)]
        users = labelled + [one.name for one in self.caches.inventories.by(BY_VARIANT, value)]
        return ObservedVariant(
            value,
            self.caches.daemonsets.get(key),
            self.caches.configmaps.get(key),
            self._built(value, users),
            bool(users),
            bool(labelled),
            any(self._remembers(driver, revision_of(value)) for driver in self.caches.drivers),
            self.agent_image,
            self.deleted_at,
            self.enabled,
        )

    def _built(self, value: str, users: list[str]) -> Objects:
        """The variant's objects, by a node that has it, or gets it, of a GPUDriver that is as it was."""
        for name in users:
            driver = self._driver_of(name)
            made = self.decisions.as_labelled(name, driver, value) if driver is not None else None
            if driver is not None and made is not None:
                return self.objects(driver, made, all_of_them=True)
        return Objects()

    def _remembers(self, driver: GPUDriver, revision: str) -> bool:
        return self.decisions.revision(driver) == revision or remembered(driver, revision) is not None


def _may_be_begun(node: Node, inventory: GPUNodeInventory) -> bool:
    """Whether the node may need what is made for a target: one whose driver serves, or is under way, does not."""
    work = inventory.status.driver_work
    if work is not None:
        return work.phase not in UNDER_WAY
    serves = is_true(inventory.status.conditions, READY_FOR_POOLING)
    return not (serves and names.DRIVER_VARIANT in node.metadata.labels)


def _pod_of(pods: list[Pod], variant: str | None) -> Pod | None:
    """The pod of a variant's DaemonSet; of several the one that stays."""
    found = [pod for pod in pods if variant is not None and pod.daemonset == f"gpu-driver-{variant}"]
    return min(found, key=lambda pod: pod.metadata.deletion_timestamp is not None, default=None)


def _image_of(daemonset: DaemonSet) -> str | None:
    pod: dict[str, Any] = daemonset.spec.get("template", {}).get("spec", {})
    return next((one.get("image") for one in pod.get("containers", ()) if one.get("name") == DRIVER), None)


def _evidence_of(inventory: GPUNodeInventory, last: LastDriverWork) -> Evidence:
    """What a node says of the revision by which it was found: of nodes of the kind of which it was at that time."""
    work = inventory.status.driver_work
    return Evidence(
        inventory.name,
        last.stratum or "",
        last.result == "Good",
        last.at,
        last.reason,
        work.message if work is not None and work.phase == "Failed" else None,
    )
