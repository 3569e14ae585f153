"""Insertion-ordered dicts of times (deletions, Events) whose old entries are dropped. Pure."""

from __future__ import annotations


def prune(happened: dict[str, float], seconds: float, now: float) -> None:
    """Drop entries at least `seconds` old; `happened` is in order of time, and only its begin is read."""
    while happened and now - happened[oldest := next(iter(happened))] >= seconds:
        del happened[oldest]
