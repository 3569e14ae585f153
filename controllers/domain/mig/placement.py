"""Whether a card holds a layout: its instances on the memory slices where the driver lets them begin. Pure.

Only memory slices have places: an instance takes compute slices wherever there are some. nvidia-mig-parted tries the
orders in which a layout's instances can be made until one succeeds, so a layout that has a place at all comes true.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.domain.catalogue import Geometry
    from controllers.domain.catalogue.model import Profile


def places(geometry: Geometry, instances: Mapping[str, int]) -> tuple[tuple[str, int], ...] | None:
    """A place for each instance: its profile and the first of its memory slices; None where they do not fit.

    `instances`: how many of each profile of the geometry, in the driver's spelling.
    """
    wanted = [geometry.profiles[name] for name, count in sorted(instances.items()) for _ in range(count)]
    if _is_too_much(geometry, wanted):
        return None
    # The largest first: there are few places for them, and whoever follows finds what is left.
    wanted.sort(key=lambda profile: (-profile.memory_slices, profile.name))
    found = _place(wanted, 0, frozenset())
    return None if found is None else tuple(sorted(found, key=lambda place: place[1]))


def _is_too_much(geometry: Geometry, wanted: Sequence[Profile]) -> bool:
    """Whether it is more than the card has, wherever it lies."""
    counted = Counter(profile.name for profile in wanted)
    # `+me.all` takes every media engine: beside it there is room for profiles without any.
    takes_all = any(profile.name.endswith("+me.all") for profile in wanted)
    if takes_all and sum(not profile.name.endswith("-me") for profile in wanted) > 1:
        return True
    return (
        sum(profile.compute_slices for profile in wanted) > geometry.compute_slices
        or sum(profile.memory_slices for profile in wanted) > geometry.memory_slices
        or sum(profile.media for profile in wanted) > 1
        or any(geometry.profiles[name].instances < count for name, count in counted.items())
    )


def _place(wanted: Sequence[Profile], begin: int, taken: frozenset[int]) -> list[tuple[str, int]] | None:
    """Places for those that are left; `begin`: where the search goes on, since equals are tried in one order only."""
    if not wanted:
        return []
    first, rest = wanted[0], wanted[1:]
    for start in first.starts:
        slices = frozenset(range(start, start + first.memory_slices))
        if start < begin or slices & taken:
            continue
        after = start + 1 if rest and rest[0] is first else 0
        if (found := _place(rest, after, taken | slices)) is not None:
            return [(first.name, start), *found]
    return None
