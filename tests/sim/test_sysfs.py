"""A shape as files: what the kernel and the driver would show of that machine."""

import re

import pytest

from nodeagent.host import procfs, sysfs, toolkit
from nodeagent.host.facts.cards import cards
from sim.hardware import load
from sim.hardware import sysfs as trees
from sim.hardware.shape import card_uuid

CATALOGUE = load()
H100 = CATALOGUE.shape("h100-sxm-8")
FIRST = "0000:19:00.0"


@pytest.mark.parametrize("name", CATALOGUE.shapes)
def test_the_bus_has_what_the_shape_has(tmp_path, name):
    shape = CATALOGUE.shape(name)
    bus = sysfs.scan(trees.write(tmp_path, shape).sys)
    there = {card.address for card in shape.cards} | {device.address for device in shape.devices}
    assert [f.address for f in bus.functions] == sorted(there)
    assert [f.address for f in cards(bus)] == [card.address for card in shape.cards]
    assert not bus.unclear
    assert not any(f.unreadable for f in bus.functions)
    for function in bus.functions:
        alone = [f for f in bus.functions if f.iommu_group == function.iommu_group]
        assert len({f.address.rpartition(".")[0] for f in alone}) == 1, "a card must be alone in its group"


def test_links_are_relative_and_lead_somewhere(tmp_path):
    trees.write(tmp_path / "here", H100)
    (tmp_path / "here").rename(tmp_path / "there")
    links = [path for path in (tmp_path / "there").rglob("*") if path.is_symlink()]
    assert len(links) > 4 * len(H100.cards)
    assert all(not link.readlink().is_absolute() and link.exists() for link in links)


def test_files_say_what_the_kernel_says(tmp_path):
    tree = trees.write(tmp_path, H100)
    card = tree.sys / "bus" / "pci" / "devices" / FIRST
    text = {name: (card / name).read_text() for name in ("vendor", "device", "class", "numa_node", "sriov_totalvfs")}
    assert text == {
        "vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n", "numa_node": "0\n", "sriov_totalvfs": "32\n",
    }  # fmt: skip
    assert (card / "modalias").read_text() == "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n"
    assert (card / "driver").resolve() == tree.sys / "bus" / "pci" / "drivers" / "nvidia"
    assert ((card / "iommu_group" / "devices" / FIRST).resolve(), card.resolve()) == (card.resolve(),) * 2
    switch = next(d.address for d in H100.devices if d.class_ == "0680")
    assert (card.parent / switch / "driver").readlink().name == "nvidia-nvswitch"
    assert (card.parent / "0000:03:00.0" / "boot_vga").read_text() == "1\n"


def test_the_driver_tells_its_cards(tmp_path):
    tree = trees.write(tmp_path, H100, node="n1", boot_id="0c57a7d8-8bd0-4a4c-9e55-0d6a0e9a1c11")
    driver = procfs.read(tree.proc, tree.sys)
    assert driver.version == H100.software.driver
    assert {a: (c.uuid, c.product) for a, c in driver.cards.items()} == {
        card.address: (card_uuid("n1", card.address), card.product) for card in H100.cards
    }
    assert procfs.boot_id(tree.proc) == "0c57a7d8-8bd0-4a4c-9e55-0d6a0e9a1c11"
    found = toolkit.read(tree.root)
    assert (found.installed, found.version, found.runtime_handler) == (True, H100.software.toolkit, "nvidia")


def test_without_driver_and_toolkit(tmp_path):
    tree = trees.write(tmp_path, H100, driver=False, toolkit=False)
    assert procfs.read(tree.proc, tree.sys) is None
    assert not toolkit.read(tree.root).installed
    assert {f.driver for f in sysfs.scan(tree.sys).functions if f.vendor == "10de"} == {""}


def test_a_card_that_is_passed_on_is_not_the_drivers(tmp_path):
    tree = trees.write(tmp_path, H100, bound={FIRST: "vfio-pci", "0000:3b:00.0": ""})
    seen = {f.address: f.driver for f in sysfs.scan(tree.sys).functions}
    assert (seen[FIRST], seen["0000:3b:00.0"], seen["0000:4c:00.0"]) == ("vfio-pci", "", "nvidia")
    assert len(procfs.read(tree.proc, tree.sys).cards) == 6


def test_a_card_that_is_pulled_or_lost_is_nowhere(tmp_path):
    tree = trees.write(tmp_path, H100, lost=["0000:3b:00.0"])
    tree.pull(FIRST)
    left = [card.address for card in H100.cards][2:]
    assert [f.address for f in cards(sysfs.scan(tree.sys))] == left
    assert list(procfs.read(tree.proc, tree.sys).cards) == left
    assert not re.findall("(?:19|3b):00.0", " ".join(map(str, (tree.sys / "devices").rglob("*"))))
