"""The text of simulated exporters: read by the controller's own reader, and what each fault does to it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.bootstrap.health import limits
from controllers.bootstrap.health.dcgm_parser import parse
from controllers.bootstrap.health.xid_catalog import TABLE
from sim.hardware import load
from sim.hardware.shape import card_uuid
from sim.nodes import dcgm, fields
from sim.nodes.machine import machine
from sim.nodes.report import Report, facts

CATALOGUE = load()
CARD, OTHER = "0000:3b:00.0", "0000:86:00.0"
SHAPES = sorted(name for name, shape in CATALOGUE.shapes.items() if any(c.vendor == "10de" for c in shape.cards))
SAMPLE = re.compile(r"DCGM_FI_[A-Z0-9_]+\{[a-zA-Z_]+=\"[^\"]*\"(,[a-zA-Z_]+=\"[^\"]*\")*\} [0-9.]+")


def made(shape="t4-4", faults=""):
    meta = {"sim.gpu.deckhouse.io/shape": shape, "sim.gpu.deckhouse.io/fault": faults}
    return machine(Node(metadata=ObjectMeta(name="n", annotations=meta)), None, CATALOGUE)


def read(faults="", count=0, shape="t4-4"):
    return {card.address: card for card in parse(dcgm.text("n", made(shape, faults)).at(count))}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_controller_reads_every_card_of_every_shape(shape):
    cards = [card for card in CATALOGUE.shape(shape).cards if card.vendor == "10de"]
    found = read(shape=shape)
    assert [found[card.address].uuid for card in cards] == [card_uuid("n", card.address) for card in cards]
    assert [found[card.address].device for card in cards] == [f"nvidia{n}" for n in range(len(cards))]
    for sample in found.values():
        assert (sample.xids, sample.ecc_volatile, sample.ecc_aggregate) == ((), 0, 0)
        assert (sample.remap_failed, sample.remap_pending) == (False, False)


def test_a_healthy_card_wavers_and_crosses_no_threshold():
    texts = [read(count=count, shape="h100-sxm-8") for count in range(40)]
    temperatures = {card.temperature for text in texts for card in text.values()}
    assert len({text[CARD].temperature for text in texts}) > 1
    assert max(temperatures) < limits.Limits().temperature_clear - limits.Limits().temperature_margin
    slow = sum(TABLE.throttle.values())
    assert not any(card.throttle & slow for text in texts for card in text.values())


def test_a_text_is_the_same_for_the_same_scrape_and_counters_never_fall():
    one = dcgm.text("n", made())
    assert one.at(5) == dcgm.text("n", made()).at(5) != one.at(6)
    energy = re.compile(rb"^DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\{.*\} ([0-9]+)$", re.MULTILINE)
    series = [[int(value) for value in energy.findall(one.at(count))] for count in range(20)]
    assert all(before < after for a, b in pairwise(series) for before, after in zip(a, b, strict=True))


def test_it_has_the_form_and_the_size_of_a_real_one():
    text = dcgm.text("n", made("h100-sxm-8")).at(1).decode()
    assert 4_000 < len(text) / 8 < 15_000
    lines = text.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    titled = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert titled == list(dict.fromkeys(line.partition("{")[0] for line in samples))
    assert 'pci_bus_id="00000000:3B:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="n"' in text


def test_every_field_that_the_module_asks_for_is_told():
    assert {name for name, _, _ in dcgm.ASKED} == {dcgm.PREFIX + name for name in fields.VALUES}
    text = dcgm.text("n", made("h100-sxm-8")).at(1).decode()
    assert all(f"\n{name}{{" in text for name, _, _ in dcgm.ASKED)


def test_an_old_card_without_links_leaves_fields_out():
    text = dcgm.text("n", made("t4-4")).at(1).decode()
    assert "NVLINK" not in text
    assert "DCGM_FI_PROF_DRAM_ACTIVE" in text


@pytest.mark.parametrize(
    ("fault", "field", "value"),
    [
        (f"xid:{CARD}=79", "xids", (79,)),
        (f"hot:{CARD}=97", "temperature", 97),
        (f"ecc:{CARD}=2", "ecc_volatile", 2),
        (f"ecc:{CARD}=2", "ecc_aggregate", 2),
        (f"remap:{CARD}", "remap_failed", True),
        (f"slow:{CARD.upper()}", "throttle", 0x48),
    ],
)
def test_a_fault_shows_on_its_card_alone(fault, field, value):
    for count in range(3):
        found, well = read(fault, count), read("", count)
        assert getattr(found[CARD], field) == value != getattr(well[CARD], field)
        assert found[OTHER] == well[OTHER]


def test_several_faults_of_one_card_add_up():
    card = read(f"xid:{CARD}=48,ecc:{CARD}=1,hot:{CARD}=90")[CARD]
    assert (card.xids, card.ecc_volatile, card.temperature) == ((48,), 1, 90)


def test_a_lost_card_is_not_told_and_without_a_driver_none_is():
    assert set(read()) - set(read(f"card-lost:{CARD}")) == {CARD}
    assert dcgm.text("n", made(faults="no-driver")).at(1) == b""
    assert dcgm.text("n", made("no-gpu")).at(1) == b""


def test_the_driver_is_told_as_a_label():
    assert b'DCGM_FI_DRIVER_VERSION="390.157"' in dcgm.text("n", made(faults="old-driver")).at(1)


def test_a_node_that_somebody_described_is_told_by_the_uuids_and_the_driver_given_there():
    at = {"address": "0000:17:00.0", "vendor": "10de", "device": "20b5", "class": "0302", "uuid": "GPU-mine"}
    driver = {"gpu.driver": {"elements": {"version": "570.86.15"}}}
    features = {"attributes": driver, "instances": {"gpu.device": {"elements": [{"attributes": at}]}}}
    by_hand = Report(spec=facts({"features": features}))
    text = dcgm.text("n", machine(Node(metadata=ObjectMeta(name="n")), by_hand, CATALOGUE)).at(1)
    assert [(card.uuid, card.address) for card in parse(text)] == [("GPU-mine", "0000:17:00.0")]
    assert b'DCGM_FI_DRIVER_VERSION="570.86.15"' in text
