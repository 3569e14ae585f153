"""The catalogue against the world: dumps of real cards, mig-parted's layouts, and the simulated machines."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from controllers.domain.catalogue import canonical_profile, geometry, is_card, model
from controllers.domain.catalogue.lookup import GEOMETRIES
from sim.hardware import load
from tests.tools.placement import fits

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the dumps of real machines (../shared/data) are not here")

NOT_CARRIED = {
    ("2216", "NVIDIA GeForce RTX 3080"): "a card for games",
    ("2341", "NVIDIA GB200"): "the id is the mock's invention; real ones are 2941",
    ("1eb8", "NVIDIA T4"): "the name is the mock's; every real driver says Tesla T4",
}
"""Cards of the dumps that are not in the catalogue under that id and name, and why."""
REPORTED = 0.92
"""What a driver reports of the nominal memory, at least."""


def memory_agrees(nominal: int | None, reported: int) -> bool:
    return nominal is not None and REPORTED * nominal <= reported <= nominal


def dumped() -> set[tuple[str, str, str, str, int]]:
    """Every NVIDIA card with a device id: file, device, subsystem, product, memory in MiB."""
    cards = set()
    for path in sorted(DATA.glob("nvidia_smi/*.xml*")):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for gpu in ET.fromstring(raw).iter("gpu"):  # noqa: S314 - our own data
            device = re.fullmatch("([0-9A-F]{4})10DE", gpu.findtext("pci/pci_device_id") or "")
            subsystem = re.fullmatch("([0-9A-F]{4})([0-9A-F]{4})", gpu.findtext("pci/pci_sub_system_id") or "")
            total = re.fullmatch(r"(\d+) MiB", gpu.findtext("fb_memory_usage/total") or "")
            if device and subsystem and total:
                sub = f"{subsystem[2]}:{subsystem[1]}".lower()
                cards.add((path.name, device[1].lower(), sub, gpu.findtext("product_name") or "", int(total[1])))
    for path in sorted(DATA.glob("profiles/nvml-mock-profile-*.yaml")):
        card = yaml.safe_load(path.read_text())["device_defaults"]
        device, sub = card["pci"]["device_id"], card["pci"]["subsystem_id"]
        ids = (f"{device >> 16:04x}", f"{sub & 0xFFFF:04x}:{sub >> 16:04x}")
        cards.add((path.name, *ids, card["name"], card["memory"]["total_bytes"] >> 20))
    return cards


@needs_data
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


@needs_data
@pytest.mark.parametrize("card", ["a100", "h100", "gb200", "t4"])
def test_compute_capabilities_are_those_of_the_dumps(card: str) -> None:
    raw = yaml.safe_load((DATA / f"profiles/nvml-mock-profile-{card}.yaml").read_text())["device_defaults"]
    capability = raw["compute_capability"]
    device = {"gb200": "2941"}.get(card, f"{raw['pci']['device_id'] >> 16:04x}")
    found = model("10de", device)

    assert found is not None
    assert found.compute == (capability["major"], capability["minor"])


@needs_data
def test_cards_on_real_buses() -> None:
    """`lspci -nn`, `lspci -vvv`, sysfs and hwloc of real machines."""
    seen = set()
    for path in sorted(DATA.glob("pci/*")):
        text = path.read_text()
        seen |= set(re.findall(r"\[(\w{4})\]: NVIDIA .*\[(10de):(\w{4})\]", text))
        seen |= {("0302", "10de", device) for device in re.findall(r"3D controller: NVIDIA .*Device (\w{4})", text)}
        seen |= {("0680", "10de", device) for device in re.findall(r"Bridge: NVIDIA .*Device (\w{4})", text)}
        seen |= set(re.findall(r'pci_type="(\w{4}) \[(10de):(\w{4})\]', text))
    cards = {device for class4, vendor, device in seen if is_card(vendor, device, class4)}

    assert {"2236", "2330", "1db8"} <= cards
    assert {device for class4, _, device in seen if class4 == "0680"} >= {"22a3", "1ac2"}, "NVSwitches are there"
    assert not {"22a3", "1ac2"} & cards
    assert [device for device in cards if model("10de", device) is None] == []


@needs_data
def test_hwloc_names_the_cards_of_a_dgx2_as_we_do() -> None:
    text = (DATA / "pci/hwloc-dgx2-16xV100.xml").read_text()
    found = model("10de", "1db8", "10de:131d")

    assert found is not None
    assert set(re.findall('name="GPUModel" value="([^"]+)"', text)) == {found.product}


def layouts() -> dict[str, list[dict[str, Any]]]:
    path = DATA / "profiles/mig-parted-config-default.yaml"
    found: dict[str, list[dict[str, Any]]] = yaml.safe_load(path.read_text())["mig-configs"]
    return found


def filtered(entry: dict[str, Any]) -> list[str]:
    """The device ids that an entry is for."""
    filters = entry.get("device-filter", [])
    return [text[2:6].lower() for text in ([filters] if isinstance(filters, str) else filters)]


LEFT_OUT = {"20b6": "a board of which no driver's name is published", "233d": "the same"}
"""Ids of mig-parted's filters that the catalogue does not have."""


@needs_data
def test_mig_parted_s_balanced_layouts_fit_on_the_cards_they_are_for() -> None:
    ids = set()
    for entry in layouts()["all-balanced"]:
        wanted = [name for name, count in entry["mig-devices"].items() for _ in range(count)]
        for device in filtered(entry):
            ids.add(device)
            found = model("10de", device)
            if device in LEFT_OUT:
                assert found is None
                continue
            assert found is not None, device
            assert found.geometry is not None, device
            assert fits(GEOMETRIES[found.geometry], wanted), (device, wanted)
    assert ids >= {"20b0", "20b7", "2330", "2941", "2bb5"} | set(LEFT_OUT)


@needs_data
def test_mig_parted_counts_instances_as_we_do() -> None:
    """`all-<profile>` fills a card: its number is `instances` of each geometry that has the profile."""
    compared = set()
    for name, entries in layouts().items():
        profile = canonical_profile(name)
        if profile is None:
            continue
        for entry in entries:
            assert list(entry["mig-devices"]) == [profile], "all- and the profile: our aliases are theirs"
            models = [model("10de", device) for device in filtered(entry)]
            names = {found.geometry for found in models if found} or set(GEOMETRIES)
            for cut in names - {None}:
                known = GEOMETRIES[str(cut)].profiles.get(profile)
                # 1g.10gb and 1g.24gb are other things on other cards: there the entry has filters, or is H100 NVL's.
                if known is not None and (len(filtered(entry)) or not ambiguous(profile)):
                    assert known.instances == entry["mig-devices"][profile], (cut, profile)
                    compared.add((cut, profile))
    assert len(compared) >= 60


def ambiguous(profile: str) -> bool:
    return len({found.profiles[profile].instances for found in GEOMETRIES.values() if profile in found.profiles}) > 1


@needs_data
def test_instances_of_a_real_a100_lie_where_the_geometry_lets_them() -> None:
    text = (DATA / "nvidia_smi/docs-smi-mig-lgi-a100-3x2g10gb.txt").read_text()
    found = geometry("ga100-40gb")
    seen = re.findall(r"MIG (\S+) .* (\d+):(\d+) ", text)

    assert found is not None
    assert sorted(int(start) for _, start, _ in seen) == list(found.profiles["2g.10gb"].starts)
    assert {(name, int(size)) for name, _, size in seen} == {("2g.10gb", found.profiles["2g.10gb"].memory_slices)}


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
