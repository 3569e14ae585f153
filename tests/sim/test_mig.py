"""The simulated MIG manager: what it tells, in which order, what it never touches, and that it may die anywhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names as api
from controllers.api.gpudevice import Allocation, GPUDevice, GPUDeviceStatus, Hardware, MigApply, Pci, Published
from controllers.api.kube import ConfigMap, Node
from controllers.api.meta import ObjectMeta, OwnerReference
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from controllers.domain import mig as domain
from controllers.domain.mig import DISABLED, CardLayout, NodeLayout, PlannedCard
from controllers.inventory import cards as inventory
from sim.hardware import load
from sim.nodes import cluster, discover, faults, names
from sim.nodes.machine import machine
from sim.nodes.manager import MigManager
from sim.nodes.mig import Work, wanted
from sim.nodes.pods import Pod

CATALOGUE = load()
NODE, SHAPE = "n", "a100-sxm-8"
SEVEN, THREE = CardLayout(True, {"1g.5gb": 7}), CardLayout(True, {"2g.10gb": 3})


class Died(Exception):
    """The manager dies before a write."""


class Plane:
    """A node, its cards and what the API server keeps of them; the clock is the test's."""

    def __init__(self, shape: str, cards: int = 2) -> None:
        self.now = 1_800_000_000.0
        self.current = Node(metadata=ObjectMeta(name=NODE, uid="1", annotations={names.SHAPE: shape}))
        self.seats = [card for card in CATALOGUE.shape(shape).cards if card.mig_profiles][:cards]
        self.cards = {card.address: self._device(card) for card in self.seats}
        self.devices = SimpleNamespace(by=lambda *_: list(self.cards.values()))
        self.nodes = SimpleNamespace(offer=lambda _: None)
        self.parts: dict[str, PlannedCard] = {}
        self.ready, self.held_open = True, False
        self.dies_after: int | None = None
        self.history: list[tuple[str, str]] = []

    def _device(self, card: Any) -> GPUDevice:
        pci = Pci(vendor=card.vendor, device=card.device, class_=card.class_, address=card.address)
        return GPUDevice(metadata=ObjectMeta(name=card.address), status=GPUDeviceStatus(hardware=Hardware(pci=pci)))

    # what the manager asks and does
    def node(self, _name: str) -> Node:
        return self.current

    def divides(self, _name: str) -> bool:
        return self.ready

    def clients(self, _name: str) -> bool:
        return self.held_open

    def layout(self, _name: str) -> ConfigMap | None:
        made = domain.configmap(self.current, NodeLayout(tuple(self.parts.values())))
        return ConfigMap(data=made["data"]) if made else None

    def machine(self, node: Node) -> Any:
        return machine(node, None, CATALOGUE)

    def _alive(self) -> None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Died

    async def mig(self, _node: Node, device: GPUDevice, said: MigApply | None) -> None:
        self._alive()
        current = self.cards[device.name]
        assert current == device, "written over somebody's change"
        self.cards[device.name] = replace(current, status=replace(current.status, mig_apply=said))
        self.history.append((device.name, said.phase if said else ""))

    async def merge(self, _resource: Any, _name: str, body: Any, **_: Any) -> bytes:
        self._alive()
        self.annotate(body["metadata"]["annotations"])
        meta = {"name": NODE, "uid": "1", "annotations": self.current.metadata.annotations}
        status = {"nodeInfo": {"bootID": self.current.status.node_info.boot_id}}
        return orjson.dumps({"metadata": meta, "status": status})

    # what happens
    def annotate(self, changes: dict[str, str | None]) -> None:
        found = {**self.current.metadata.annotations, **changes}
        kept = {key: value for key, value in found.items() if value is not None}
        self.current = replace(self.current, metadata=replace(self.current.metadata, annotations=kept))

    def reboot(self, boot: str) -> None:
        status = self.current.status
        self.current = replace(self.current, status=replace(status, node_info=replace(status.node_info, boot_id=boot)))

    def want(self, layout: CardLayout | None, number: int = 0, asked: str = "") -> None:
        seat = self.seats[number]
        part = PlannedCard(seat.address, seat.vendor, seat.device, None, number, layout, ours=True, asked=asked)
        self.parts[seat.address] = part

    def change(self, number: int = 0, **status: Any) -> None:
        name = self.seats[number].address
        self.cards[name] = replace(self.cards[name], status=replace(self.cards[name].status, **status))

    def turn(self) -> float | None:
        """One reconciliation."""
        return asyncio.run(MigManager(self, self, self).node(NODE))  # type: ignore[arg-type]

    def rest(self) -> None:
        """Turns until nothing is left to do but to wait for somebody else."""
        for _ in range(30):
            before = len(self.history), dict(self.current.metadata.annotations)
            left = self.turn()
            if left is not None:
                self.now += left
            elif before == (len(self.history), dict(self.current.metadata.annotations)):
                return
        raise AssertionError("it does not come to rest")

    def said(self, number: int = 0) -> MigApply | None:
        return self.cards[self.seats[number].address].status.mig_apply

    def phases(self, number: int = 0) -> list[str]:
        return [phase for name, phase in self.history if name == self.seats[number].address]

    def divided(self, number: int = 0) -> CardLayout:
        return self.machine(self.current).divided(self.seats[number].address)


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Plane:
    made = Plane(SHAPE)
    monkeypatch.setattr("sim.nodes.manager.time", SimpleNamespace(time=lambda: made.now))
    return made


def test_a_card_is_divided_and_turned_back_and_discovery_tells(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Done"]
    assert (plane.divided(), plane.divided(1)) == (SEVEN, DISABLED)
    told = discover.features(NODE, "boot", plane.machine(plane.current))["instances"][api.FEATURE_DEVICE]["elements"]
    first, second = (card["attributes"] for card in told[:2])
    assert (first["mig_mode"], first["mig_instances"]) == ("enabled", "1g.5gb=7")
    assert second["mig_mode"] == "disabled"
    assert "mig_instances" not in second
    report = discover.manifest(NODE, discover.features(NODE, "boot", plane.machine(plane.current)))
    read = inventory.read(adapter(NodeFeature).validate_python(report))
    assert read is not None
    card = next(card for card in read.cards if card.address == plane.seats[0].address)
    assert card.hardware is not None
    assert card.hardware.mig is not None
    assert [(kind.name, kind.count) for kind in card.hardware.mig.types] == [("1g.5gb", 7)]

    plane.want(DISABLED)
    plane.rest()
    assert plane.phases()[3:] == ["Waiting", "Applying", "Done"]
    assert plane.divided() == DISABLED
    assert names.MIG not in plane.current.metadata.annotations


def test_every_version_is_acknowledged_also_where_nothing_is_to_be_done(plane: Plane) -> None:
    plane.want(DISABLED)
    plane.rest()
    assert plane.phases() == ["Done"]
    plane.want(DISABLED, asked="now")
    plane.rest()
    assert plane.phases() == ["Done", "Done"]
    assert plane.said() == MigApply(version=plane.parts[plane.seats[0].address].version, phase="Done")


@pytest.mark.parametrize(
    "busy",
    [
        {"allocations": (Allocation(pod_uid="1", namespace="d", pod="p", container="c", slots=1),)},
        {"published": Published(pool="p", config_version="v", slots=1)},
    ],
)
def test_a_card_that_is_in_use_or_offered_waits_alone(plane: Plane, busy: dict[str, Any]) -> None:
    plane.change(**busy)
    plane.want(SEVEN, 0)
    plane.want(SEVEN, 1)
    plane.rest()
    assert (plane.phases(0), plane.phases(1)[-1]) == (["Waiting"], "Done")
    plane.change(allocations=(), published=None)
    plane.rest()
    assert plane.divided() == SEVEN


@pytest.mark.parametrize(("shape", "waits"), [(SHAPE, True), ("h100-sxm-8", False)])
def test_who_holds_a_card_that_is_reset_goes_first(monkeypatch: pytest.MonkeyPatch, shape: str, waits: bool) -> None:
    plane = Plane(shape)
    monkeypatch.setattr("sim.nodes.manager.time", SimpleNamespace(time=lambda: plane.now))
    plane.held_open = True
    plane.want(CardLayout(True, {plane.seats[0].mig_profiles[0]: 1}))
    plane.rest()
    assert (plane.phases() == ["Waiting"]) == waits
    plane.held_open = False
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Done"]
    other = CardLayout(True, {plane.seats[0].mig_profiles[0]: 2})
    plane.held_open = True  # MIG mode stays on: no reset
    plane.want(other)
    plane.rest()
    assert plane.divided() == other


@pytest.mark.parametrize(("kept", "phase"), [(None, "Lost"), ('{"ADDRESS": {"1g.5gb": 7}}', "Done")])
def test_what_a_reboot_takes_from_a_card_is_told_and_divided_again_when_asked(
    plane: Plane, kept: str | None, phase: str
) -> None:
    plane.want(SEVEN)
    plane.rest()
    plane.annotate({names.MIG: kept.replace("ADDRESS", plane.seats[0].address) if kept else None})
    plane.reboot("boot-2")
    plane.rest()
    said = plane.said()
    assert said is not None
    assert (said.phase, said.boot_id) == (phase, "boot-2")
    plane.want(SEVEN, asked="again")
    plane.rest()
    assert (plane.phases()[-1], plane.divided()) == ("Done", SEVEN)


def test_a_failure_has_its_reason_and_stays_until_it_is_asked_for_anew(plane: Plane) -> None:
    plane.annotate({names.FAULT: f"mig-fails:{plane.seats[0].address}"})
    plane.want(SEVEN, 0)
    plane.want(SEVEN, 1)
    plane.rest()
    assert plane.phases(0) == ["Waiting", "Applying", "Failed"]
    said = plane.said()
    assert said is not None
    assert "mig-fails" in (said.reason or "")
    assert (plane.divided(0), plane.divided(1)) == (DISABLED, SEVEN)
    plane.annotate({names.FAULT: None})
    plane.rest()
    assert len(plane.phases(0)) == len(["Waiting", "Applying", "Failed"])
    plane.want(SEVEN, asked="again")
    plane.rest()
    assert (plane.phases(0)[-1], plane.divided()) == ("Done", SEVEN)


def test_a_profile_that_the_card_lacks_fails(plane: Plane) -> None:
    plane.want(CardLayout(True, {"9g.99gb": 1}))
    plane.rest()
    assert plane.said() == MigApply(
        version=plane.parts[plane.seats[0].address].version,
        phase="Failed",
        reason=f"card {plane.seats[0].address} offers no instance 9g.99gb",
    )


def test_a_slow_card_takes_its_time_and_nothing_else_begins(plane: Plane) -> None:
    plane.annotate({names.FAULT: f"mig-slow:{plane.seats[0].address}=30"})
    plane.want(SEVEN, 0)
    assert plane.turn() == pytest.approx(30)
    plane.want(SEVEN, 1)
    plane.now += 29
    assert plane.turn() == pytest.approx(1)
    assert (plane.phases(0), plane.phases(1)) == (["Waiting", "Applying"], ["Waiting"])
    plane.now += 1
    plane.rest()
    assert (plane.divided(0), plane.divided(1)) == (SEVEN, SEVEN)


def test_another_wish_in_the_middle_is_what_comes_true(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.turn()
    plane.want(THREE)
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Waiting", "Applying", "Done"]
    assert plane.divided() == THREE


def test_what_is_not_wanted_any_more_or_lost_is_not_waited_for(plane: Plane) -> None:
    plane.held_open = True
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting"]
    plane.annotate({names.FAULT: f"card-lost:{plane.seats[0].address}"})
    plane.rest()
    assert plane.said() is None
    plane.annotate({names.FAULT: None})
    plane.rest()
    plane.parts.clear()
    plane.rest()
    assert plane.phases() == ["Waiting", "", "Waiting", ""]


def test_nobody_acts_without_a_ready_manager_or_a_layout_to_rely_on(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.ready = False
    plane.rest()
    assert plane.history == []
    whole = plane.layout(NODE)
    assert whole is not None
    assert wanted(whole) is not None
    assert wanted(replace(whole, data={**whole.data, api.MIG_VERSION: "other"})) is None
    assert wanted(replace(whole, data={})) is None


steps = st.one_of(
    st.tuples(st.just("want"), st.sampled_from([SEVEN, THREE, DISABLED, None]), st.integers(0, 1)),
    st.tuples(st.just("use"), st.booleans(), st.integers(0, 1)),
    st.tuples(st.just("hold"), st.booleans()),
    st.tuples(st.just("fault"), st.sampled_from(["", "mig-fails", "card-lost"]), st.integers(0, 1)),
    st.tuples(st.just("turn"), st.sampled_from([0.5, 1.0]), st.none() | st.integers(0, 3)),
    st.tuples(st.just("turns")),
)
POD = Allocation(pod_uid="1", namespace="d", pod="p", container="c", slots=1)


def happen(plane: Plane, what: tuple[Any, ...]) -> None:
    match what:
        case ("want", layout, number):
            plane.want(layout, number)
        case ("use", used, number):
            said = plane.said(number)
            if said is None or said.phase != "Applying":  # nobody offers such a card
                plane.change(number, allocations=(POD,) if used else ())
        case ("hold", held):
            plane.held_open = held
        case ("fault", word, number):
            plane.annotate({names.FAULT: f"{word}:{plane.seats[number].address}" if word else None})
        case ("turns",):
            plane.rest()
        case ("turn", seconds, dies_after):
            plane.now += seconds
            plane.dies_after = dies_after
            try:
                plane.turn()
            except Died:
                pass
            finally:
                plane.dies_after = None


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=20))
def test_no_card_in_use_is_changed_and_all_comes_true_wherever_it_dies(history: list[Any]) -> None:
    plane = Plane(SHAPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sim.nodes.manager.time", SimpleNamespace(time=lambda: plane.now))
        for what in history:
            before = [plane.divided(number) for number in (0, 1)]
            used = [bool(plane.cards[seat.address].status.allocations) for seat in plane.seats]
            happen(plane, what)
            for number in (0, 1):
                assert not used[number] or plane.divided(number) == before[number]
        plane.annotate({names.FAULT: None})
        plane.held_open = False
        for number in (0, 1):
            plane.change(number, allocations=())
        plane.rest()
    for number, seat in enumerate(plane.seats):
        part, said = plane.parts.get(seat.address), plane.said(number)
        assert said is None or said.phase in ("Done", "Failed")
        if part is not None and part.layout is not None:
            assert said is not None
            assert said.version == part.version
    assert names.MIG_WORK not in plane.current.metadata.annotations


# --- the words, and whom they concern --------------------------------------------------------------


def test_faults_name_cards() -> None:
    found = faults.of({names.FAULT: "mig-fails:0000:3B:00.0, mig-slow:0000:5e:00.0=9,mig-slow:0000:5e:00.0"})
    assert (found.mig_fails, dict(found.mig_slow)) == ({"0000:3b:00.0"}, {"0000:5e:00.0": 9})
    assert found.unknown == ("mig-slow:0000:5e:00.0",)


def test_spoiled_annotations_are_none() -> None:
    for text in ("", "[]", "{}x", '{"a": 1}', '{"since": "x", "cards": {}}'):
        node = Node(metadata=ObjectMeta(name=NODE, annotations={names.SHAPE: SHAPE, names.MIG: text}))
        assert not machine(node, None, CATALOGUE).mig
    assert Work(1.0, {"a": "v"}).text() == '{"cards": {"a": "v"}, "since": 1.0}'


def test_pods_and_layouts_are_known_by_names_and_owners() -> None:
    def pod(owner: str) -> Pod:
        owners = (OwnerReference(kind="DaemonSet", name=owner, uid="1"),)
        return Pod(metadata=ObjectMeta(name="x", namespace=api.NAMESPACE, owner_references=owners))

    assert cluster.mig_pool(pod(api.mig_manager("a"))) == "a"
    plugin = pod(api.plugin_object("a"))
    assert (cluster.mig_pool(plugin), cluster.plugin_pool(plugin)) == ("", "a")
