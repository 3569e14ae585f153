"""Facts in the words of the report, and what inventory makes of them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.api import names
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from controllers.inventory.reports.discovered_cards import read
from nodeagent.discover import VERSION
from nodeagent.discover.feature import report
from nodeagent.discover.once import features as report_of
from nodeagent.discover.scan import Facts
from nodeagent.host import sysfs
from nodeagent.host.facts.driver import combine
from nodeagent.host.facts.records import Driver, DriverCard, Toolkit
from tests.nodeagent.discover.machine import BOOT, Machine

H100 = DriverCard(
    "0000:19:00.0", uuid="GPU-0", product="NVIDIA H100 80GB HBM3", memory_mib=81559, compute=(9, 0), mig_capable=True,
    mig_enabled=True, mig_profiles=("1g.10gb", "1g.10gb+me", "7g.80gb"), mig_instances={"1g.10gb": 2, "3g.40gb": 1},
    nvlink_peers=("0000:3b:00.0", "0000:4c:00.0"), nvlink_links=(2, 1),
)  # fmt: skip
T4 = DriverCard("0000:00:1e.0", uuid="GPU-1", product="Tesla T4", memory_mib=15360, compute=(7, 5), mig_capable=False)


def features(tmp_path: Path, tree: str, driver: Driver | None, toolkit: Toolkit | None = None) -> dict:
    return report_of(Facts(sysfs.scan(Machine(tmp_path, tree).sys), driver, toolkit, BOOT))


def elements(features: dict) -> list[dict[str, str]]:
    return [element["attributes"] for element in features["instances"][names.FEATURE_DEVICE]["elements"]]


def test_every_attribute_of_a_card(tmp_path: Path) -> None:
    made = features(tmp_path, "h100-8", Driver("580.105.08", "13.0", {H100.address: H100}))
    assert elements(made)[0] == {
        "address": "0000:19:00.0", "vendor": "10de", "device": "2330", "class": "0302",
        "subsystem_vendor": "10de", "subsystem_device": "16c1", "numa_node": "0", "iommu_group": "20",
        "pci_root": "0000:00", "driver": "nvidia", "sriov": "pf", "uuid": "GPU-0",
        "product": "NVIDIA H100 80GB HBM3", "memory_mib": "81559",
        "compute_major": "9", "compute_minor": "0", "mig_capable": "true", "mig_mode": "enabled",
        "mig_profiles": "1g.10gb,1g.10gb+me,7g.80gb", "mig_instances": "1g.10gb=2,3g.40gb=1",
        "nvlink_peers": "0000:3b:00.0,0000:4c:00.0", "nvlink_links": "2,1",
    }  # fmt: skip
    assert made["attributes"] == {
        "gpu.driver": {"elements": {"version": "580.105.08", "cuda_version": "13.0"}},
        "gpu.agent": {"elements": {"boot_id": BOOT, "version": VERSION}},
    }


def test_only_what_is_known_is_there(tmp_path: Path) -> None:
    made = features(tmp_path, "t4", Driver("595.91.07", cards={T4.address: T4}), Toolkit(installed=False))
    assert elements(made) == [
        {
            "address": "0000:00:1e.0", "vendor": "10de", "device": "1eb8", "class": "0302", "subsystem_vendor": "10de",
            "subsystem_device": "12a2", "pci_root": "0000:00",
            "driver": "nvidia", "sriov": "none", "uuid": "GPU-1", "product": "Tesla T4",
            "memory_mib": "15360", "compute_major": "7", "compute_minor": "5", "mig_capable": "false",
        }
    ]  # fmt: skip
    assert made["attributes"]["gpu.toolkit"] == {"elements": {"installed": "false"}}
    assert made["attributes"]["gpu.driver"] == {"elements": {"version": "595.91.07"}}


def test_no_cards_are_a_claim(tmp_path: Path) -> None:
    made = features(tmp_path, "none", None)
    assert made["instances"] == {"gpu.device": {"elements": []}}
    assert list(made["attributes"]) == ["gpu.agent"]


def test_cards_stand_by_address_a_longer_domain_last(tmp_path: Path) -> None:
    made = features(tmp_path, "a100-domains-8", None)
    assert [element["address"] for element in elements(made)] == ["0001:00:00.0", "10000:01:00.0"]


def test_a_card_that_is_given_to_virtual_machines_is_reported_and_nothing_awaited_of_it(tmp_path: Path) -> None:
    bus = sysfs.scan(Machine(tmp_path, "a10-vfio").sys)
    told = report.observe(bus, Driver("580.65.06"), None).cards["0000:65:00.0"]
    assert (told.values["driver"], told.values["sriov"], told.unknown_fields) == ("vfio-pci", "pf", frozenset())


def test_what_the_driver_fails_to_tell_is_untold_and_what_a_card_has_not_is_not(tmp_path: Path) -> None:
    bus = sysfs.scan(Machine(tmp_path, "t4").sys)
    poor = replace(T4, uuid="", compute=None, failed=("uuid", "compute", "mig_enabled"))
    told = report.observe(bus, Driver("595.91.07", cards={T4.address: poor}), None).cards[T4.address]
    assert told.unknown_fields == {"uuid", "compute_major", "compute_minor", "mig_mode"}


def test_a_card_that_nvml_does_not_list_keeps_what_procfs_says(tmp_path: Path) -> None:
    bus = sysfs.scan(Machine(tmp_path, "t4").sys)
    by_procfs = Driver("5", cards={T4.address: DriverCard(T4.address, uuid="GPU-1")}, source="procfs")
    for by_nvml in (None, Driver("5", "13.0")):
        told = report.observe(bus, combine(by_procfs, by_nvml), None).cards[T4.address]
        assert told.values["uuid"] == "GPU-1"
        assert {"product", "memory_mib", "compute_major", "mig_mode", "nvlink_peers"} <= told.unknown_fields
        assert "uuid" not in told.unknown_fields


@pytest.mark.parametrize(
    ("by_procfs", "by_nvml", "version", "source"),
    [
        (None, Driver("5"), None, None),
        (Driver("5", source="procfs"), None, "5", "procfs"),
        (Driver("5", source="procfs"), Driver("5", "13.0"), "5", "nvml"),
        (Driver("6", source="procfs"), Driver("5", "13.0"), "6", "procfs"),
        (Driver("", source="procfs"), Driver("5", "13.0"), "5", "nvml"),
    ],
)
def test_the_module_in_force_decides_what_counts(
    by_procfs: Driver | None, by_nvml: Driver | None, version: str | None, source: str | None
) -> None:
    found = combine(by_procfs, by_nvml)
    assert (found and found.version, found and found.source) == (version, source)


def test_inventory_reads_a_whole_card_without_a_complaint(tmp_path: Path) -> None:
    made = features(tmp_path, "t4", Driver("595.91.07", "13.2", {T4.address: replace(T4, uuid="GPU-" + "0" * 32)}))
    report = adapter(NodeFeature).validate_python({"spec": {"features": made}})
    reading = read(report)
    assert reading is not None
    assert reading.is_complete
    (card,) = reading.cards
    assert card.problem == ""
    assert card.hardware is not None
    assert (card.hardware.product, card.hardware.memory_mib) == ("Tesla T4", 15360)


def test_the_agents_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION
