"""Whether MIG instances fit on one GPU together, and where: what a played driver goes by. Pure.

Slices are few and a GPU holds seven instances at most, so the search is complete: None means that
no arrangement exists. Its order is fixed, so equal questions get equal answers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.domain.catalogue.spelling import canonical_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.domain.catalogue.model import Geometry, Profile

Placed = tuple[tuple[str, int], ...]


def fits(geometry: Geometry, profiles: Sequence[str]) -> bool:
    """Whether one GPU can hold all these instances at once."""
    return place(geometry, profiles) is not None


def place(geometry: Geometry, profiles: Sequence[str]) -> Placed | None:
    """Each instance with the memory slice where it begins, in the order asked for; None where they do not fit.

    Any spelling of a profile will do; the answer has the driver's. A profile that the geometry
    does not have fits nowhere.
    """
    wanted = [geometry.profiles.get(canonical_profile(text) or "") for text in profiles]
    known = [profile for profile in wanted if profile is not None]
    if len(known) < len(wanted) or not _allowed(geometry, known):
        return None
    # The hardest first: what takes most and may begin at the fewest places.
    order = sorted(range(len(known)), key=lambda i: (-known[i].memory_slices, len(known[i].starts), known[i].name, i))
    starts = _search([known[i] for i in order], 0, 0)
    if starts is None:
        return None
    at = dict(zip(order, starts, strict=True))
    return tuple((profile.name, at[i]) for i, profile in enumerate(known))


def _allowed(geometry: Geometry, profiles: list[Profile]) -> bool:
    """Whether the instances together stay within what the GPU has, wherever they lie."""
    counts = Counter(profile.name for profile in profiles)
    if any(count > geometry.profiles[name].instances for name, count in counts.items()):
        return False
    if sum(profile.compute_slices for profile in profiles) > geometry.compute_slices:
        return False
    if sum(profile.memory_slices for profile in profiles) > geometry.memory_slices:
        return False
    if sum(profile.media for profile in profiles) > 1:
        return False
    # `+me.all` takes every media engine: its neighbours must be the profiles without any.
    greedy = any(profile.name.endswith("+me.all") for profile in profiles)
    return not greedy or sum(not profile.name.endswith("-me") for profile in profiles) == 1


def _search(profiles: list[Profile], index: int, taken: int) -> list[int] | None:
    """Starts of the profiles from `index` on, beside what is taken (a bit for each memory slice)."""
    if index == len(profiles):
        return []
    profile = profiles[index]
    for start in profile.starts:
        bits = ((1 << profile.memory_slices) - 1) << start
        if not taken & bits and (rest := _search(profiles, index + 1, taken | bits)) is not None:
            return [start, *rest]
    return None
