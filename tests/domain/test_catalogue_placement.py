"""MIG instances on one GPU: published layouts, and that the search finds one exactly where one exists."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.catalogue import Geometry, Profile, geometry
from controllers.domain.catalogue.lookup import GEOMETRIES
from tests.tools.placement import fits, place


def known(name: str) -> Geometry:
    found = geometry(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "layout", "possible"),
    [
        ("ga100-40gb", ["1g.5gb"] * 7, True),
        ("ga100-40gb", ["1g.5gb"] * 8, False),
        ("ga100-40gb", ["1g.10gb"] * 4, True),
        ("ga100-40gb", ["1g.10gb"] * 5, False),
        ("ga100-40gb", ["2g.10gb"] * 3, True),
        ("ga100-40gb", ["2g.10gb"] * 4, False),
        ("ga100-40gb", ["3g.20gb"] * 2, True),
        ("ga100-40gb", ["4g.20gb", "3g.20gb"], True),
        ("ga100-40gb", ["4g.20gb", "4g.20gb"], False),
        ("ga100-40gb", ["7g.40gb"], True),
        ("ga100-40gb", ["7g.40gb", "1g.5gb"], False),
        ("ga100-40gb", ["3g.20gb", "2g.10gb", "2g.10gb"], True),
        ("ga100-40gb", ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"], True),  # the MIG User Guide's 3-2-1-1
        ("ga100-40gb", ["2g.10gb", *["1g.5gb"] * 5], True),  # its 2-1-1-1-1-1
        ("ga100-40gb", ["4g.20gb", "2g.10gb", "1g.5gb"], True),
        ("ga100-40gb", ["3g.20gb", "3g.20gb", "1g.5gb"], False),  # a compute slice is left, but no memory slice
        ("ga100-40gb", ["1g.5gb+me", *["1g.5gb"] * 6], True),
        ("ga100-40gb", ["1g.5gb+me", "1g.5gb+me"], False),
        ("ga100-40gb", ["1g.5gb.me", "3g.20gb"], True),  # the spelling of resources
        ("ga100-40gb", ["1g.10gb", "1g.6gb"], False),  # another card's profile
        ("ga100-80gb", ["2g.20gb"] * 3, True),
        ("ga100-24gb", ["1g.6gb"] * 4, True),
        ("ga100-24gb", ["2g.12gb", "1g.6gb", "1g.6gb"], True),
        ("ga100-24gb", ["2g.12gb+me", "1g.6gb+me"], False),  # one set of media extensions
        ("ga100-24gb", ["4g.24gb", "1g.6gb"], False),
        ("gh100-80gb", ["1g.20gb"] * 4, True),
        ("gh100-80gb", ["1g.10gb"] * 7, True),
        ("gh100-80gb", ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"], True),  # H100 in GPU Operator's documents
        ("gb202-96gb", ["1g.24gb"] * 4, True),
        ("gb202-96gb", ["2g.48gb", "1g.24gb", "1g.24gb"], True),
        ("gb202-96gb", ["1g.24gb+gfx", "1g.24gb-me", "2g.48gb"], True),
        ("gb202-96gb", ["1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me"], True),
        ("gb202-96gb", ["1g.24gb+me.all", "1g.24gb"], False),  # all media engines are gone
        ("gb202-96gb", ["4g.96gb", "1g.24gb-me"], False),
        ("gb202-96gb", [], True),
    ],
)
def test_published_layouts(name: str, layout: list[str], possible: bool) -> None:
    assert fits(known(name), layout) is possible
    assert fits(known(name), layout[::-1]) is possible, "the order of the question changes nothing"


def test_placements_are_those_that_nvidia_smi_prints() -> None:
    """3-2-1-1 on an A100 in the MIG User Guide: 3g at 4:4, 2g at 2:2, 1g at 0 and 1."""
    found = place(known("ga100-40gb"), ["1g.5gb", "3g.20gb", "2g.10gb", "1g.5gb"])

    assert found is not None
    assert [name for name, _ in found] == ["1g.5gb", "3g.20gb", "2g.10gb", "1g.5gb"], "in the order asked for"
    assert dict(found)["3g.20gb"] in (0, 4)
    assert place(known("ga100-40gb"), ["2g.10gb"] * 3) == (("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4))
    assert place(known("ga100-40gb"), ["3g.20gb", "4g.20gb"]) == (("3g.20gb", 4), ("4g.20gb", 0))


@pytest.mark.parametrize("name", sorted(GEOMETRIES))
def test_the_instances_of_a_profile_fit_and_one_more_does_not(name: str) -> None:
    found = known(name)
    for profile in found.profiles.values():
        assert fits(found, [profile.name] * profile.instances)
        assert not fits(found, [profile.name] * (profile.instances + 1))


def disjoint(placed: list[tuple[Profile, int]]) -> bool:
    slices = [start + offset for profile, start in placed for offset in range(profile.memory_slices)]
    return len(slices) == len(set(slices))


def possible(found: Geometry, layout: list[str]) -> bool:
    """Every combination of starts, tried."""
    profiles = [found.profiles[name] for name in layout]
    if any(layout.count(name) > found.profiles[name].instances for name in layout):
        return False
    if sum(profile.compute_slices for profile in profiles) > found.compute_slices:
        return False
    if len([profile for profile in profiles if profile.media]) > 1:
        return False
    if any(n.endswith("+me.all") for n in layout) and len([n for n in layout if not n.endswith("-me")]) > 1:
        return False
    tries = product(*(profile.starts for profile in profiles))
    return any(disjoint(list(zip(profiles, starts, strict=True))) for starts in tries)


LAYOUTS = st.sampled_from(sorted(GEOMETRIES)).flatmap(
    lambda name: st.tuples(st.just(name), st.lists(st.sampled_from(sorted(GEOMETRIES[name].profiles)), max_size=5))
)


@given(LAYOUTS)
def test_the_search_agrees_with_trying_everything(asked: tuple[str, list[str]]) -> None:
    name, layout = asked

    assert fits(known(name), layout) is possible(known(name), layout)


def profile(name: str, size: int, starts: set[int]) -> Profile:
    return Profile(name, 1, size, None, 8, tuple(sorted(starts)), media=False)


@st.composite
def awkward(draw: st.DrawFn) -> tuple[Geometry, list[str]]:
    """A geometry that nobody builds, and a layout on it.

    On real cards, what has slices enough for all instances also has room for them side by side:
    only where starts are awkward does it matter which instance goes where.
    """
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    profiles = [
        profile(f"1g.{number + 1}gb", size, draw(st.sets(st.integers(0, 8 - size), min_size=1, max_size=4)))
        for number, size in enumerate(sizes)
    ]
    made = Geometry("awkward", 8, 8, {p.name: p for p in profiles}, "nobody")
    return made, draw(st.lists(st.sampled_from(sorted(made.profiles)), min_size=2, max_size=5))


@given(awkward())
def test_the_search_is_exact_where_the_starts_are_awkward(asked: tuple[Geometry, list[str]]) -> None:
    made, layout = asked
    placed = place(made, layout)

    assert (placed is not None) is possible(made, layout)
    assert placed is None or disjoint([(made.profiles[name], start) for name, start in placed])


def test_a_first_choice_is_taken_back_where_the_rest_then_fails() -> None:
    made = Geometry("g", 8, 4, {"1g.1gb": profile("1g.1gb", 2, {0, 1}), "1g.2gb": profile("1g.2gb", 1, {0, 1})}, "x")

    assert place(made, ["1g.1gb", "1g.2gb"]) == (("1g.1gb", 1), ("1g.2gb", 0))
    assert place(made, ["1g.1gb", "1g.1gb"]) is None, "slices enough, and no two places apart"


@given(LAYOUTS.flatmap(lambda asked: st.tuples(st.just(asked), st.permutations(asked[1]))))
def test_instances_lie_where_they_may_and_never_overlap(asked: tuple[tuple[str, list[str]], list[str]]) -> None:
    (name, layout), shuffled = asked
    found = known(name)
    placed = place(found, layout)
    other = place(found, shuffled)

    assert (placed is None) == (other is None)
    if placed is not None and other is not None:
        profiles = [(found.profiles[profile], start) for profile, start in placed]
        assert [profile.name for profile, _ in profiles] == layout
        assert disjoint(profiles)
        assert all(start in profile.starts for profile, start in profiles)
        assert all(start + profile.memory_slices <= found.memory_slices for profile, start in profiles)
        assert sum(profile.compute_slices for profile, _ in profiles) <= found.compute_slices
        assert sorted(placed) == sorted(other), "one layout has one placement"
