"""The catalogue: its facts are those of real machines, and a slip in it is told well."""

import re

import pytest

from sim.hardware import load
from sim.hardware.catalogue import HERE
from sim.hardware.shape import card_uuid
from tests.data import facts
from tools.errors import UserError

CATALOGUE = load()
REAL = {
    "h100-sxm-8": "nvidia_smi/k8s-test-infra-hardware-qx-h100.xml.gz",
    "a100-sxm-8": "nvidia_smi/k8s-test-infra-hardware-qx-a100.xml",
    "t4-4": "nvidia_smi/k8s-test-infra-hardware-qx-t4.xml",
}
PROFILES = {"a100-sxm-8": "a100", "t4-4": "t4"}


def test_shapes_that_are_promised():
    counts = {name: len(shape.cards) for name, shape in CATALOGUE.shapes.items()}
    promised = {"h100-sxm-8": 8, "a100-sxm-8": 8, "a30-4": 4, "l40s-4": 4, "t4-4": 4, "mixed-2": 2, "no-gpu": 0}
    assert counts == promised
    assert len({card.product for card in CATALOGUE.shape("mixed-2").cards}) == 2
    switches = [d for d in CATALOGUE.shape("h100-sxm-8").devices if (d.device, d.class_) == ("22a3", "0680")]
    assert len(switches) == 4
    for shape in CATALOGUE.shapes.values():
        assert any(d.class_ == "0300" and d.vendor != "10de" for d in shape.devices), "the host's display"


@pytest.mark.parametrize("shape", REAL)
def test_cards_are_what_nvidia_smi_says(shape):
    (node,) = facts.nodes(REAL[shape])
    real = node.cards[0]
    card, software = CATALOGUE.shape(shape).cards[0], CATALOGUE.shape(shape).software
    assert (card.vendor, card.device) == (real.vendor, real.device)
    assert (card.subsystem_vendor, card.subsystem_device) == (real.subsystem_vendor, real.subsystem_device)
    assert card.class_ == real.class_
    assert card.product == real.product
    assert card.memory_mib == real.memory_mib
    assert (software.driver, software.cuda) == (node.driver, node.cuda)
    assert bool(card.mig_profiles) == real.mig_capable


def test_l40s_is_what_its_exporter_says():
    scrape = facts.read("dcgm/nvidia_gpu_exporter-linux-x86_64__nvidia-l40s__595.80__idle.metrics")
    values = {family["name"]: family["values"][0][1] for family in scrape["families"]}
    about = next(family for family in scrape["families"] if family["name"].endswith("gpu_info"))
    info = dict(scrape["labels"][about["values"][0][0]])
    shape = CATALOGUE.shape("l40s-4")
    card = shape.cards[0]
    assert int(card.device + card.vendor, 16) == float(values["nvidia_smi_pci_device_id"])
    assert f"0x{card.subsystem_device}{card.subsystem_vendor}".upper() == info["pci_sub_device_id"].upper()
    assert card.memory_mib * 2**20 == float(values["nvidia_smi_memory_total_bytes"])
    assert (card.product, card.compute_capability) == (info["name"], info["compute_cap"])
    assert (shape.software.driver, shape.software.cuda) == (info["driver_version"], info["cuda_version"])


def test_h100_seats_are_what_lspci_says():
    (node,) = facts.nodes("pci/gpud-lspci-vvv-8xH100-subset.txt")
    seen = {c.address: (c.device, c.subsystem_device, c.numa_node) for c in node.cards if c.vendor == "10de"}
    shape = CATALOGUE.shape("h100-sxm-8")
    ours = {c.address: (c.device, c.subsystem_device, c.numa) for c in shape.cards}
    assert {a: v for a, v in seen.items() if v[0] == "2330"} == ours
    switches = {d.address: d.subsystem_device for d in shape.devices if d.vendor == "10de"}
    assert {a: v[1] for a, v in seen.items() if v[0] == "22a3"} == switches


@pytest.mark.parametrize("shape", PROFILES)
def test_seats_are_those_of_the_profiles(shape):
    profile = f"profiles/nvml-mock-profile-{PROFILES[shape]}.yaml"
    (node,) = facts.nodes(profile)
    assert {c.address: c.numa for c in CATALOGUE.shape(shape).cards} == {c.address: c.numa_node for c in node.cards}
    card = CATALOGUE.shape(shape).cards[0]
    assert {card.compute_capability} == {"{}.{}".format(*c.compute) for c in node.cards}
    switches = set(facts.read(profile)["switches"])
    assert {d.address for d in CATALOGUE.shape(shape).devices if d.class_ == "0680"} == switches


@pytest.mark.parametrize("shape", ["h100-sxm-8", "a100-sxm-8"])
def test_mig_profiles_are_in_mig_parted(shape):
    layouts = facts.read("profiles/mig-parted-config-default.yaml")["layouts"]
    known = {profile for entries in layouts.values() for e in entries for profile in e.get("instances", ())}
    card = CATALOGUE.shape(shape).cards[0]
    assert set(card.mig_profiles) <= known
    balanced = next(e for e in layouts["all-balanced"] if card.device in e["devices"])
    assert set(balanced["instances"]) <= set(card.mig_profiles)


def test_uuids_are_the_same_in_every_run_and_differ():
    assert card_uuid("gpu-1", "0000:19:00.0") == card_uuid("gpu-1", "0000:19:00.0")
    assert re.fullmatch("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", card_uuid("gpu-1", "0000:19:00.0"))
    assert len({card_uuid(n, a) for n in ("a", "b") for a in ("0000:19:00.0", "0000:3b:00.0")}) == 4


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('device = "1eb8"', 'device = "0x1EB8"'), "cards.0.device"),
        (('"0000:86:00.0"', '"0000:3b:00.0"'), "two devices have the PCI address 0000:3b:00.0"),
        (("memory_mib = 15360", "memory = 15360"), "cards.0.memory_mib: Field required"),
        (('host = "intel-cascade-lake"', 'host = "z80"'), "host: no 'z80'"),
        (("[software]", "[softwear]"), "softwear: Extra inputs are not permitted"),
        (("cpu = 32", "cpu = "), "is not TOML"),
    ],
)
def test_a_slip_is_told_with_its_place(tmp_path, change, told):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "hosts.toml").write_text((HERE / "hosts.toml").read_text())
    (tmp_path / "systems.toml").write_text((HERE / "systems.toml").read_text())
    good = (HERE / "shapes" / "t4-4.toml").read_text()
    assert change[0] in good
    (tmp_path / "shapes" / "mine.toml").write_text(good.replace(*change))
    with pytest.raises(UserError) as error:
        load(tmp_path)
    assert told in str(error.value)
    assert "mine.toml" in str(error.value)


def test_an_unknown_shape_lists_the_known():
    with pytest.raises(UserError, match="expected: one of a100-sxm-8, a30-4, h100-sxm-8"):
        CATALOGUE.shape("h200")
