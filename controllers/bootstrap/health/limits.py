"""Thresholds of monitoring and card health, out of the module's settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controllers.api.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds; the settings' `health` and `bootstrap.monitoring` fill what people may change."""

    temperature_fault: int = 95
    """Degrees Celsius from which a card is too hot."""
    temperature_clear: int = 85
    """Below this it is cool again."""
    temperature_scrapes: int = 3
    """Scrapes in a row that must say so: one reading may be wrong."""
    temperature_margin: int = 5
    """Degrees below a border at which the recorded temperature is given up, so that noise writes nothing."""
    throttle_on: int = 4
    """Scrapes in a row with a slowed card until that is recorded; it comes and goes under load."""
    throttle_off: int = 20
    """Scrapes in a row without."""
    recovery_scrapes: int = 20
    """Clean scrapes in a row after which a faulted card may return by itself."""
    ready_after: int = 3
    """Fresh scrapes in a row after which a node's monitoring is ready."""
    missing_after: float = 120.0
    """Seconds without a fresh scrape after which it is missing, and nothing is known of its cards."""
    critical_xids: frozenset[int] = frozenset()
    """Error numbers that fault a card whatever the table says."""
    ignored_xids: frozenset[int] = frozenset()
    """Error numbers that never do, unless they are among the critical ones."""


def limits_of(settings: Settings) -> Limits:
    """The thresholds out of the settings; the rest are ours."""
    health, monitoring = settings.health, settings.bootstrap.monitoring
    return Limits(
        temperature_fault=health.temperature_fault_c,
        temperature_clear=health.temperature_clear_c,
        recovery_scrapes=health.recovery_scrapes,
        ready_after=monitoring.ready_after,
        missing_after=monitoring.missing_after,
        critical_xids=frozenset(health.critical_xids),
        ignored_xids=frozenset(health.ignored_xids),
    )
