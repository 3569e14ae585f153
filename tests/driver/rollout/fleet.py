"""Nodes of one GPUDriver as its roll-out sees them; what single nodes do meanwhile is played in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from controllers.api import names
from controllers.api.driver_rollout import Rollout
from controllers.api.driver_work import DriverWork, LastDriverWork
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver, Result
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.record import adapter, to_json
from controllers.domain.clock import begun, stamp
from controllers.domain.driver.choice import Choice, Install
from controllers.domain.driver.variant import Variant, revision_of
from controllers.driver.node.moves import charged, move
from controllers.driver.node.work import ended
from controllers.driver.rollout.counts import is_started
from controllers.driver.rollout.observed import Candidate, Facts, Group, Load, ObservedRollout, PoolRules
from controllers.driver.rollout.plan import RolloutPlan, plan_rollout
from controllers.driver.views import Results
from controllers.runtime.plan import Merge
from tests.kit import objects

OLD, NEW = (Variant(digit * 10, "ubuntu24.04") for digit in "ab")
WANTED = Install(NEW, "Compiled", "r/driver:610", "610")
FORMER = Install(OLD, "Compiled", "r/driver:580", "580")
NOW = objects.NOW
NEXT = {
    "Preflight": "Queued",
    "Withdrawing": "Draining",
    "Draining": "Clearing",
    "Clearing": "Removing",
    "Removing": "Installing",
    "Installing": "Validating",
}
"""The phase after each, of a node with which all is well."""


@dataclass
class Member:
    """A node."""

    name: str
    pool: str = "a"
    stratum: str = "s"
    cards: tuple[GPUDevice, ...] = ()
    label: str | None = OLD.value
    choice: Choice | None = WANTED
    work: DriverWork | None = None
    last: LastDriverWork | None = None
    load: Load = field(default_factory=Load)
    ready: bool = True
    cordoned: bool = False
    broken: bool = False
    """Whether it is out of service for a cause of its own."""
    annotations: dict[str, str] = field(default_factory=dict)
    back: Install | None = None
    version: int = 1

    @property
    def phase(self) -> str | None:
        """How far it is."""
        return self.work.phase if self.work is not None else None

    @property
    def is_out(self) -> bool:
        """Whether it is out of service for its driver's sake."""
        return self.work is not None and self.work.out_since is not None


class Fleet:
    """One GPUDriver, its nodes and their pools."""

    def __init__(self, **rollout: Any) -> None:
        self.now = NOW
        self.rollout = adapter(Rollout).validate_python(rollout)
        self.annotations: dict[str, str] = {}
        self.members: dict[str, Member] = {}
        self.results: dict[str, Result] = {}
        self.halted: str | None = None
        self.rules: dict[str, PoolRules] = {}
        self.looks, self.percent, self.since = 10, 20, stamp(NOW - 3600)
        self.others: list[Member] = []
        """Nodes of other GPUDrivers."""
        self.waiting: dict[str, str] = {}
        self.requeue: float | None = None

    def add(self, number: int, *, cards: int = 1, prefix: str = "n", **more: Any) -> list[Member]:
        """So many nodes that serve with the old driver."""
        first = len(self.members)
        made = [
            Member(name := f"{prefix}{first + at:04d}", cards=_cards(name, cards, str(more.get("pool", "a"))), **more)
            for at in range(number)
        ]
        self.members |= {one.name: one for one in made}
        return made

    # --- the view ---------------------------------------------------------------------------

    def view(self) -> ObservedRollout:
        """What the plan sees."""
        facts = {one.name: self.facts(one) for one in (*self.members.values(), *self.others)}
        own, cluster, pools = Group(), Group(), dict[str, Group]()
        for name, one in facts.items():
            cluster.count(one, len(one.devices))
            for pool, number in one.pools.items():
                pools.setdefault(pool, Group()).count(one, number)
            if name in self.members:
                own.count(one, len(one.devices))
        candidates = tuple(
            Candidate(facts[name], one.choice, one.stratum if one.choice is not None else "", one.back)
            for name, one in sorted(self.members.items())
        )
        spec = {"version": "610", "rollout": to_json(self.rollout)}
        meta = {"name": "main", "annotations": self.annotations}
        looked = sum(one.phase == "Preflight" for one in self.members.values())
        return ObservedRollout(
            driver=adapter(GPUDriver).validate_python({"metadata": meta, "spec": spec}),
            revision=NEW.revision,
            candidates=candidates,
            results=Results("Unproved", dict(self.results), self.halted),  # type: ignore[arg-type]
            counted_since=self.since,
            own=own,
            cluster=cluster,
            pools=pools,
            rules=self.rules,
            percent=self.percent,
            looks=self.looks - looked,
        )

    def facts(self, one: Member) -> Facts:
        """A node as it is now."""
        labels = {names.DRIVER_VARIANT: one.label} if one.label is not None else {}
        node = objects.node(
            one.name, ready=one.ready, labels=labels, meta={"uid": one.name, "annotations": one.annotations}
        )
        status = {"driverWork": to_json(one.work) if one.work is not None else None}
        meta = {"name": one.name, "uid": one.name, "resourceVersion": str(one.version)}
        return Facts(
            node=node,
            inventory=adapter(GPUNodeInventory).validate_python({"metadata": meta, "status": status}),
            devices=one.cards,
            pools=dict(Counter(home for card in one.cards if (home := card.home) is not None)),
            in_service=not (one.broken or one.is_out),
            has_left=one.broken or one.is_out,
            may_start=one.ready and not one.cordoned,
            load=one.load,
            last=one.last,
        )

    def plan(self) -> RolloutPlan:
        """One plan, without its writes."""
        return plan_rollout(self.view(), self.now)

    def step(self) -> list[str]:
        """One plan with its writes; says which nodes it took out of service."""
        made = self.plan()
        self.waiting = {name: str(reason) for name, reason in made.waiting.items()}
        self.requeue = made.plan.requeue_after
        taken = []
        for action in made.plan.actions:
            assert isinstance(action, Merge)
            one = self.members[action.ref.name]
            assert action.resource_version == str(one.version)
            body = action.body["status"]["driverWork"]
            work = adapter(DriverWork).validate_python({key: value for key, value in body.items() if value is not None})
            if work.phase == "Withdrawing":
                taken.append(one.name)
            self.write(one, work)
        return taken

    def settle(self) -> list[str]:
        """Plans until none writes anything; says which nodes were taken out of service."""
        taken: list[str] = []
        for _ in range(200):
            before = [one.version for one in self.members.values()]
            taken += self.step()
            if before == [one.version for one in self.members.values()]:
                return taken
        raise AssertionError(f"it does not settle: {[(one.name, one.phase) for one in self.members.values()]}")

    # --- what nodes do ----------------------------------------------------------------------

    def write(self, one: Member, work: DriverWork | None) -> None:
        """Another state of a node's work."""
        one.work, one.version = work, one.version + 1

    def advance(self, one: Member) -> None:
        """The node's next phase, where all is well."""
        work = one.work
        if work is None:
            return
        if work.phase in NEXT:
            one.label = None if work.phase == "Clearing" else work.to if work.phase == "Removing" else one.label
            self.write(one, move(work, NEXT[work.phase], self.now))  # type: ignore[arg-type]
        elif work.phase == "Validating":
            back = charged(work, self.now, len(one.cards))
            if work.undoes is not None:
                self._end(one, back, good=False)
                self.write(one, move(back, "RolledBack", self.now))
            else:
                self.write(one, move(back, "Soaking", self.now))
        elif work.phase == "Soaking":
            self._end(one, work, good=True)
            self.results[work.stratum or ""] = "Good"
            self.write(one, None)

    def fail(self, one: Member, fault: str = "Revision") -> None:
        """The driver fails on a node that has it; the node is on its way back to the former one."""
        work = one.work
        assert work is not None
        told = replace(work, reason="ModuleLoad", fault=fault)  # type: ignore[arg-type]
        self._end(one, told, good=False)
        phase: Any = "Queued" if work.phase == "Soaking" else "Removing"
        undone: dict[str, Any] = {"undoes": revision_of(work.to or ""), "gpu_seconds": 0}
        self.write(one, move(told, phase, self.now, from_=work.to, to=work.from_, **undone))
        if fault == "Revision" and self.results.get(work.stratum or "") != "Good":
            self.results[work.stratum or ""] = "Bad"

    def defer(self, one: Member, after: float = 1800.0) -> None:
        """Pods have stayed on the node for too long."""
        assert one.work is not None
        back = charged(one.work, self.now, len(one.cards))
        self.write(one, move(back, "Deferred", self.now, retry_at=stamp(self.now + after)))

    def recall(self, one: Member) -> None:
        """The node is given back before its driver is touched."""
        self.write(one, None)

    def until(self, phase: str | None, *members: Member) -> None:
        """Advance nodes to a phase."""
        for one in members:
            for _ in range(12):
                if one.phase == phase:
                    break
                self.advance(one)
            assert one.phase == phase, one

    def finish(self, taken: list[str]) -> None:
        """Nodes come back with the driver, and soak to the end."""
        for name in taken:
            self.until(None, self.members[name])

    def roll(self, each: Callable[[Fleet], None] = lambda _: None, rounds: int = 400) -> list[list[str]]:
        """Let everything go on to the end; says who was taken out of service in each round."""
        waves: list[list[str]] = []
        for _ in range(rounds):
            waves.append(self.settle())
            each(self)
            moving = [one for one in self.members.values() if one.phase in (*NEXT, "Validating", "Soaking")]
            if not moving:
                return [wave for wave in waves if wave]
            for one in moving:
                self.advance(one)
            self.now += 60
        raise AssertionError("it does not end")

    def _end(self, one: Member, work: DriverWork, *, good: bool) -> None:
        made = ended(work, self.now, good=good)
        if one.last is not None and begun(one.last.at, self.now) > self.now - 86_400:
            made = replace(made, gpu_seconds=made.gpu_seconds + one.last.gpu_seconds)
        one.last = made

    # --- what is counted --------------------------------------------------------------------

    def out(self, pool: str | None = None) -> list[Member]:
        """Nodes out of service for their driver's sake."""
        every = [*self.members.values(), *self.others]
        return [one for one in every if one.is_out and (pool is None or any(card.home == pool for card in one.cards))]

    def started(self, stratum: str) -> int:
        """How many of a kind have been begun."""
        seen = self.view()
        return sum(one.stratum == stratum and is_started(one, seen) for one in seen.candidates)


def _cards(node: str, number: int, pool: str) -> tuple[GPUDevice, ...]:
    return tuple(objects.card(node, at=at + 1, pool=pool) for at in range(number))
