"""The simulated cards in MIG mode: what NVIDIA's programs do to them, and who is told. The manager is the real one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names as api
from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta, OwnerReference
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from controllers.domain.mig import DISABLED, CardLayout, NodeLayout, PlannedCard, document, text
from controllers.inventory.reports import discovered_cards as inventory
from sim.hardware import load
from sim.nodes import cluster, discover, faults, mig, names, nvml
from sim.nodes.machine import Machine, machine
from sim.nodes.manager import MigManager
from sim.nodes.parted import SECONDS, Programs
from sim.nodes.pods import Pod

if TYPE_CHECKING:
    from collections.abc import Mapping

CATALOGUE = load()
NODE, SHAPE, NO_RESET = "n", "a100-sxm-8", "h100-sxm-8"
SEVEN, THREE = CardLayout(True, {"1g.5gb": 7}), CardLayout(True, {"2g.10gb": 3})


class Bench:
    """A node's cards and the programs that change them; nobody waits for the clock."""

    def __init__(self, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = Node(metadata=ObjectMeta(name=NODE, annotations={names.SHAPE: shape}))
        self.clients: frozenset[str] = frozenset()
        self.slept: list[float] = []
        self.programs = Programs(self.machine, self._divide, lambda: self.clients)
        self.seats = [card for card in CATALOGUE.shape(shape).cards if card.mig_profiles]

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        monkeypatch.setattr("sim.nodes.parted.asyncio.sleep", sleep)

    def machine(self) -> Machine:
        return machine(self.node, None, CATALOGUE)

    async def _divide(self, changed: Mapping[str, CardLayout]) -> None:
        self.annotate(names.MIG, mig.text({**self.machine().mig, **changed}))

    def annotate(self, key: str, value: str | None) -> None:
        annotations: Any = self.node.metadata.annotations
        annotations.pop(key, None)
        if value is not None:
            annotations[key] = value

    def address(self, number: int = 0) -> str:
        return self.seats[number].address

    def divided(self, number: int = 0) -> CardLayout:
        return self.machine().divided(self.address(number))

    def document(self, *layouts: CardLayout) -> str:
        parts = [
            PlannedCard(seat.address, seat.vendor, seat.device, None, number, layout, ours=True)
            for number, (seat, layout) in enumerate(zip(self.seats, layouts, strict=False))
        ]
        made = document(NodeLayout(tuple(parts)))
        assert made is not None
        return text(made)

    def apply(self, *layouts: CardLayout, mode_only: bool = False) -> str:
        """Why it failed; empty where it did not."""
        outcome = asyncio.run(self.programs.apply(self.document(*layouts), mode_only=mode_only))
        return "" if outcome.ok else outcome.text

    def reset(self, number: int = 0) -> str:
        outcome = asyncio.run(self.programs.reset(self.address(number)))
        return "" if outcome.ok else f"{outcome.busy}: {outcome.text}"

    def holds(self, *layouts: CardLayout) -> bool:
        return asyncio.run(self.programs.check(self.document(*layouts))).ok


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(SHAPE, monkeypatch)


@pytest.fixture
def divided(bench: Bench) -> Bench:
    bench.apply(SEVEN, DISABLED, mode_only=True)
    bench.reset()
    assert bench.apply(SEVEN, DISABLED) == ""
    return bench


def test_a_mode_that_takes_a_reset_waits_for_it_and_for_who_holds_the_card(bench: Bench) -> None:
    assert bench.apply(SEVEN, mode_only=True) == ""
    assert (bench.divided(), bench.slept) == (DISABLED, [])
    assert "is not in force" in bench.apply(SEVEN)
    bench.clients = frozenset({"pod dcgm"})
    assert bench.reset() == f"True: nvidia-smi --gpu-reset: GPU {bench.address()} is currently in use by pod dcgm"
    bench.clients = frozenset()
    assert bench.reset() == ""
    assert bench.divided() == CardLayout(True, {})
    assert bench.apply(SEVEN) == ""
    assert bench.divided() == SEVEN


def test_a_mode_that_waits_can_be_taken_back(bench: Bench) -> None:
    bench.apply(SEVEN, mode_only=True)
    assert asyncio.run(bench.programs.mode(bench.address(), enabled=False)).ok
    assert bench.reset() == ""
    assert bench.divided() == DISABLED


def test_other_models_change_their_mode_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(NO_RESET, monkeypatch)
    layout = CardLayout(True, {bench.seats[0].mig_profiles[0]: 2})
    bench.clients = frozenset({"pod dcgm"})
    assert bench.apply(layout, mode_only=True) == ""
    assert bench.divided() == CardLayout(True, {})
    assert bench.apply(layout) == ""
    assert bench.divided() == layout


def test_only_the_cards_of_a_document_change_and_it_is_checked_by_it(divided: Bench) -> None:
    assert (divided.divided(), divided.divided(1), divided.divided(2)) == (SEVEN, DISABLED, DISABLED)
    assert divided.holds(SEVEN, DISABLED)
    assert not divided.holds(THREE, DISABLED)
    assert divided.apply(THREE) == ""
    assert divided.divided() == THREE


def test_the_programs_count_only_cards_that_the_driver_answers_for(divided: Bench) -> None:
    divided.annotate(names.FAULT, f"card-lost:{divided.address()}")
    assert divided.holds(DISABLED, DISABLED), "the first is now the second"
    divided.annotate(names.FAULT, None)
    assert not divided.holds(DISABLED, DISABLED)


def test_dividing_takes_its_time_and_fails_where_it_is_to(bench: Bench) -> None:
    slow, fails = f"mig-slow:{bench.address()}=30", f"mig-fails:{bench.address(1)}"
    bench.apply(SEVEN, SEVEN, mode_only=True)
    bench.reset()
    bench.reset(1)
    assert (bench.apply(SEVEN), bench.slept) == ("", [SECONDS])
    bench.annotate(names.FAULT, f"{slow},{fails}")
    assert bench.apply(THREE) == ""
    assert bench.slept == [SECONDS, 30]
    why = f"nvidia-mig-parted apply: the driver did not divide card {bench.address(1)} (fault mig-fails)"
    assert bench.apply(THREE, THREE) == why
    assert (bench.divided(0), bench.divided(1)) == (THREE, CardLayout(True, {}))
    assert "has no profile 9g.99gb" in bench.apply(CardLayout(True, {"9g.99gb": 1}))


def test_turning_a_card_back_takes_as_long(divided: Bench) -> None:
    divided.slept.clear()
    assert divided.apply(DISABLED, mode_only=True) == ""
    assert divided.slept == [SECONDS]
    divided.reset()
    assert divided.divided() == DISABLED
    assert names.MIG not in divided.node.metadata.annotations


def test_discovery_and_nvml_tell_how_cards_are_divided(divided: Bench) -> None:
    features = discover.features(NODE, "boot", divided.machine())
    told = features["instances"][api.FEATURE_DEVICE]["elements"]
    first, second = (card["attributes"] for card in told[:2])
    assert (first["mig_mode"], first["mig_instances"]) == ("enabled", "1g.5gb=7")
    assert second["mig_mode"] == "disabled"
    assert "mig_instances" not in second
    read = inventory.read(adapter(NodeFeature).validate_python(discover.manifest(NODE, features)))
    assert read is not None
    card = next(card for card in read.cards if card.address == divided.address())
    assert card.hardware is not None
    assert card.hardware.mig is not None
    assert [(kind.name, kind.count) for kind in card.hardware.mig.types] == [("1g.5gb", 7)]
    devices = nvml.answer(NODE, divided.seats[0], divided.machine()).mig_devices
    assert len({device.uuid for device in devices}) == 7
    assert {device.profile for device in devices} == {"1g.5gb"}


def test_nobody_acts_without_a_ready_manager() -> None:
    found = Node(metadata=ObjectMeta(name=NODE, uid="1", annotations={names.SHAPE: SHAPE}))
    seen: Any = SimpleNamespace(node=lambda _: found, divides=lambda _: False, managed=set())
    unused: Any = None
    assert asyncio.run(MigManager(seen, unused, unused).node(NODE)) is None


# --- the words, and whom they concern --------------------------------------------------------------


def test_faults_name_cards() -> None:
    found = faults.of({names.FAULT: "mig-fails:0000:3B:00.0, mig-slow:0000:5e:00.0=9,mig-slow:0000:5e:00.0"})
    assert (found.mig_fails, dict(found.mig_slow)) == ({"0000:3b:00.0"}, {"0000:5e:00.0": 9})
    assert found.unknown == ("mig-slow:0000:5e:00.0",)


def test_spoiled_annotations_are_none() -> None:
    for spoiled in ("", "[]", "{}x", '{"a": 1}', '{"nowhere": {}}'):
        node = Node(metadata=ObjectMeta(name=NODE, annotations={names.SHAPE: SHAPE, names.MIG: spoiled}))
        assert not machine(node, None, CATALOGUE).mig


def test_pods_and_layouts_are_known_by_names_and_owners() -> None:
    def pod(owner: str) -> Pod:
        owners = (OwnerReference(kind="DaemonSet", name=owner, uid="1"),)
        return Pod(metadata=ObjectMeta(name="x", namespace=api.NAMESPACE, owner_references=owners))

    assert cluster.mig_pool(pod(api.mig_manager("a"))) == "a"
    plugin = pod(api.plugin_object("a"))
    assert (cluster.mig_pool(plugin), cluster.plugin_pool(plugin)) == ("", "a")
