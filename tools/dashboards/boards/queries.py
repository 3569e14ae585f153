"""What several dashboards ask alike. Pure."""

from __future__ import annotations

from typing import Final

from controllers.api import names

RATE: Final = "[$__rate_interval]"
STATUS: Final = {"1": "True", "0": "False", "-1": "Unknown"}
OURS: Final = f"{names.INVENTORY}|{names.BOOTSTRAP}|{names.POOL_CONTROLLER}|{names.WEBHOOK}"
WORDS: Final = ("used", "reserved", "unavailable", "available")
RESOURCES: Final = 'resource=~"gpu_deckhouse_io_.*"'
POOL_OF: Final = "* on (resource) group_left (pool) max by (pool, resource) (gpupool_info"
"""Gives a series of kube-state-metrics its pool; what follows chooses pools."""
AS_LONG_AS: Final = "* on (namespace, pod, uid) group_left () max by (namespace, pod, uid)"
"""Keeps the series of those pods that what follows in parentheses has, with the value 1."""


def rate(metric: str, *by: str, chosen: str = "") -> str:
    """How fast a counter rises; `chosen` is a selector in braces."""
    return f"sum by ({', '.join(by)}) (rate({metric}{chosen}{RATE}))"


def quantile(share: float, metric: str, *by: str, chosen: str = "") -> str:
    """What that share of what a histogram counts is below."""
    return f"histogram_quantile({share}, sum by ({', '.join(('le', *by))}) (rate({metric}_bucket{chosen}{RATE})))"


def or_zero(expr: str) -> str:
    """The expression, and 0 where it has no series at all."""
    return f"{expr} or vector(0)"


def or_none(expr: str, chosen: str) -> str:
    """The expression, and 0 for each pool where it has no series."""
    return f"{expr} or 0 * max by (pool) (gpupool_assignments{chosen})"
