"""All that runs in gpu-bootstrap-controller, and which change of which object enqueues which key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.api.components import EXPORTER
from controllers.bootstrap.loops.components import ComponentController
from controllers.bootstrap.loops.nodes import NodeController
from controllers.bootstrap.loops.other_drivers import OtherDrivers
from controllers.bootstrap.readiness.assess import GATES
from controllers.bootstrap.readiness.software import template_version
from controllers.bootstrap.telemetry.scrape import Scraper
from controllers.bootstrap.telemetry.targets import exporter_urls
from controllers.bootstrap.views import pool_of
from controllers.runtime.plan import EmitEvent, Ref

if TYPE_CHECKING:
    from controllers.api.conditions import Finding
    from controllers.api.settings import Settings
    from controllers.bootstrap.records import Card, Operand, Pod
    from controllers.bootstrap.world import World
    from controllers.runtime.controller import Controller
    from controllers.runtime.process import Process
    from controllers.runtime.settings import LiveSettings


class Reconciler:
    """A controller of nodes, one of what runs on all of them, and the scrapes of the nodes' exporters."""

    def __init__(self, process: Process, world: World, settings: LiveSettings[Settings]) -> None:
        """Make the controllers; `begin` connects them to the caches."""
        self._world, self._settings, self._url = world, settings, process.args.exporter_url
        self._note = process.recorder.enqueue
        self.nodes = NodeController(process, world, settings, self._report_outage)
        self.components = ComponentController(process, world, settings)
        self.other_drivers = OtherDrivers(world, self.nodes.controller.add_all)
        self.monitor = self.nodes.monitor
        self.scraper = Scraper(self._targets, self.monitor.receive, eager=self.monitor.is_awaited)

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """All of them."""
        return self.nodes.controller, self.components.controller

    def begin(self) -> None:
        """Follow caches and settings from now on, and look at everything."""
        self._watch()
        self._configured()

    def _watch(self) -> None:
        """Enqueue keys by changes."""
        self._world.devices.subscribe(self._device_changed)
        self._world.pods.subscribe(self._pod_changed)
        self._world.daemonsets.subscribe(self._operand_changed)
        self.nodes.watch()
        self.components.watch()
        self.other_drivers.watch()
        self._settings.subscribe(lambda _: self._configured())

    def _configured(self) -> None:
        """Follow the settings: they were read after we were made, and they change."""
        self.monitor.configure()
        self.scraper.period = self._settings.current.bootstrap.monitoring.scrape_period
        self.everything()

    def everything(self) -> None:
        """Look at every key, as after a start or a change of settings."""
        self.components.enqueue()
        known = {inventory.name for inventory in self._world.inventories}
        self.nodes.controller.add_all(known | self._world.gated(GATES))

    def _device_changed(self, old: Card | None, new: Card | None) -> None:
        if new is not None and set(pool_of(new)) - set(pool_of(old) if old is not None else ()):
            self.components.enqueue()  # the exporter names the pods of pools

    def _operand_changed(self, old: Operand | None, new: Operand | None) -> None:
        if new is not None and (old is None or template_version(old) != template_version(new)):
            self.nodes.controller.add_all(self._world.nodes_of(new))  # another version is wanted there

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.nodes.controller.add_all({pod.node for pod in (old, new) if pod and pod.node})
        if any(pod.metadata.labels.get(names.LABEL_COMPONENT) == EXPORTER for pod in (old, new) if pod):
            self.scraper.targets_changed()
        if not self._settings.enabled:
            self.components.enqueue()  # a RuntimeClass stays while something runs under it

    def _targets(self) -> dict[str, str]:
        return exporter_urls(self._world, self.monitor.is_monitored, self._url)

    def _report_outage(self, finding: Finding) -> None:
        about = Ref(resources.NAMESPACE, names.NAMESPACE)
        self._note(EmitEvent(about, "Warning", names.EVENT_FUSE_HELD, finding.message))
