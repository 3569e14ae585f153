"""The thresholds of health, as the judges take them. Pure."""

from __future__ import annotations

from dataclasses import dataclass


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
