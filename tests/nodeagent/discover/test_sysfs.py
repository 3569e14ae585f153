"""Reading the PCI bus of recorded machines, and of machines that change or lie."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.domain.pci import canonical, place
from nodeagent.host import sysfs
from nodeagent.host.facts.cards import cards, others
from nodeagent.host.facts.records import PciFunction
from tests.data import facts
from tests.nodeagent.discover.machine import TREES, Machine

H100 = [f"0000:{bus}:00.0" for bus in ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")]
CARDS = {
    "none": [],
    "t4": ["0000:00:1e.0"],
    "h100-8": H100,
    "a10-vfio": ["0000:65:00.0"],
    "a2-sriov": ["0000:41:00.0"],
    "a10-virtio": ["0000:06:00.0"],
    "p100-vm": ["0000:06:00.0"],
    "a100-domains": [f"{domain:04x}:00:00.0" for domain in range(1, 9)],
    "a100-domains-8": ["0001:00:00.0", "10000:01:00.0"],
    "rtx-desktop": ["0000:01:00.0"],
}


def test_every_recorded_machine_has_its_expectation() -> None:
    assert sorted(CARDS) == sorted(path.stem for path in TREES.glob("*.txt"))


@pytest.mark.parametrize(("tree", "expected"), CARDS.items(), ids=CARDS)
def test_cards_are_told_from_all_else(tmp_path: Path, tree: str, expected: list[str]) -> None:
    bus = sysfs.scan(Machine(tmp_path, tree).sys)
    assert [card.address for card in sorted(cards(bus), key=lambda card: place(card.address))] == expected
    assert bus.unclear == frozenset()


def test_every_fact_of_a_card_is_read(tmp_path: Path) -> None:
    bus = sysfs.scan(Machine(tmp_path, "h100-8").sys)
    assert next(function for function in bus.functions if function.address == "0000:9b:00.0") == PciFunction(
        "0000:9b:00.0", "10de", "2330", "030200", subsystem_vendor="10de", subsystem_device="16c1", numa_node=1,
        root="0000:00", iommu_group="24", driver="nvidia", virtual_functions=32,
    )  # fmt: skip


def test_displays_that_are_no_cards_are_named(tmp_path: Path) -> None:
    assert [f.address for f in others(sysfs.scan(Machine(tmp_path / "h", "h100-8").sys))] == ["0000:03:00.0"]
    virtual = others(sysfs.scan(Machine(tmp_path / "a", "a2-sriov").sys))
    assert len(virtual) == 16
    assert {function.physical_function for function in virtual} == {"0000:41:00.0"}
    own = others(sysfs.scan(Machine(tmp_path / "r", "rtx-desktop").sys))
    assert [function.address for function in own] == ["0000:00:02.0"]


def test_a_machine_without_subsystem_files_has_them_from_modalias(tmp_path: Path) -> None:
    (card,) = cards(sysfs.scan(Machine(tmp_path, "p100-vm").sys))
    assert (card.subsystem_vendor, card.subsystem_device, card.numa_node) == ("10de", "118f", None)


def test_ids_come_from_modalias_where_files_are_garbage(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "p100-vm")
    for name in ("vendor", "device", "class"):
        machine.file("0000:06:00.0", name).write_text("\x00\n")
    (card,) = cards(sysfs.scan(machine.sys))
    assert (card.vendor, card.device, card.class_, card.unreadable) == ("10de", "15f8", "030200", ())


def test_a_card_bound_to_vfio_or_to_nothing_is_a_card(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "a10-vfio")
    assert [card.driver for card in cards(sysfs.scan(machine.sys))] == ["vfio-pci"]
    machine.bind("0000:65:00.0", "")
    assert [card.driver for card in cards(sysfs.scan(machine.sys))] == [""]


def test_one_bad_function_costs_itself_only(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "h100-8")
    machine.file("0000:19:00.0", "vendor").write_bytes(b"\xff\xfe")
    machine.file("0000:3b:00.0", "numa_node").write_text("many")
    machine.file("0000:4c:00.0", "iommu_group").unlink()
    machine.file("0000:4c:00.0", "iommu_group").mkdir()
    machine.file("0000:5d:00.0", "device").unlink()
    machine.file("0000:9b:00.0", "sriov_totalvfs").write_text("")
    bus = sysfs.scan(machine.sys)
    found = {card.address: card for card in cards(bus)}
    assert bus.unclear == {"0000:19:00.0", "0000:5d:00.0"}
    assert sorted(found) == [address for address in H100 if address not in bus.unclear]
    assert (found["0000:3b:00.0"].numa_node, found["0000:3b:00.0"].unreadable) == (None, ("numa_node",))
    assert (found["0000:4c:00.0"].iommu_group, found["0000:4c:00.0"].unreadable) == ("", ("iommu_group",))
    assert found["0000:9b:00.0"].virtual_functions == 0
    assert found["0000:bb:00.0"].numa_node == 1


def test_a_function_that_vanishes_while_it_is_read_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, "h100-8")
    real = sysfs._Folder.text

    def text(folder: sysfs._Folder, name: str) -> str:
        if folder._folder.name == "0000:3b:00.0" and name == "class":
            shutil.rmtree(machine.real / "0000:3b:00.0")
        return real(folder, name)

    monkeypatch.setattr(sysfs._Folder, "text", text)
    bus = sysfs.scan(machine.sys)
    assert [card.address for card in cards(bus)] == [address for address in H100 if address != "0000:3b:00.0"]
    assert bus.unclear == frozenset()


def test_what_is_plugged_in_is_found(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "none")
    assert cards(sysfs.scan(machine.sys)) == ()
    machine.plug("t4", "0000:00:1e.0")
    assert [card.address for card in cards(sysfs.scan(machine.sys))] == ["0000:00:1e.0"]


def test_a_bus_that_cannot_be_listed_is_no_empty_bus(tmp_path: Path) -> None:
    with pytest.raises(sysfs.ScanError, match=r"cannot list .*/bus/pci/devices: No such file or directory"):
        sysfs.scan(tmp_path)
    machine = Machine(tmp_path, "none")
    shutil.rmtree(machine.devices)
    machine.devices.mkdir()
    assert sysfs.scan(machine.sys).functions == ()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:17:00.0", "0000:17:00.0"), ("00000000:17:00.0", "0000:17:00.0"), ("00000001:00:00.0", "0001:00:00.0"),
        ("10000:E1:1F.7", "10000:e1:1f.7"), ("17:00.0", None), ("0000:17:20.0", None), ("0000:17:00.8", None),
        ("pci0000:00", None), ("", None), ("0000:17:00.0\n0000:18:00.0", None),
    ],
)  # fmt: skip
def test_an_address_has_one_spelling(text: str, address: str | None) -> None:
    assert canonical(text) == address


@settings(max_examples=150, deadline=None)
@given(
    garbage=st.dictionaries(
        st.sampled_from(("vendor", "device", "class", "subsystem_vendor", "subsystem_device", "numa_node", "modalias",
                         "sriov_totalvfs", "driver", "iommu_group", "physfn")),
        st.one_of(st.binary(max_size=64), st.text(max_size=20).map(str.encode), st.none()),
    )
)  # fmt: skip
def test_garbage_in_one_card_never_harms_the_scan_or_its_neighbours(garbage: dict[str, bytes | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), "h100-8")
        for name, content in garbage.items():
            machine.file("0000:19:00.0", name).unlink(missing_ok=True)
            if content is not None:
                machine.file("0000:19:00.0", name).write_bytes(content)
        bus = sysfs.scan(machine.sys)
        assert set(H100[1:]) <= {card.address for card in cards(bus)} <= set(H100)
        assert "0000:19:00.0" in {function.address for function in bus.functions} | bus.unclear


def test_a_real_dump_is_read_as_it_is(tmp_path: Path) -> None:
    functions = facts.read("pci/ghw-sysfs-linux-amd64-accel-nvidia.txt")["sysfs"]
    machine = Machine(tmp_path, "none")
    machine.unplug("0000:00:00.0")
    machine.unplug("0000:01:00.1")
    for name, files in functions.items():
        machine._make(name, [f"{file}: {text}" for file, text in files.items() if file != "driver"])
        machine.bind(name, files.get("driver", ""))
    bus = sysfs.scan(machine.sys)
    assert len(bus.functions) == len(functions) == 29
    (card,) = cards(bus)
    assert (card.address, card.device, card.subsystem_device, card.driver) == ("0000:06:00.0", "15f8", "118f", "nvidia")
    assert [function.address for function in others(bus)] == ["0000:04:00.0"]
