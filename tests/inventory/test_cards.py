"""What is read from a report, and what is said of the rest."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.gpudevice import Mig, MigType
from controllers.api.record import adapter, to_json
from controllers.inventory.reports.discovered_cards import DiscoveredCard, DiscoveredCards, read
from tests.kit.objects import BOOT
from tests.kit.reports import read_report, report, reported

ATTRIBUTES = (
    "address", "vendor", "device", "class", "numa_node", "uuid", "product", "memory_mib", "compute_major",
    "compute_minor", "mig_capable", "mig_mode", "mig_profiles", "mig_instances", "nvlink_peers", "sriov",
)  # fmt: skip
garbage = st.dictionaries(
    st.sampled_from(ATTRIBUTES),
    st.text(max_size=40)
    | st.sampled_from(["0000:17:00.0", "10de", "0x10DE", "-1", "1e9", "٣", "[N/A]", "true", "0302"]),
)


def reading(cards: list[dict[str, str]], **more: str) -> DiscoveredCards:
    made = read(read_report(report("w", cards, **more)))
    assert made is not None
    return made


def only(cards: list[dict[str, str]], **more: str) -> DiscoveredCard:
    (found,) = reading(cards, **more).cards
    return found


def test_a_complete_card_is_read_whole() -> None:
    found = only([reported(0)])

    assert found.problem == ""
    assert to_json(found.hardware) == {
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "product": "NVIDIA H100 80GB HBM3",
        "memoryMiB": 81559,
        "numaNode": 0,
        "pci": {"vendor": "10de", "device": "2330", "class": "0302", "address": "0000:17:00.0"},
        "computeCapability": {"major": 9, "minor": 0},
        "precision": {"supported": ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"]},
        "mig": {
            "capable": True,
            "enabled": False,
            "strategy": "none",
            "profilesSupported": ["1g.10gb", "7g.80gb"],
            "types": [],
            "bootID": BOOT,
        },
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vendor": ""}, "0000:17:00.0 lacks vendor"),
        ({"vendor": "nvidia"}, "0000:17:00.0 has vendor='nvidia', which cannot be read"),
        ({"device": "23301"}, "0000:17:00.0 has device='23301', which cannot be read"),
        ({"class": "0680"}, "0000:17:00.0 has class='0680', which cannot be read"),
        ({"uuid": "", "product": ""}, "0000:17:00.0 lacks uuid, product"),
        ({"uuid": "GPU is lost"}, "0000:17:00.0 has uuid='GPU is lost', which cannot be read"),
        ({"memory_mib": "81920M"}, "0000:17:00.0 has memory_mib='81920M', which cannot be read"),
        ({"memory_mib": "0"}, "0000:17:00.0 has memory_mib='0', which cannot be read"),
        ({"memory_mib": "-1"}, "0000:17:00.0 has memory_mib='-1', which cannot be read"),
        ({"memory_mib": "9" * 400}, f"0000:17:00.0 has memory_mib='{'9' * 32}', which cannot be read"),
        ({"product": "x" * 500}, f"0000:17:00.0 has product='{'x' * 32}', which cannot be read"),
        ({"product": "ERR!"}, "0000:17:00.0 has product='ERR!', which cannot be read"),
        ({"compute_minor": ""}, "0000:17:00.0 lacks compute_minor"),
        ({"mig_mode": "maybe"}, "0000:17:00.0 has mig_mode='maybe', which cannot be read"),
        ({"mig_mode": ""}, "0000:17:00.0 lacks mig_mode"),
        ({"mig_profiles": "1g.10gb,big"}, "0000:17:00.0 has mig_profiles='1g.10gb,big', which cannot be read"),
        ({"uuid": "", "device": "??"}, "0000:17:00.0 has device='??', which cannot be read"),
    ],
)
def test_what_is_missing_or_garbled_is_told(changes: dict[str, str], said: str) -> None:
    assert only([reported(0, **changes)]).problem == said


@pytest.mark.parametrize(
    "changes",
    [
        {"numa_node": "-1"},
        {"numa_node": "two"},
        {"nvlink_peers": "???"},
        {"class": "0x030200"},
        {"pci_root": "pci0000:16"},
        {"nvlink_peers": "0000:18:00.0", "nvlink_links": "many"},
    ],
)
def test_what_identifies_nothing_makes_no_card_incomplete(changes: dict[str, str]) -> None:
    assert only([reported(0, **changes)]).problem == ""


@pytest.mark.parametrize(
    ("counts", "links"),
    [("1,2", (2, 1)), ("2", ()), ("1,2,3", ()), ("1,?", ()), ("", ())],
    ids=["each", "too few", "too many", "garbage", "an older agent's"],
)
def test_links_are_counted_for_each_peer_or_not_at_all(counts: str, links: tuple[int, ...]) -> None:
    card = reported(0, pci_root="0000:16", nvlink_peers="0000:19:00.0,0000:18:00.0", nvlink_links=counts)
    hardware = only([card]).hardware
    assert hardware is not None
    assert hardware.nvlink is not None
    assert (hardware.pci.root, hardware.nvlink.peers) == ("0000:16", ("0000:18:00.0", "0000:19:00.0"))
    assert hardware.nvlink.links == links


def test_without_a_driver_nothing_of_the_driver_is_asked_for() -> None:
    bare = {
        key: value for key, value in reported(0).items() if key in ("address", "vendor", "device", "class", "numa_node")
    }

    assert only([bare], driver="").problem == ""
    assert only([bare]).problem == "0000:17:00.0 lacks uuid, product, memory_mib"


def test_a_card_without_an_address_is_nobody_and_its_neighbours_go_on() -> None:
    found = reading([reported(0), reported(1, address=""), reported(2, address="slot 7")])

    assert [c.address for c in found.cards] == ["0000:17:00.0"]
    assert found.problems == ("2 reported cards have no address that could be read, such as 0000:17:00.0",)
    assert not found.is_complete


def test_an_address_that_is_reported_twice_says_nothing_of_the_card() -> None:
    found = reading([reported(0), reported(1), reported(7, address="00000000:17:00.0")])

    assert [(c.address, c.hardware is None, c.problem) for c in found.cards] == [
        ("0000:17:00.0", True, "0000:17:00.0 is reported 2 times"),
        ("0000:18:00.0", False, ""),
    ]


def test_more_than_64_cards_are_cut() -> None:
    found = reading([reported(0, address=f"{number:04x}:17:00.0") for number in reversed(range(70))])

    assert [c.address for c in found.cards] == [f"{number:04x}:17:00.0" for number in range(64)]
    assert found.problems == ("70 cards are reported; the first 64 by address are taken",)
    assert not found.is_complete


def test_virtual_functions_are_no_cards() -> None:
    assert [c.address for c in reading([reported(0, sriov="pf"), reported(1, sriov="vf")]).cards] == ["0000:17:00.0"]


def test_a_report_that_does_not_speak_of_cards_claims_nothing() -> None:
    assert read(None) is None
    assert read(read_report(report("w", None))) is None
    assert reading([]) == DiscoveredCards()


@pytest.mark.parametrize(
    ("mode", "instances", "mig"),
    [
        (
            "enabled",
            "1g.10gb=7",
            Mig(capable=True, enabled=True, strategy="single", types=(MigType(name="1g.10gb", count=7),), boot_id=BOOT),
        ),
        ("enabled", "", Mig(capable=True, enabled=True, boot_id=BOOT)),
        ("disabled", "1g.10gb=7", Mig(capable=True, boot_id=BOOT)),
        (
            "enabled",
            "2g.20gb=1, 1g.10gb+me=2",
            Mig(
                capable=True,
                enabled=True,
                strategy="mixed",
                types=(MigType(name="1g.10gb+me", count=2), MigType(name="2g.20gb", count=1)),
                boot_id=BOOT,
            ),
        ),
    ],
)
def test_mig_is_what_the_card_holds(mode: str, instances: str, mig: Mig) -> None:
    found = only([reported(0, mig_mode=mode, mig_profiles="", mig_instances=instances)])

    assert found.problem == ""
    assert found.hardware is not None
    assert found.hardware.mig == mig


def test_an_unknown_compute_capability_promises_no_precision() -> None:
    hardware = only([reported(0, compute_major="99")]).hardware

    assert hardware is not None
    assert hardware.compute_capability is not None
    assert hardware.precision is None


@given(st.lists(garbage, max_size=8))
def test_garbage_is_read_without_a_word_of_protest(cards: list[dict[str, str]]) -> None:
    found = reading(cards)

    assert len({c.address for c in found.cards}) == len(found.cards)
    for one in found.cards:
        assert one.problem or one.hardware is not None
        assert len(one.problem) < 1000
        if one.hardware is not None:
            adapter(type(one.hardware)).validate_python(to_json(one.hardware))


def test_a_report_of_200_kb_takes_milliseconds_of_the_processor() -> None:
    cards = [reported(0, address=f"{number:04x}:17:00.0", product="x" * 100) for number in range(600)]
    started = time.thread_time()

    assert len(reading(cards).cards) == 64
    assert time.thread_time() - started < 0.5


@pytest.mark.parametrize(
    ("changes", "driver", "problem"),
    [
        ({"driver": "vfio-pci", "uuid": ""}, "580.65.06", "0000:17:00.0 lacks uuid, since it is bound to vfio-pci"),
        ({"driver": "vfio-pci", "uuid": ""}, "", ""),
        (
            {"vendor": "1002", "device": "74a1", "class": "1200", "driver": "amdgpu", "uuid": "", "product": ""},
            "",
            "0000:17:00.0 lacks uuid, product, since only NVIDIA's driver is asked",
        ),
    ],
)
def test_why_something_is_missing_is_told_where_it_can_be(changes: dict[str, str], driver: str, problem: str) -> None:
    reading = read(read_report(report("n", [reported(0, **changes)], driver=driver)))

    assert reading is not None
    assert reading.cards[0].problem == problem
