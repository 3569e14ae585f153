"""What the validator of a container tells of each card: NVML's words, never bridged over another boot or driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controllers.api import names, validation
from controllers.api.nodefeature import Element, Instances
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.facts.records import Bus, Driver, DriverCard, PciFunction
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import cardfacts
from nodeagent.validate.checks.facts import Facts
from nodeagent.validate.scanner import NodeScanner
from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import machine

if TYPE_CHECKING:
    from pathlib import Path

CARD, OTHER = "0000:17:00.0", "0000:18:00.0"
VERSION = "580.1.2"
KNOWN = DriverCard(
    CARD, "GPU-a", "NVIDIA A", 40960, (8, 0), mig_capable=True, mig_enabled=True, mig_profiles=("1g.5gb", "7g.40gb"),
    mig_instances={"1g.5gb": 7}, nvlink_peers=(OTHER,),
)  # fmt: skip
TOLD = {
    "address": CARD, "boot_id": "first", "version": VERSION, "uuid": "GPU-a", "product": "NVIDIA A",
    "memory_mib": "40960",
    "compute_major": "8", "compute_minor": "0", "mig_capable": "true", "mig_mode": "enabled",
    "mig_profiles": "1g.5gb,7g.40gb", "mig_instances": "1g.5gb=7", "nvlink_peers": OTHER,
}  # fmt: skip


def function(address: str) -> PciFunction:
    return PciFunction(address, "10de", "20b0", "030200", driver="nvidia")


def look(*cards: DriverCard, version: str = VERSION, boot: str = "first", load: str = "") -> Facts:
    """A look at a node with two cards that finds these answering."""
    return Facts(
        bus=Bus((function(CARD), function(OTHER))),
        module=Driver(version, source="procfs", load=load),
        driver=Driver(version, cards={card.address: card for card in cards}),
        boot_id=boot,
    )


SILENT = replace(look(), driver=None, unavailable_reason="no answer in 60 s")


def after(*looks: Facts) -> list[dict[str, str]]:
    found: cardfacts.Cards = {}
    for one in looks:
        found = cardfacts.step(found, one)
    return cardfacts.elements(found)


def test_everything_that_nvml_tells_is_told_with_its_boot_and_driver() -> None:
    assert after(look(KNOWN)) == [TOLD]
    assert after(look(KNOWN, DriverCard(OTHER, "GPU-b")))[1] == {
        "address": OTHER, "boot_id": "first", "version": VERSION, "uuid": "GPU-b",
    }  # fmt: skip


def test_nothing_is_bridged_over_another_loading_of_the_same_driver() -> None:
    silent = replace(look(load="8"), driver=None, unavailable_reason="no answer in 60 s")
    assert after(look(KNOWN, load="7")) == [TOLD | {"load": "7"}]
    assert after(look(KNOWN, load="7"), silent) == []
    assert after(look(KNOWN, load="8"), silent) == [TOLD | {"load": "8"}]


def test_silence_is_bridged_for_two_looks_and_ends() -> None:
    assert after(look(KNOWN), SILENT, SILENT) == [TOLD]
    assert after(look(KNOWN), SILENT, SILENT, SILENT) == []
    awaited = replace(SILENT, pending=True)
    assert after(look(KNOWN), *[awaited] * 5) == [TOLD]
    lost = look(DriverCard(OTHER, "GPU-b"))
    assert after(look(KNOWN), lost, lost)[0] == TOLD
    assert [card["address"] for card in after(look(KNOWN), lost, lost, lost)] == [OTHER]


def test_a_value_that_is_not_told_once_keeps_its_last_one() -> None:
    partly = replace(KNOWN, memory_mib=None, failed=("memory_mib",))
    assert after(look(KNOWN), look(partly), look(partly)) == [TOLD]
    assert "memory_mib" not in after(look(KNOWN), *[look(partly)] * 3)[0]
    # What there is no more is no gap.
    whole = replace(KNOWN, mig_enabled=False, mig_instances={})
    assert "mig_instances" not in after(look(KNOWN), look(whole))[0]


@pytest.mark.parametrize(
    "now",
    [
        replace(SILENT, boot_id="second"), replace(SILENT, module=Driver("581.1", source="procfs")),
        replace(SILENT, module=None), replace(SILENT, bus=Bus((function(OTHER),))),
        replace(look(KNOWN), module=Driver("581.1", source="procfs")),
    ],
    ids=["another boot", "another driver", "no driver", "gone from the bus", "NVML of another driver"],
)  # fmt: skip
def test_nothing_is_bridged_over_a_change(now: Facts) -> None:
    assert after(look(KNOWN), now) == []


def test_another_card_in_the_same_place_begins_anew() -> None:
    partly = DriverCard(CARD, "GPU-new", failed=("memory_mib",))
    assert after(look(KNOWN), look(partly)) == [
        {"address": CARD, "boot_id": "first", "version": VERSION, "uuid": "GPU-new"}
    ]


def test_a_new_validator_goes_on_from_what_was_published() -> None:
    published = Instances(elements=(Element(attributes=TOLD), Element(attributes={"address": "nowhere"})))
    found = cardfacts.start(published)
    assert cardfacts.elements(cardfacts.step(found, SILENT)) == [TOLD]
    assert cardfacts.elements(cardfacts.step(found, replace(SILENT, boot_id="second"))) == []
    assert cardfacts.start(None) == {}


def test_a_report_has_no_more_cards_than_are_believed() -> None:
    addresses = [f"0000:{bus:02x}:00.0" for bus in range(names.CARDS_MAX + 5)]
    many = look(*(DriverCard(address, f"GPU-{address}") for address in addresses))
    assert [card["address"] for card in after(many)] == addresses[: names.CARDS_MAX]


def test_no_feature_is_as_good_as_an_empty_one() -> None:
    assert cardfacts.same(None, [])
    assert cardfacts.same(Instances(), [])
    assert not cardfacts.same(None, [TOLD])
    assert cardfacts.same(Instances(elements=(Element(attributes=TOLD),)), [TOLD])


async def test_a_division_is_told_at_once_though_nvml_is_asked_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = machine(tmp_path)
    for name, value in environment(build(), at.nvml).items():
        monkeypatch.setenv(name, value)
    asker = DriverProbe(lambda: (at.own,), Timing(period=3600, deadline=PATIENCE))
    looker = NodeScanner(validation.CONTAINER, HostPaths(at.sys, at.proc, at.root), asker, at.own, {})
    address = at.addresses[0]

    async def told() -> tuple[str, str]:
        while (facts := await looker.scan()).pending:
            pass  # each look waits for the answer, though not for long
        card = cardfacts.elements(cardfacts.step({}, facts))[0]
        return card["mig_mode"], card.get("mig_instances", "")

    try:
        assert await told() == ("disabled", "")
        at.config.partitioned(address, ("1g.10gb", 0), ("1g.10gb", 1)).write(at.nvml)
        assert await told() == ("disabled", ""), "nobody has asked since"
        (at.proc / "driver" / "nvidia" / "capabilities" / "gpu0" / "mig" / "gi1").mkdir(parents=True)
        assert await told() == ("enabled", "1g.10gb=2")
    finally:
        await asker.close()
