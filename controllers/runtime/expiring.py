"""What happened a short while ago, by name, in the order in which it did: such as a deletion, or an Event. Pure."""

from __future__ import annotations


def forget(happened: dict[str, float], seconds: float, now: float) -> None:
    """Drop what is that old or older; `happened` holds times in their order, and is looked at from its begin only."""
    while happened and now - happened[oldest := next(iter(happened))] >= seconds:
        del happened[oldest]
