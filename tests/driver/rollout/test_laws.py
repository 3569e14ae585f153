"""The laws of a roll-out, on many small fleets: whatever nodes do and people change, each holds after every write."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controllers.api import names
from controllers.api.driver_rollout import MaxUnavailable, Window
from controllers.domain.clock import stamp
from controllers.domain.driver.states import LEAVING, TRYING
from controllers.domain.driver.windows import Schedule, schedule
from controllers.driver.rollout.budget import share, unplanned_limit
from controllers.driver.rollout.observed import PoolRules
from tests.driver.rollout.fleet import NEW, Fleet, Member

STRATA, POOLS = ("one", "two"), ("a", "b")
SHARES = st.sampled_from(["1", "2", "25%", "100%"])
LIMITS = st.builds(
    MaxUnavailable,
    nodes=SHARES,
    per_pool=SHARES,
    cards=st.sampled_from([0, 3, 8]),
    gpu_hours_per_day=st.sampled_from([0, 0, 3]),
)
CHANGES = ("advance", "advance", "advance", "fail", "fail alone", "defer", "recall")
HOUR = 3600


class Rollouts(RuleBasedStateMachine):
    """Nodes go on, fail, break and are mended; people pause, cordon and change budgets."""

    @initialize(
        sizes=st.lists(st.tuples(st.sampled_from(STRATA), st.sampled_from(POOLS), st.integers(1, 5)), max_size=4),
        limits=LIMITS,
        waves=st.sampled_from([(100,), (10, 30, 100), (50, 100)]),
        per_stratum=st.integers(1, 2),
        looks=st.integers(1, 10),
    )
    def start(
        self,
        sizes: list[tuple[str, str, int]],
        limits: MaxUnavailable,
        waves: tuple[int, ...],
        per_stratum: int,
        looks: int,
    ) -> None:
        self.fleet = Fleet(waves=waves, canary={"perStratum": per_stratum, "percent": 100})
        self.fleet.rollout = replace(self.fleet.rollout, max_unavailable=limits)
        self.fleet.looks = looks
        self.fleet.add(2, stratum="one", cards=2)
        for stratum, pool, number in sizes:
            self.fleet.add(number, stratum=stratum, pool=pool, cards=2)
        self.fleet.rules = {}

    def one(self, data: st.DataObject, phases: tuple[str | None, ...] = ()) -> Member | None:
        found = [one for _, one in sorted(self.fleet.members.items()) if not phases or one.phase in phases]
        return data.draw(st.sampled_from(found)) if found else None

    @rule()
    def plan(self) -> None:
        """One plan: what it takes out of service may be taken."""
        fleet = self.fleet
        before = {name: (one.phase, one.is_out, one.work) for name, one in fleet.members.items()}
        trouble = self.unplanned()
        taken = fleet.step()
        for name in taken:
            self.may_be_taken(fleet.members[name], trouble)
        self.budgets_hold(taken)
        self.waves_hold()
        for name, one in fleet.members.items():
            moved = (before[name][0], one.phase)
            assert before[name][2] == one.work or moved[1] in ("Preflight", "Withdrawing", "Queued"), moved
        looked = sum(one.phase == "Preflight" for one in fleet.members.values())
        earlier = sum(phase == "Preflight" for phase, _, _ in before.values())
        assert looked <= max(fleet.looks, earlier)

    def may_be_taken(self, one: Member, trouble: list[str]) -> None:
        fleet, work = self.fleet, one.work
        assert work is not None
        assert names.PAUSE not in {**fleet.annotations, **one.annotations}
        assert one.ready
        assert work.out_since == stamp(fleet.now)
        if not one.broken:
            assert not set(trouble) & {"", one.pool}, "too much is out for other causes"
        if work.undoes is not None or work.hand_over is not None:
            return
        assert not one.cordoned
        assert fleet.halted is None
        assert fleet.results.get(one.stratum) != "Bad"
        for rules in (schedule(fleet.rollout.windows), fleet.rules.get(one.pool, PoolRules()).schedule):
            assert rules.fits(fleet.now, 60)
        if work.wave:
            assert fleet.results.get(one.stratum) == "Good" or self.serve(one.stratum)

    def serve(self, stratum: str) -> bool:
        """Whether a node of the kind serves with the revision."""
        of_kind = [one for one in self.fleet.members.values() if one.stratum == stratum]
        return any(one.label == NEW.value and one.work is None for one in of_kind)

    def unplanned(self) -> list[str]:
        """Groups of which too much is out of service for other causes."""
        every = list(self.fleet.members.values())
        groups = {"": every} | {pool: [one for one in every if one.pool == pool] for pool in POOLS}
        return [
            key
            for key, group in groups.items()
            if sum(one.broken and not one.is_out for one in group) > unplanned_limit(len(group), self.fleet.percent)
        ]

    def budgets_hold(self, taken: list[str]) -> None:
        if not taken:
            return
        fleet, limits = self.fleet, self.fleet.rollout.max_unavailable
        out = fleet.out()
        assert len(out) <= share(limits.nodes, len(fleet.members))
        for pool in {fleet.members[name].pool for name in taken}:
            total = sum(one.pool == pool for one in fleet.members.values())
            assert len(fleet.out(pool)) <= share(limits.per_pool, total)
            most = fleet.rules.get(pool, PoolRules()).max_cards
            assert most is None or len(fleet.out(pool)) == 1 or 2 * len(fleet.out(pool)) <= most
        assert not limits.cards or len(out) == 1 or 2 * len(out) <= limits.cards

    def waves_hold(self) -> None:
        for stratum in STRATA:
            works = [one.work for one in self.fleet.members.values() if one.stratum == stratum and one.work is not None]
            waves = {one.wave for one in works if one.phase in TRYING and one.undoes is None and one.hand_over is None}
            assert len(waves) <= 1, f"two waves of {stratum}: {waves}"

    @rule(rounds=st.integers(1, 6), which=st.integers(0, 3))
    def time_goes_on(self, rounds: int, which: int) -> None:
        """Plans follow one another, and of nodes that are at work all but some go on."""
        for _ in range(rounds):
            self.plan()
            for at, one in enumerate(self.fleet.members.values()):
                if at % 4 != which and not (one.work is not None and one.work.hand_over is not None):
                    self.fleet.advance(one)
            self.fleet.now += 60

    @rule(data=st.data(), how=st.sampled_from(CHANGES))
    def node_goes_on(self, data: st.DataObject, how: str) -> None:
        fleet = self.fleet
        phases: dict[str, tuple[str | None, ...]] = {
            "advance": ("Preflight", *LEAVING, "Removing", "Installing", "Validating", "Soaking"),
            "fail": ("Installing", "Validating", "Soaking"),
            "fail alone": ("Installing", "Validating"),
            "defer": LEAVING,
            "recall": LEAVING,
        }
        one = self.one(data, phases[how])
        if one is None or one.work is None:
            return
        undone = one.work.undoes is not None or one.work.hand_over is not None
        if how == "advance" and not (one.work.hand_over is not None and one.phase == "Clearing"):
            fleet.advance(one)
        elif how in ("fail", "fail alone") and not undone:
            fleet.fail(one, "Revision" if how == "fail" else "Node")
        elif how == "defer" and not undone:
            fleet.defer(one)
        elif how == "recall" and not undone:
            fleet.recall(one)

    @rule(data=st.data(), broken=st.booleans())
    def breaks(self, data: st.DataObject, broken: bool) -> None:
        if (one := self.one(data)) is not None and not one.is_out:
            one.broken = broken

    @rule(data=st.data(), cordoned=st.booleans(), ready=st.booleans())
    def changes(self, data: st.DataObject, cordoned: bool, ready: bool) -> None:
        if (one := self.one(data)) is not None:
            one.cordoned, one.ready = cordoned, ready

    @rule(data=st.data(), on=st.sampled_from(["driver", "node"]), ends=st.booleans())
    def pause(self, data: st.DataObject, on: str, ends: bool) -> None:
        one = self.one(data)
        annotations = self.fleet.annotations if on == "driver" or one is None else one.annotations
        annotations.pop(names.PAUSE, None)
        if not ends:
            annotations[names.PAUSE] = stamp(self.fleet.now + 20 * 86_400)

    @rule(limits=LIMITS)
    def budget(self, limits: MaxUnavailable) -> None:
        self.fleet.rollout = replace(self.fleet.rollout, max_unavailable=limits)

    @rule(pool=st.sampled_from(POOLS), most=st.sampled_from([None, 1, 4]), hours=st.integers(0, 22), shut=st.booleans())
    def pool_narrows(self, pool: str, most: int | None, hours: int, shut: bool) -> None:
        windows = (Window(from_=f"{hours:02d}:00", to=f"{hours + 1:02d}:00"),) if shut else ()
        self.fleet.rules[pool] = PoolRules(max_cards=most, schedule=Schedule(windows))

    @rule(hours=st.one_of(st.none(), st.integers(0, 20)))
    def window(self, hours: int | None) -> None:
        windows = () if hours is None else (Window(from_=f"{hours:02d}:00", to=f"{hours + 3:02d}:00"),)
        self.fleet.rollout = replace(self.fleet.rollout, windows=windows)

    @rule(halted=st.booleans())
    def halt(self, halted: bool) -> None:
        self.fleet.halted = "DiskFull" if halted else None

    @rule()
    def resume(self) -> None:
        fleet = self.fleet
        fleet.now += 1
        fleet.since = stamp(fleet.now)
        fleet.results = {key: result for key, result in fleet.results.items() if result != "Bad"}
        for one in fleet.members.values():
            if one.phase == "RolledBack":
                fleet.write(one, None)

    @rule(data=st.data())
    def hand_over(self, data: st.DataObject) -> None:
        if (one := self.one(data)) is not None:
            one.annotations[names.HAND_OVER] = "kured"

    @rule(seconds=st.sampled_from([60, 1801, 6 * HOUR, 25 * HOUR]))
    def wait(self, seconds: int) -> None:
        self.fleet.now += seconds

    @invariant()
    def each_that_waits_has_one_reason(self) -> None:
        """Who is to get another driver and is not at work is in the list, and nobody else."""
        if not hasattr(self, "fleet"):
            return
        made = self.fleet.plan()
        begun = {action.ref.name for action in made.plan.actions}  # type: ignore[union-attr]
        for name, one in self.fleet.members.items():
            outdated = one.work is None and one.label not in (None, NEW.value)
            if outdated or one.phase == "Queued":
                assert name in made.waiting or name in begun, one
            if one.is_out:
                assert name not in made.waiting, one
        if made.waiting:
            assert made.plan.requeue_after is not None

    def teardown(self) -> None:
        """Once people and nodes let it, everything comes to its end."""
        if not hasattr(self, "fleet"):
            return
        fleet = self.fleet
        fleet.annotations, fleet.halted, fleet.rules = {}, None, {}
        fleet.rollout = replace(fleet.rollout, windows=(), max_unavailable=MaxUnavailable(gpu_hours_per_day=0, cards=0))
        for one in fleet.members.values():
            one.annotations, one.broken, one.cordoned, one.ready = {}, False, False, True
            if one.work is not None and one.work.hand_over is not None:
                fleet.write(one, None)
        self.resume()
        for _ in range(4):
            fleet.roll()
            fleet.now += 25 * HOUR
            self.resume()
        left = {one.name: (one.phase, fleet.waiting.get(one.name)) for one in fleet.members.values() if one.work}
        assert not left, left
        assert all(one.label == NEW.value for one in fleet.members.values()), fleet.waiting


TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
