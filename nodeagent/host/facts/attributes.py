"""NodeFeature attributes of a card from the driver's answer. Pure.

Two programs ask it, each where it runs: discover for `gpu.device`, the validator in a container for `gpu.nvml`. All
values are strings, and only what is known is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodeagent.host.facts.records import DriverCard

_OF_FIELD: Mapping[str, tuple[str, ...]] = {
    "uuid": ("uuid",),
    "product": ("product",),
    "memory_mib": ("memory_mib",),
    "compute": ("compute_major", "compute_minor"),
    "mig_capable": ("mig_capable",),
    "mig_enabled": ("mig_mode",),
    "mig_profiles": ("mig_profiles",),
    "mig_instances": ("mig_instances",),
    "nvlink_peers": ("nvlink_peers", "nvlink_links"),
}
ALL = frozenset(attribute for attributes in _OF_FIELD.values() for attribute in attributes)


def of(card: DriverCard) -> dict[str, str]:
    """The card's attributes."""
    major, minor = card.compute or ("", "")
    capable, enabled = card.mig_capable, card.mig_enabled
    values = {
        "uuid": card.uuid,
        "product": card.product,
        "memory_mib": str(card.memory_mib or ""),
        "compute_major": str(major),
        "compute_minor": str(minor),
        "mig_capable": "" if capable is None else str(capable).lower(),
        "mig_mode": ("enabled" if enabled else "disabled") if capable and enabled is not None else "",
        "mig_profiles": ",".join(card.mig_profiles),
        "mig_instances": ",".join(f"{name}={count}" for name, count in card.mig_instances.items() if count),
        "nvlink_peers": ",".join(card.nvlink_peers),
        "nvlink_links": ",".join(map(str, card.nvlink_links)),
    }
    return {key: value for key, value in values.items() if value}


def unknown_fields(failed: Iterable[str]) -> frozenset[str]:
    """The attributes that hang on fields which the driver failed to tell."""
    return frozenset(attribute for name in failed for attribute in _OF_FIELD.get(name, ()))
