"""NFD's own reports: counted, projected small, and never believed about one card."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from controllers.api.nodefeature import NodeFeature, PciModel
from controllers.api.record import adapter
from controllers.inventory.reports import nfd
from controllers.inventory.reports.discovered_cards import read
from tests.kit.reports import nfd_report, on_the_bus, read_report, report, reported


def decoded(elements: Any) -> NodeFeature:
    body = nfd_report("n", [])
    body["spec"]["features"]["instances"]["pci.device"] = elements
    return adapter(NodeFeature).validate_json(orjson.dumps(body))


def seen(*elements: dict[str, str]) -> tuple[nfd.Model, ...]:
    models = nfd.read([adapter(NodeFeature).validate_json(orjson.dumps(nfd_report("n", list(elements))))])
    assert models is not None
    return models


def test_of_the_bus_only_the_number_of_displays_is_kept() -> None:
    bridge = {"vendor": "8086", "device": "352a", "class": "0604"}
    audio = {"vendor": "10de", "device": "22ba", "class": "0403"}
    elements = [{"attributes": one} for one in [*[bridge] * 200, audio, *on_the_bus(8)]]

    found = decoded({"elements": elements}).spec.features.instances.pci
    assert found == (PciModel(vendor="10de", device="2330", class_="0302", count=8),)


@pytest.mark.parametrize(
    "feature",
    [{}, {"elements": None}, {"elements": [None, 1, "x", [], {}, {"attributes": 7}, {"attributes": {}}]}],
)
def test_odd_elements_are_no_cards(feature: Any) -> None:
    assert decoded(feature).spec.features.instances.pci == ()


def test_what_is_no_feature_is_told() -> None:
    with pytest.raises(ValidationError, match=r"pci\.device"):
        decoded("everything")


@pytest.mark.parametrize("total", ["", "x", "-1", "٣", "1" * 30])
def test_an_odd_number_of_virtual_functions_is_none(total: str) -> None:
    assert seen(*on_the_bus(2, sriov_totalvfs=total)) == (nfd.Model("10de:2330", 2, 2),)


@pytest.mark.parametrize(
    ("physical", "others", "least"),
    [(8, 0, 8), (1, 16, 1), (2, 5, 2), (2, 40, 10)],
    ids=["none made", "all made", "some made", "more than there can be"],
)
def test_what_may_be_a_virtual_function_is_not_counted_as_a_card(physical: int, others: int, least: int) -> None:
    models = seen(*on_the_bus(physical, sriov_totalvfs="16"), *on_the_bus(others))

    assert models == (nfd.Model("10de:2330", least, physical + others),)


def test_of_several_reports_of_a_node_the_smallest_number_counts() -> None:
    three, two, none = (read_report(nfd_report("n", bus)) for bus in (on_the_bus(3), on_the_bus(2), []))

    assert nfd.read([three, two]) == (nfd.Model("10de:2330", 2, 2),)
    assert nfd.read([three, none]) == ()


def test_who_does_not_speak_of_the_bus_says_nothing() -> None:
    assert nfd.read([]) is None
    assert nfd.read([read_report(report("n", [reported(0)]))]) is None


def test_displays_of_processors_and_of_management_controllers_are_no_cards() -> None:
    intel = {"vendor": "8086", "device": "4680", "class": "0300"}
    aspeed = {"vendor": "1a03", "device": "2000", "class": "0300"}
    raphael = {"vendor": "1002", "device": "164e", "class": "0300"}

    assert seen(intel, aspeed, raphael) == ()


def test_fewer_cards_than_nfd_sees_are_told_and_more_are_not() -> None:
    reading = read(read_report(report("n", [reported(0), reported(1)])))
    assert reading is not None

    assert nfd.unreported(seen(*on_the_bus(3)), reading.cards) == ["NFD sees 3 of 10de:2330 and the report names 2"]
    assert nfd.unreported(seen(*on_the_bus(1)), reading.cards) == []


def test_what_nfd_sees_is_said_in_a_few_words() -> None:
    assert nfd.describe(()) == ""
    assert nfd.describe(seen(*on_the_bus(8))) == "8 of 10de:2330"
    many = seen(*[one for device in range(6) for one in on_the_bus(1, device=f"000{device}")])
    assert nfd.describe(many).endswith("1 of 10de:0003, others")
