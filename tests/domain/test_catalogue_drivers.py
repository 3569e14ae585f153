"""The least driver and CUDA version for a card: the table, the answers, and the comparison of versions."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.catalogue import Requirement, drivers, for_card, is_older, requirement, strictest
from controllers.domain.catalogue.drivers import TABLE
from controllers.domain.catalogue.lookup import HERE, MODELS, VENDORS, model
from tests.data import facts

numbers = st.lists(st.integers(0, 999), min_size=1, max_size=4)
versions = numbers.map(lambda parts: ".".join(map(str, parts)))
texts = versions | st.text(max_size=12) | st.none()
requirements = st.lists(st.builds(Requirement, texts, texts, st.sampled_from("ab"), st.sampled_from("cd")), max_size=5)


@pytest.mark.parametrize(
    ("compute", "driver", "cuda"),
    [
        (None, "450", "7.5"),
        ((3, 7), "450", "7.5"),  # the module asks for more than the card
        ((6, 1), "450", "8.0"),
        ((7, 0), "450", "9.0"),
        ((7, 5), "450", "10.0"),
        ((8, 0), "450", "11.0"),
        ((8, 6), "450", "11.0"),
        ((8, 9), "520", "11.8"),
        ((9, 0), "520", "11.8"),
        ((10, 0), "570", "12.8"),
        ((10, 3), "575", "12.9"),
        ((12, 0), "570", "12.8"),
        ((12, 1), "575", "12.9"),
        ((2, 0), "450", "7.5"),  # generations that nobody listed
        ((99, 0), "450", "7.5"),
    ],
)
def test_a_generation_has_a_least_driver(compute: tuple[int, int] | None, driver: str, cuda: str) -> None:
    found = requirement("nvidia", compute)

    assert (found.driver, found.cuda) == (driver, cuda)
    assert requirement("10DE", compute) == found


def test_a_message_says_who_asks() -> None:
    assert requirement("nvidia", (10, 0)).because == "Blackwell (compute capability 10.0)"
    assert requirement("nvidia", None).because == "DCGM"
    turing = requirement("nvidia", (7, 5))
    assert (turing.driver_because, turing.cuda_because) == ("DCGM", "Turing (compute capability 7.5)")
    assert turing.because == "DCGM and Turing (compute capability 7.5)"


@pytest.mark.parametrize("vendor", ["amd", "1002", "intel", "102b", ""])
def test_other_vendors_ask_for_nothing(vendor: str) -> None:
    assert requirement(vendor, (9, 0)) == Requirement()
    assert requirement(vendor, None).because == ""


def test_the_model_tells_the_generation_where_the_card_does_not() -> None:
    assert for_card("nvidia", "3182") == requirement("nvidia", (10, 3))
    assert for_card("10de", "2330") == requirement("nvidia", (9, 0))
    assert for_card("10de", "2330", (8, 0)) == requirement("nvidia", (8, 0)), "the card knows best"
    assert for_card("10de", "ffff") == requirement("nvidia", None), "neither knows"
    assert for_card("1002", "74a1") == Requirement()


def test_every_card_of_the_catalogue_has_a_generation() -> None:
    found = {card.compute for card in MODELS.values() if card.vendor == drivers.VENDOR and card.compute}

    assert len(found) >= 8
    assert {compute for compute in found if "compute capability" not in requirement("nvidia", compute).because} == set()
    assert VENDORS[drivers.VENDOR].name == "nvidia"


def test_no_real_card_runs_a_driver_that_we_call_outdated() -> None:
    seen, wrong = set(), []
    for dump in facts.dumps("nvidia_smi/*.xml*"):
        (node,) = facts.nodes(dump)
        driver, cuda = node.driver or "", node.cuda
        for device in {card.device for card in node.cards or ()}:
            asked = for_card("nvidia", device)
            seen.add((driver, asked.because))
            if is_older(driver, asked.driver or "") or is_older(cuda, asked.cuda or ""):
                wrong.append((dump, driver, cuda, asked))
    assert len(seen) >= 8
    # The driver of 2019 works with its Pascal; it is the module's DCGM that asks for more.
    assert {(file, driver, asked.driver_because) for file, driver, _, asked in wrong} == {
        ("nvidia_smi/telegraf-quadro-p400.xml", "418.43", "DCGM")
    }


@pytest.mark.parametrize(
    ("version", "minimum", "expected"),
    [
        ("580.65.06", "580.9", False),
        ("580.9", "580.65.06", True),
        ("570.26", "570", False),
        ("570", "570.26", True),
        ("570", "570.0", False),
        ("12.10", "12.9", False),
        ("9.2", "12.8", True),
        (" 525.60.13\n", "525.60.13", False),
        ("525.060.13", "525.60.13", False),
        ("", "450", None),
        ("N/A", "450", None),
        ("450", "unknown", None),
        ("535.x", "450", None),
        ("535.", "450", None),
        ("-1", "450", None),
        ("535.86-open", "450", None),
        ("٥٣٥", "450", None),
        ("9" * 5000, "450", None),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, minimum: str, expected: bool | None) -> None:
    assert is_older(version, minimum) is expected


@given(numbers, numbers)
def test_comparison_is_that_of_the_numbers(one: list[int], other: list[int]) -> None:
    width = max(len(one), len(other))
    wanted = [*one, *[0] * (width - len(one))] < [*other, *[0] * (width - len(other))]

    assert is_older(".".join(map(str, one)), ".".join(map(str, other))) is wanted


@given(st.text(), st.text() | versions)
def test_no_text_breaks_the_comparison(version: str, minimum: str) -> None:
    assert is_older(version, minimum) in {True, False, None}
    assert is_older(version, version) in {False, None}


@given(requirements, st.randoms())
def test_the_strictest_is_no_older_than_any_and_the_order_does_not_matter(
    asked: list[Requirement], random: Any
) -> None:
    found = strictest(asked)
    random.shuffle(asked)

    assert strictest(asked) == found
    assert strictest([found, *asked]) == found
    assert strictest([found]) == found
    for version, words, key in (
        (found.driver, found.driver_because, "driver"),
        (found.cuda, found.cuda_because, "cuda"),
    ):
        theirs = [(getattr(one, key), getattr(one, f"{key}_because")) for one in asked]
        known = [pair for pair in theirs if pair[0] is not None and is_older(pair[0], pair[0]) is False]
        assert (version is None) is (not known)
        assert version is None or ((version, words) in known and not any(is_older(version, one) for one, _ in known))


@given(st.lists(st.none() | st.tuples(st.integers(0, 15), st.integers(0, 9)), max_size=4))
def test_a_node_needs_what_its_most_demanding_card_needs(cards: list[tuple[int, int] | None]) -> None:
    each = [requirement("nvidia", compute) for compute in cards]
    node = strictest(each)

    assert (node.driver is None) is (not cards)
    assert not any(is_older(node.driver or "", one.driver or "") for one in each)
    assert not any(is_older(node.cuda or "", one.cuda or "") for one in each)


def test_a_later_minor_asks_for_no_less_than_an_earlier_one() -> None:
    rows = list(TABLE.generations.items())
    for (at, row), (later, other) in pairwise(rows):
        if at[0] == later[0]:
            assert not is_older(other.driver or "", row.driver or "")
            assert not is_older(other.cuda or "", row.cuda or "")


def test_everything_has_a_source() -> None:
    assert all(row.source for row in (*TABLE.generations.values(), *TABLE.components.values()))


def setting(*path: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    """A change of the table at that path."""

    def change(raw: dict[str, Any]) -> None:
        for key in path:
            raw = raw[key]
        raw.update(values)

    return change


HOPPER = ("generations", "9.0")
SLIPS = {
    "a branch with a letter": (setting(*HOPPER, driver="R520"), "9.0: driver: 'R520'"),
    "a number for a version": (setting(*HOPPER, cuda=11.8), "9.0: cuda: expected str, found 11.8"),
    "no CUDA version": (lambda raw: raw["generations"]["9.0"].pop("cuda"), "9.0: a generation needs driver and cuda"),
    "no name": (lambda raw: raw["generations"]["9.0"].pop("name"), "9.0: name is missing"),
    "a misspelt key": (setting(*HOPPER, drivers="520"), "9.0: unknown key drivers"),
    "no capability": (lambda raw: raw["generations"].update({"9": raw["generations"]["9.0"]}), "9: no compute"),
    "a strange source": (setting(*HOPPER, source=["hearsay"]), "9.0: source hearsay is not in [sources]"),
    "no source": (setting(*HOPPER, source=[]), "9.0: source is empty"),
    "a source that nobody names": (setting("sources", hearsay="a rumour"), "sources: hearsay is named by no row"),
    "a component that asks for nothing": (
        lambda raw: raw["components"]["gfd"].pop("driver"), "gfd: asks for neither driver nor cuda",
    ),
    "a misspelt table": (lambda raw: raw.update(component={}), "the file: unknown key component"),
    "modules that are none": (setting(*HOPPER, modules="closed"), "9.0: modules: 'closed' is none of"),
    "no modules": (lambda raw: raw["generations"]["9.0"].pop("modules"), "9.0: modules is missing"),
    "a last branch of words": (setting(*HOPPER, last_branch="580"), "9.0: last_branch: expected int, found '580'"),
    "a card that is no id": (lambda raw: raw["cards"].update(GH200=raw["cards"]["2342"]), "GH200: no PCI device id"),
    "components missing": (lambda raw: raw.pop("components"), "the file: components is missing"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "told"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_told(change: Callable[[dict[str, Any]], None], told: str) -> None:
    raw = tomllib.loads((HERE / "drivers.toml").read_text())
    drivers.table("drivers.toml", copy.deepcopy(raw))
    change(raw)
    with pytest.raises(ValueError, match=re.escape(f"drivers.toml: {told}")):
        drivers.table("drivers.toml", raw)


@pytest.mark.parametrize(
    ("device", "compute", "expected"),
    [
        ("1db4", (7, 0), ("Volta", "proprietary", 580)),
        ("15f8", (6, 1), ("Pascal", "proprietary", 580)),
        ("1eb8", (7, 5), ("Turing", "either", None)),
        ("2330", (9, 0), ("Hopper", "either", None)),
        # Grace Hopper has Hopper's capability, and takes the open modules alone.
        ("2342", (9, 0), ("Hopper", "open", None)),
        ("2901", (10, 0), ("Blackwell", "open", None)),
    ],
)
def test_a_generation_says_which_modules_and_which_drivers_serve_it(
    device: str, compute: tuple[int, int], expected: tuple[str, str, int | None]
) -> None:
    row = drivers.generation(device, compute)

    assert row is not None
    assert (row.name, row.modules, row.last_branch) == expected


def test_of_a_card_that_nobody_knows_nothing_is_said() -> None:
    assert drivers.generation("ffff", None) is None
    assert drivers.generation("ffff", (99, 0)) is None


def test_each_card_of_its_own_is_in_the_catalogue() -> None:
    assert [device for device in TABLE.cards if model("10de", device) is None] == []
