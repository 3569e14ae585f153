"""Views, cut out of the caches for the planners."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.settings import DriverSettings
from controllers.components.images import AGENT_IMAGE
from controllers.domain.driver.bound import VARIANTS_MAX, bounded
from controllers.domain.driver.choice import Blocked, Install
from controllers.domain.driver.flavour import branch_of
from controllers.domain.driver.revision import config_maps_of
from controllers.domain.driver.variant import ANY, PROPRIETARY, Variant, revision_of
from controllers.driver.caches import BY_DRIVER, BY_NODE, BY_PHASE, BY_PROOF, BY_TRIAL, BY_VARIANT, trial_of
from controllers.driver.decisions import Decisions
from controllers.driver.drivers.results import remembered, results
from controllers.driver.node.begin import may_start
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

    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver, Proxy
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import DaemonSet
    from controllers.driver.caches import Caches
    from controllers.driver.decisions import Decision
    from controllers.driver.records import Pod

MISSING_FOR = 300.0
"""Seconds for which an image that one node did not find in its registry is not asked for on others."""


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
    missing: dict[str, float] = field(default_factory=dict)
    """Images that a registry does not have, by when they may be asked for again."""
    deleted_at: dict[str, float] = field(default_factory=dict)
    """When DaemonSets were gone, in epoch seconds by name (`controllers.components.cooldown`)."""
    decisions: Decisions = field(init=False)
    _results: dict[str, Results] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Decide from these caches."""
        self.decisions = Decisions(self.caches)

    # --- nodes ----------------------------------------------------------------------------

    def node(self, name: str) -> ObservedNode:
        """Everything about one node."""
        node, inventory = self.caches.nodes.get(name), self.caches.inventories.get(name)
        if node is None or inventory is None:
            return ObservedNode(name, node, inventory)
        driver = self._driver_of(name)
        found = self._decided(name, driver) if driver is not None else None
        choice = found.choice if found is not None else None
        target = self._target(name, driver, found) if driver is not None and found is not None else None
        if target is not None and isinstance(one_more := self._bounded(target), Blocked):
            choice, target = one_more, None
        work = inventory.status.driver_work
        pods = self.caches.pods.by(BY_NODE, name)
        wanted = work.to if work is not None and work.to is not None else node.metadata.labels.get(names.DRIVER_VARIANT)
        made = driver is not None and target is not None
        return ObservedNode(
            name=name,
            node=node,
            inventory=inventory,
            report=self.decisions.report(node),
            driver=driver,
            choice=choice,
            target=target,
            checks=tuple(pod for pod in pods if pod.daemonset is None),
            wanted_check=self._check(name, driver, target) if made and driver and target else None,
            pod=_pod_of(pods, wanted),
            objects=self.objects(driver, target) if made and driver and target else Objects(),
            slots=self._slots(name, driver, target, found) if driver and target and found else Slots(),
            wanted_version=self._wanted_version(work, target),
        )

    def _driver_of(self, name: str) -> GPUDriver | None:
        """The GPUDriver that has a node, where the module is to bring drivers onto nodes."""
        winner = self.decisions.ranking(name).winner if self.enabled else None
        return self.caches.drivers.get(winner) if winner is not None else None

    def _decided(self, name: str, driver: GPUDriver) -> Decision | None:
        now = self.clock()
        if any(until <= now for until in self.missing.values()):
            self.missing = {image: until for image, until in self.missing.items() if until > now}
            self.decisions.contents_changed()
        return self.decisions.decision(name, driver, self.missing)

    def note_missing(self, image: str) -> None:
        """A node's registry does not have an image: no other node asks for it, for a while."""
        self.missing[image] = self.clock() + MISSING_FOR
        self.decisions.contents_changed()

    def _target(self, name: str, driver: GPUDriver, found: Decision) -> Install | None:
        """What a node without a driver gets: what is wanted, or the last good revision while that is not proved."""
        choice = found.choice
        if not isinstance(choice, Install):
            return None
        if self.results(driver).on(found.stratum) == "Good":
            return choice
        work = self.caches.inventories.get(name)
        begun = work.status.driver_work if work is not None else None
        if begun is not None and begun.phase == "Failed" and revision_of(begun.to or "") == driver.status.current:
            return choice
        return self._former(driver, choice) or choice

    def _bounded(self, target: Install) -> Install | Blocked:
        """What a node gets, unless it would need one DaemonSet too many."""
        if self.caches.daemonsets.get(f"{names.NAMESPACE}/{target.variant.object_name}") is not None:
            return target
        revision = target.variant.revision
        there = {value for one in self.caches.daemonsets if (value := one.metadata.labels.get(names.DRIVER_VARIANT))}
        return bounded(target, {value for value in there if revision_of(value) == revision}, VARIANTS_MAX)

    def _former(self, driver: GPUDriver, choice: Install) -> Install | None:
        """The last good revision for such a node, where its DaemonSet is still there."""
        current = driver.status.current
        if current is None or current == choice.variant.revision:
            return None
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
        wanted, index = self.decisions.revision(driver), self.caches.inventories
        known = remembered(driver, target.variant.revision)
        result = self.results(driver).on(found.stratum) if target.variant.revision == wanted else "Good"
        return Slots(
            preflight=index.count(BY_PHASE, "Preflight") < self.settings.prefetch_parallel,
            install=index.count(BY_PHASE, "Installing") < self.settings.install_parallel,
            proved=result == "Good" or not self._is_tried(name, driver, wanted, found.stratum),
            held=result == "Bad" or bool(self._missing_contents(driver)),
            resumed=known.since if known is not None else None,
        )

    def _is_tried(self, name: str, driver: GPUDriver, wanted: str, stratum: str) -> bool:
        """Whether another node of the same kind tries the revision."""
        trying = self.caches.inventories.by(BY_TRIAL, trial_of(driver.name, wanted))
        return any(one.name != name and self._stratum(one.name, driver) == stratum for one in trying)

    def _stratum(self, name: str, driver: GPUDriver) -> str:
        found = self._decided(name, driver)
        return found.stratum if found is not None else ""

    def _wanted_version(self, work: DriverWork | None, target: Install | None) -> str | None:
        """What the driver that a node is on its way to has to report."""
        if work is None or work.to is None:
            return None
        if target is not None and target.variant.value == work.to:
            return target.version
        driver = self.caches.drivers.get(work.driver)
        known = remembered(driver, revision_of(work.to)) if driver is not None else None
        if known is None:
            return None
        compiled = work.to.removesuffix(PROPRIETARY).endswith(f"-{ANY}")
        return known.version if compiled else branch_of(known.version)

    # --- GPUDrivers -------------------------------------------------------------------------

    def results(self, driver: GPUDriver) -> Results:
        """What is known of the revision that a GPUDriver wants."""
        if (found := self._results.get(driver.name)) is None:
            wanted = self.decisions.revision(driver)
            found = self._results[driver.name] = results(driver, wanted, self._evidence(driver, wanted))
        return found

    def forget_results(self, *drivers: str) -> None:
        """Something was shown of a revision of these GPUDrivers; without names, of any."""
        for name in drivers or tuple(self._results):
            self._results.pop(name, None)

    def _evidence(self, driver: GPUDriver, wanted: str) -> tuple[Evidence, ...]:
        said = self.caches.inventories.by(BY_PROOF, trial_of(driver.name, wanted))
        return tuple(_evidence_of(one, stratum) for one in said if (stratum := self._stratum(one.name, driver)))

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
            label=label,
            work=inventory.status.driver_work,
            last=inventory.status.last_driver_work,
            version=version,
            node_ready=node.ready,
            may_start=may_start(node),
            loaded=bool(version) and label is None,
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
        """The variant's objects, by a node that gets it as its GPUDriver is today."""
        for name in users:
            driver = self._driver_of(name)
            found = self._decided(name, driver) if driver is not None else None
            choice = found.choice if found is not None else None
            if driver is not None and isinstance(choice, Install) and choice.variant.value == value:
                return self.objects(driver, choice, all_of_them=True)
        return Objects()

    def _remembers(self, driver: GPUDriver, revision: str) -> bool:
        return self.decisions.revision(driver) == revision or remembered(driver, revision) is not None


def _pod_of(pods: list[Pod], variant: str | None) -> Pod | None:
    """The pod of a variant's DaemonSet; of several the one that stays."""
    found = [pod for pod in pods if variant is not None and pod.daemonset == f"gpu-driver-{variant}"]
    return min(found, key=lambda pod: pod.metadata.deletion_timestamp is not None, default=None)


def _image_of(daemonset: DaemonSet) -> str | None:
    pod: dict[str, Any] = daemonset.spec.get("template", {}).get("spec", {})
    return next((one.get("image") for one in pod.get("containers", ()) if one.get("name") == DRIVER), None)


def _evidence_of(inventory: GPUNodeInventory, stratum: str) -> Evidence:
    """What a node says of the revision by which it was found."""
    work, last = inventory.status.driver_work, inventory.status.last_driver_work
    if work is not None and work.phase == "Failed":
        return Evidence(inventory.name, stratum, False, work.since, work.reason or "", work.message or "")
    return Evidence(inventory.name, stratum, True, last.at if last is not None else "")
