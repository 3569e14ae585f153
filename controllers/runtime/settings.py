"""Settings that follow a custom resource while the process runs.

A value that does not validate changes nothing: the last good settings stay, and a Warning
event, a metric and a log line say what is wrong. Without the object the defaults hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from controllers.api import names
from controllers.api.resources import MODULECONFIG
from controllers.api.settings import ModuleConfig, Settings, parse_settings
from controllers.runtime import logs, metrics
from controllers.runtime.plan import EmitEvent, ref
from controllers.runtime.reflector import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.meta import KubeObject
    from controllers.api.resources import Resource
    from controllers.runtime.events import Recorder
    from controllers.runtime.process import Process

S = TypeVar("S")
log = structlog.get_logger()


class LiveSettings(Generic[S]):
    """The settings in force; `subscribe` tells of changes."""

    def __init__(
        self,
        resource: Resource,
        default: S,
        parse: Callable[[Any], S],
        recorder: Recorder,
        is_enabled: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        """Start with the defaults. `parse` takes the object and raises ValueError."""
        self._resource, self._default, self._parse, self._recorder = resource, default, parse, recorder
        self._is_enabled = is_enabled
        self.current = default
        self.enabled = True
        """Whether the object lets the module work at all; also where its settings are wrong."""
        self._handlers: list[Callable[[S], None]] = []

    def subscribe(self, handler: Callable[[S], None]) -> None:
        """Call `handler(settings)` whenever they change, or the module is switched on or off."""
        self._handlers.append(handler)

    def changed(self, _: KubeObject | None, new: KubeObject | None) -> None:
        """Handler for the store of the settings' object."""
        before = (self.current, self.enabled)
        self.enabled = new is None or self._is_enabled(new)
        self._take(new)
        if (self.current, self.enabled) != before:
            for handler in self._handlers:
                handler(self.current)

    def _take(self, new: KubeObject | None) -> None:
        try:
            settings = self._default if new is None else self._parse(new)
        except ValueError as error:
            metrics.SETTINGS_INVALID.set(1)
            log.error("invalid settings; the last good ones stay in force", error=str(error))  # noqa: TRY400
            if new is not None:
                message = f"{error}. The last good settings stay in force until this is mended."
                self._recorder.enqueue(
                    EmitEvent(ref(self._resource, new), "Warning", names.EVENT_SETTINGS_INVALID, message)
                )
            return
        metrics.SETTINGS_INVALID.set(0)
        self.current = settings


def module_settings(process: Process) -> LiveSettings[Settings]:
    """The module's settings, followed from its ModuleConfig where there is one; the log level with them."""
    settings = LiveSettings(
        MODULECONFIG,
        Settings(),
        lambda config: parse_settings(config.spec.settings, config.spec.version),
        process.recorder,
        lambda config: config.spec.enabled is not False,
    )
    settings.subscribe(lambda new: logs.configure(process.name, new.log_level))
    scope = Scope(fields=f"metadata.name={names.MODULE}")
    process.reflect(MODULECONFIG, ModuleConfig, scope=scope, optional=True).subscribe(settings.changed)
    return settings
