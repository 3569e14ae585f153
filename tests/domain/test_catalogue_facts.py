"""The catalogue against the world: dumps of real cards, mig-parted's layouts, and the simulated machines."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.domain.catalogue import canonical_profile, geometry, is_card, model
from controllers.domain.catalogue.lookup import GEOMETRIES
from sim.hardware import load
from tests.data import facts
from tests.tools.placement import fits

NOT_CARRIED = {
    ("2216", "NVIDIA GeForce RTX 3080"): "a card for games",
    ("2702", "NVIDIA GeForce RTX 4080 SUPER"): "a card for games",
    ("2341", "NVIDIA GB200"): "the id is the mock's invention; real ones are 2941",
    ("1eb8", "NVIDIA T4"): "the name is the mock's; every real driver says Tesla T4",
}
"""Cards of the dumps that are not in the catalogue under that id and name, and why."""
REPORTED = 0.92
"""What a driver reports of the nominal memory, at least."""


def memory_agrees(nominal: int | None, reported: int) -> bool:
    return nominal is not None and REPORTED * nominal <= reported <= nominal


def dumped() -> set[tuple[str, str, str, str, int]]:
    """Every NVIDIA card with a device id: dump, device, subsystem, product, memory in MiB."""
    cards = set()
    for dump in facts.dumps("nvidia_smi/*.xml*", "nvidia_smi/*-capture-*", "profiles/nvml-mock-profile-*.yaml"):
        for card in facts.nodes(dump)[0].cards or ():
            if card.vendor == "10de" and card.subsystem_device and card.memory_mib:
                sub = f"{card.subsystem_vendor}:{card.subsystem_device}"
                cards.add((dump, card.device, sub, card.product, card.memory_mib))
    return cards


def test_every_card_of_the_dumps_is_in_the_catalogue_or_left_out_for_a_reason() -> None:
    cards = dumped()
    assert len({device for _, device, *_ in cards}) >= 8, "the dumps are read"
    missing = {(device, product) for _, device, _, product, _ in cards if (device, product) in NOT_CARRIED}
    assert missing == set(NOT_CARRIED), "a reason for a card that is not in the dumps"

    wrong = []
    for file, device, subsystem, product, memory in sorted(cards):
        found = model("10de", device, subsystem)
        if (device, product) in NOT_CARRIED:
            assert found is None or found.product != product, f"{product} is carried now"
        elif found is None or found.product != product or not memory_agrees(found.memory_mib, memory):
            wrong.append((file, device, product, memory, found))
    assert wrong == []


@pytest.mark.parametrize("card", ["a100", "h100", "gb200", "t4"])
def test_compute_capabilities_are_those_of_the_dumps(card: str) -> None:
    (node,) = facts.nodes(f"profiles/nvml-mock-profile-{card}.yaml")
    told = (node.cards or ())[0]
    found = model("10de", {"gb200": "2941"}.get(card, told.device))

    assert found is not None
    assert found.compute == told.compute


def test_cards_on_real_buses() -> None:
    """`lspci -nn`, `lspci -vvv`, sysfs and hwloc of real machines."""
    functions = [card for dump in facts.dumps("pci/*") for node in facts.nodes(dump) for card in node.cards or ()]
    seen = {(one.class_[:4], one.vendor, one.device) for one in functions if one.vendor == "10de"}
    cards = {device for class4, vendor, device in seen if is_card(vendor, device, class4)}

    assert {"2236", "2330", "1db8"} <= cards
    assert {device for class4, _, device in seen if class4 == "0680"} >= {"22a3", "1ac2"}, "NVSwitches are there"
    assert not {"22a3", "1ac2"} & cards
    assert [device for device in cards if model("10de", device) is None] == []


def test_hwloc_names_the_cards_of_a_dgx2_as_we_do() -> None:
    (node,) = facts.nodes("pci/hwloc-dgx2-16xV100.xml")
    found = model("10de", "1db8", "10de:131d")

    assert found is not None
    assert {card.product for card in node.cards or () if card.product} == {found.product}


def layouts() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = facts.read("profiles/mig-parted-config-default.yaml")["layouts"]
    return found


LEFT_OUT = {"20b6": "a board of which no driver's name is published", "233d": "the same"}
"""Ids of mig-parted's filters that the catalogue does not have."""


def test_mig_parted_s_balanced_layouts_fit_on_the_cards_they_are_for() -> None:
    ids = set()
    for entry in layouts()["all-balanced"]:
        wanted = [name for name, count in entry["instances"].items() for _ in range(count)]
        for device in entry.get("devices", []):
            ids.add(device)
            found = model("10de", device)
            if device in LEFT_OUT:
                assert found is None
                continue
            assert found is not None, device
            assert found.geometry is not None, device
            assert fits(GEOMETRIES[found.geometry], wanted), (device, wanted)
    assert ids >= {"20b0", "20b7", "2330", "2941", "2bb5"} | set(LEFT_OUT)


def test_mig_parted_counts_instances_as_we_do() -> None:
    """`all-<profile>` fills a card: its number is `instances` of each geometry that has the profile."""
    compared = set()
    for name, entries in layouts().items():
        profile = canonical_profile(name)
        if profile is None:
            continue
        for entry in entries:
            assert list(entry["instances"]) == [profile], "all- and the profile: our aliases are theirs"
            models = [model("10de", device) for device in entry.get("devices", [])]
            names = {found.geometry for found in models if found} or set(GEOMETRIES)
            for cut in names - {None}:
                known = GEOMETRIES[str(cut)].profiles.get(profile)
                # 1g.10gb and 1g.24gb are other things on other cards: there the entry has filters, or is H100 NVL's.
                if known is not None and (len(entry.get("devices", [])) or not ambiguous(profile)):
                    assert known.instances == entry["instances"][profile], (cut, profile)
                    compared.add((cut, profile))
    assert len(compared) >= 60


def ambiguous(profile: str) -> bool:
    return len({found.profiles[profile].instances for found in GEOMETRIES.values() if profile in found.profiles}) > 1


def test_instances_of_a_real_a100_lie_where_the_geometry_lets_them() -> None:
    seen = facts.read("nvidia_smi/docs-smi-mig-lgi-a100-3x2g10gb.txt")["instances"]
    found = geometry("ga100-40gb")

    assert found is not None
    assert sorted(one["start"] for one in seen) == list(found.profiles["2g.10gb"].starts)
    assert {(one["profile"], one["size"]) for one in seen} == {("2g.10gb", found.profiles["2g.10gb"].memory_slices)}


SHAPES = load().shapes


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_simulated_machines_have_the_cards_of_the_catalogue(shape: str) -> None:
    for card in SHAPES[shape].cards:
        found = model(card.vendor, card.device, f"{card.subsystem_vendor}:{card.subsystem_device}")
        assert is_card(card.vendor, card.device, card.class_)
        assert found is not None
        assert found.product == card.product
        assert memory_agrees(found.memory_mib, card.memory_mib or 0)
        assert found.compute is not None
        assert "{}.{}".format(*found.compute) == card.compute_capability
        assert set(card.mig_profiles) == (set(GEOMETRIES[found.geometry].profiles) if found.geometry else set())
    for device in SHAPES[shape].devices:
        assert not is_card(device.vendor, device.device, device.class_), f"{device.address} looks like a card"
