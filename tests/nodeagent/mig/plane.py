"""A manager over cards in memory: what the API server keeps, and a death before any effect that is asked for."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.api.gpudevice import GPUDevice, GPUDeviceStatus, Hardware, MigApply, Pci
from controllers.api.kube import ConfigMap, Node
from controllers.api.meta import ObjectMeta
from controllers.domain import mig as domain
from controllers.domain.mig import NodeLayout, PlannedCard
from controllers.runtime.errors import Conflict
from nodeagent.mig.cards.records import Attempt, DriverReport, HostEvidence, Loading, NodeScan
from nodeagent.mig.files import Taken
from nodeagent.mig.manager import Intervals, Manager
from nodeagent.mig.tools import Hung, Outcome, is_busy
from nodeagent.mig.work import Work
from sim.hardware import load
from tests.nodeagent.mig.machine import Failure, Machine, seats, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from controllers.domain.mig import CardLayout

CATALOGUE = load()
PROFILES = ("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


class Died(BaseException):
    """The manager is killed."""


class Plane:
    """A node: its cards, and cluster, driver, programs, memory and lock as the manager sees them."""

    def __init__(self, *, cards: int = 2, needs_reset: bool = True) -> None:
        shape = CATALOGUE.shape("a100-sxm-8" if needs_reset else "h100-sxm-8")
        self.seats = seats(shape, cards)
        self.offered = self.seats[0].mig_profiles
        self.machine = Machine(state(self.seats, needs_reset), self.tick)
        self.parts: dict[str, PlannedCard] = {}
        self.objects = {card.address: self._object(card) for card in self.seats}
        self.journal: dict[str, Attempt] = {}
        self.pods_there, self.gates = frozenset[str](), frozenset[str]()
        self.lost, self.silence, self.untold = frozenset[str](), "", frozenset[str]()
        self.unknown_pods = False
        self.dies_after: int | None = None
        self.effects = 0
        self.now = 0.0
        self.looks = 0
        self.locked_by_other = False
        self.loads: Loading | None = Loading("boot-1", "1")
        self.history: list[tuple[str, str]] = []
        self.manager = self.born()

    def _object(self, card: Any) -> GPUDevice:
        pci = Pci(vendor=card.vendor, device=card.device, class_=card.class_, address=card.address)
        meta = ObjectMeta(name=card.address, uid=f"u-{card.address}", resource_version="1")
        return GPUDevice(metadata=meta, status=GPUDeviceStatus(hardware=Hardware(pci=pci)))

    def born(self, **rhythm: float) -> Manager:
        """A manager that knows nothing of the one before it."""
        rhythm_ = Intervals(**{"check": 1.0, **rhythm})
        self.manager = Manager(self, self, Work(self, self, self, pause=0.0), self, self, rhythm_, lambda: self.now)
        return self.manager

    def tick(self) -> None:
        """An effect is about to happen."""
        if self.dies_after is not None and self.effects >= self.dies_after:
            self.dies_after = None
            raise Died
        self.effects += 1

    # --- cluster -----------------------------------------------------------------------------------
    def layout(self) -> ConfigMap | None:
        made = domain.configmap(
            Node(metadata=ObjectMeta(name="n", uid="1")),
            NodeLayout(tuple(self.parts[address] for address in sorted(self.parts))),
        )
        return ConfigMap(data=made["data"]) if made else None

    def cards(self) -> list[GPUDevice]:
        return list(self.objects.values())

    def pods(self) -> frozenset[str]:
        return frozenset() if self.unknown_pods else self.pods_there

    async def clients(self) -> frozenset[str]:
        return self.pods_there | self.gates

    async def fresh(self, card: GPUDevice) -> GPUDevice | None:
        return self.objects.get(card.name)

    async def write_status(self, card: GPUDevice, said: MigApply | None) -> GPUDevice | None:
        self.tick()
        current = self.objects[card.name]
        if current.metadata.resource_version != card.metadata.resource_version:
            raise Conflict(409, "Conflict", "changed")
        self.change(card.name, mig_apply=said)
        self.history.append((card.name, said.phase if said else ""))
        return self.objects[card.name]

    # --- driver --------------------------------------------------------------------------------------
    async def collect_evidence(self, _addresses: Any) -> HostEvidence:
        return HostEvidence(self.loads, self.lost)

    async def scan(self, _addresses: Any) -> NodeScan:
        self.looks += 1
        if self.silence:
            return NodeScan(lost=self.lost, unavailable_reason=self.silence, loading=self.loads)
        told = {
            address: DriverReport(
                None if address in self.untold else self.machine.layout(address), "", True, tuple(self.offered), index
            )
            for index, address in enumerate(sorted(self.machine.state["cards"]))
            if address not in self.lost
        }
        return NodeScan(told, self.lost, loading=self.loads)

    # --- programs ------------------------------------------------------------------------------------
    async def apply(self, document: str, *, mode_only: bool) -> Outcome:
        return self._ran(lambda: self.machine.apply(document, mode_only=mode_only))

    async def check(self, document: str) -> Outcome:
        return self._ran(lambda: self.machine.check(document))

    async def reset(self, address: str) -> Outcome:
        return self._ran(lambda: self.machine.reset(address))

    async def mode(self, address: str, *, enabled: bool) -> Outcome:
        return self._ran(lambda: self.machine.mode(address, enabled=enabled))

    def _ran(self, run: Callable[[], None]) -> Outcome:
        if "hung" in self.machine.state["faults"]:
            raise Hung("nvidia-mig-parted apply was killed and does not end")
        try:
            run()
        except Failure as failure:
            return Outcome(ok=False, text=str(failure), busy=is_busy(str(failure)))
        return Outcome(ok=True)

    # --- memory and lock -----------------------------------------------------------------------------
    def read(self) -> dict[str, Attempt]:
        return dict(self.journal)

    def write(self, attempts: Mapping[str, Attempt]) -> None:
        self.tick()
        self.journal = dict(attempts)

    @contextmanager
    def held(self) -> Iterator[None]:
        if self.locked_by_other:
            raise Taken
        yield

    # --- what happens --------------------------------------------------------------------------------
    def address(self, number: int) -> str:
        return self.seats[number].address

    def want(self, layout: CardLayout | None, number: int = 0, asked: str = "") -> None:
        seat = self.seats[number]
        part = PlannedCard(seat.address, seat.vendor, seat.device, None, number, layout, ours=True, asked=asked)
        self.parts[seat.address] = part

    def divide(self, layout: CardLayout, number: int = 0) -> None:
        """As somebody left it."""
        card = self.machine.state["cards"][self.address(number)]
        card["mode"] = card["pending"] = layout.enabled
        card["instances"] = dict(layout.instances)

    def reload(self, loading: Loading, *, keeps_mode: bool = True) -> None:
        """The driver is loaded anew: no instance lives on; whether MIG mode does is a matter of the model."""
        self.loads = loading
        for card in self.machine.state["cards"].values():
            card["instances"] = {}
            if not keeps_mode:
                card["mode"] = card["pending"] = False

    def change(self, name: str, **status: Any) -> None:
        card = self.objects[name]
        meta = replace(card.metadata, resource_version=str(int(card.metadata.resource_version) + 1))
        self.objects[name] = replace(card, metadata=meta, status=replace(card.status, **status))

    def turn(self) -> float | None:
        """One pass; the time until the next one passes, where that comes by itself."""
        after = asyncio.run(self.manager.turn())
        self.now += after or 0.0
        return after

    def rest(self, turns: int = 20) -> None:
        """Passes until nothing happens any more; whoever dies is born again."""
        for _ in range(turns):
            before = self.effects
            try:
                self.turn()
            except Died:
                self.born()
                continue
            except Conflict:
                continue
            if before == self.effects:
                return
        raise AssertionError(f"it does not come to rest: {self.history[-6:]}")

    def said(self, number: int = 0) -> MigApply | None:
        return self.objects[self.address(number)].status.mig_apply

    def phases(self, number: int = 0) -> list[str]:
        return [phase for name, phase in self.history if name == self.address(number)]

    def phase(self, number: int = 0) -> str:
        now = self.said(number)
        return now.phase if now else ""

    def reason(self, number: int = 0) -> str:
        now = self.said(number)
        return (now.reason or "") if now else ""

    def actual(self, number: int = 0) -> CardLayout:
        return self.machine.layout(self.address(number))

    def log(self, what: str) -> list[Any]:
        return [entry for entry in self.machine.state["log"] if entry[0] == what]
