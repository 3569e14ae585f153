"""What of a node decides about its driver."""

from __future__ import annotations

import pytest

from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter
from controllers.domain.driver.node import cards_of, in_mig_mode


def device(pci: str, *, vendor: str = "10de", lost: bool = False, **hardware: object) -> GPUDevice:
    ids = {"vendor": vendor, "device": pci, "class": "0302", "address": "0000:01:00.0"}
    status = {"hardware": {"pci": ids} | hardware} | ({"lostSince": "2026-01-01T00:00:00Z"} if lost else {})
    return adapter(GPUDevice).validate_python({"metadata": {"name": "n-1"}, "status": status})


def test_a_card_without_a_driver_is_known_by_its_ids() -> None:
    (card,) = cards_of([device("2330")])

    assert (card.compute, card.family) == ((9, 0), "hopper")
    assert "nvidia h100 80gb hbm3" in card.products


def test_what_a_driver_told_comes_before_the_catalogue() -> None:
    (card,) = cards_of([device("2330", computeCapability={"major": 9, "minor": 1}, product="Other")])

    assert (card.compute, card.products) == ((9, 1), frozenset({"other"}))


def test_cards_of_others_and_lost_ones_ask_for_no_driver() -> None:
    assert cards_of([device("74a1", vendor="1002"), device("2330", lost=True)]) == ()
    assert cards_of([adapter(GPUDevice).validate_python({"metadata": {"name": "n-1"}})]) == ()


def test_a_card_that_nobody_knows_is_a_card() -> None:
    (card,) = cards_of([device("ffff")])

    assert (card.compute, card.family, card.products) == (None, None, frozenset())


@pytest.mark.parametrize(
    ("cards", "found"),
    [
        ([], False),
        ([device("2330")], False),
        ([device("2330", mig={"capable": True})], False),
        ([device("2330"), device("2330", mig={"capable": True, "enabled": True})], True),
        ([device("2330", lost=True, mig={"capable": True, "enabled": True})], False),
    ],
)
def test_a_node_is_in_mig_mode_where_a_card_was_when_a_driver_told(cards: list[GPUDevice], *, found: bool) -> None:
    assert in_mig_mode(cards) is found
