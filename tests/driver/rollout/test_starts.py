"""Which nodes a roll-out begins and takes out of service, and why the others wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.api import names
from controllers.api.driver_rollout import Window
from controllers.api.driver_work import DriverWork
from controllers.domain.clock import stamp
from controllers.domain.driver.windows import Schedule
from controllers.driver.rollout.observed import Load, PoolRules
from tests.driver.rollout.fleet import FORMER, NEW, OLD, Fleet
from tests.kit import objects

WIDE = {"nodes": "100%", "perPool": "100%", "cards": 0}


@pytest.fixture
def proved() -> Fleet:
    """Twenty nodes of one kind, on which the revision is proved, with budgets that keep nothing."""
    fleet = Fleet(waves=[100], max_unavailable=WIDE)
    fleet.add(20)
    serves(fleet, "n0000")
    return fleet


def serves(fleet: Fleet, *nodes: str) -> None:
    """The nodes have the new driver already."""
    for name in nodes:
        fleet.members[name].label = NEW.value
        fleet.results[fleet.members[name].stratum] = "Good"


def begun(fleet: Fleet) -> list[str]:
    """Nodes that are looked at now, or wait."""
    return sorted(one.name for one in fleet.members.values() if one.phase in ("Preflight", "Queued"))


def looked(fleet: Fleet) -> None:
    """Every look ends well."""
    for one in fleet.members.values():
        if one.phase == "Preflight":
            fleet.advance(one)


def start_all(fleet: Fleet) -> list[str]:
    """Look and start until nothing goes on."""
    taken = fleet.settle()
    for _ in range(20):
        looked(fleet)
        more = fleet.settle()
        if not more and not any(one.phase == "Preflight" for one in fleet.members.values()):
            return taken
        taken += more
    return taken


def test_a_canary_of_each_kind_goes_first_and_all_others_wait_for_it() -> None:
    fleet = Fleet(canary={"percent": 50}, max_unavailable=WIDE)
    fleet.add(5, stratum="one")
    fleet.add(5, stratum="two")

    taken = start_all(fleet)

    assert {fleet.members[name].stratum for name in taken} == {"one", "two"}
    assert len(taken) == 2
    assert set(fleet.waiting.values()) == {"AwaitingProof"}
    assert all(fleet.members[name].work.wave == 0 for name in taken)  # type: ignore[union-attr]


def test_canaries_of_many_kinds_are_no_more_than_their_share() -> None:
    fleet = Fleet(canary={"percent": 20}, max_unavailable=WIDE)
    for at in range(10):
        fleet.add(1, stratum=f"kind-{at}")

    assert len(start_all(fleet)) == 2


def test_a_wave_waits_until_the_one_before_has_soaked() -> None:
    fleet = Fleet(waves=[10, 30, 100], max_unavailable=WIDE)
    fleet.add(20)

    first = start_all(fleet)
    fleet.finish(first)
    second = start_all(fleet)
    for name in second:
        fleet.until("Soaking", fleet.members[name])

    assert (len(first), len(second)) == (1, 1)
    assert start_all(fleet) == []
    assert set(fleet.waiting.values()) == {"AwaitingWave"}
    fleet.finish(second)
    assert len(start_all(fleet)) == 4


def test_everything_is_rolled_out_in_waves() -> None:
    fleet = Fleet(waves=[10, 30, 100], max_unavailable=WIDE)
    fleet.add(20)

    fleet.roll()

    assert all(one.label == NEW.value and one.work is None for one in fleet.members.values())
    waves = [one.last.wave for one in fleet.members.values() if one.last is not None]
    assert sorted(waves) == [0, 1, *[2] * 4, *[3] * 14]  # type: ignore[type-var]


def test_nobody_is_begun_twice_and_who_has_it_is_left_alone(proved: Fleet) -> None:
    taken = start_all(proved)

    assert sorted(taken) == sorted(set(proved.members) - {"n0000"})
    assert proved.members["n0000"].work is None


@pytest.mark.parametrize(
    ("limits", "expected", "reason"),
    [
        ({"nodes": "10%"}, 2, "BudgetReached"),
        ({"nodes": "3"}, 3, "BudgetReached"),
        ({"nodes": "1%"}, 1, "BudgetReached"),
        ({"cards": 4}, 4, "BudgetReached"),
        ({"perPool": "25%"}, 5, "PoolBudgetReached"),
        ({"gpuHoursPerDay": 2}, 4, "GPUHoursSpent"),
    ],
)
def test_all_budgets_hold(proved: Fleet, limits: dict[str, str | int], expected: int, reason: str) -> None:
    proved.rollout = Fleet(waves=[100], max_unavailable={**WIDE, **limits}).rollout

    assert len(start_all(proved)) == expected
    assert reason in proved.waiting.values()


def test_a_node_with_more_cards_than_may_be_out_goes_alone() -> None:
    fleet = Fleet(waves=[100], max_unavailable={**WIDE, "cards": 4})
    fleet.add(3, cards=8)
    serves(fleet, "n0000")

    assert len(start_all(fleet)) == 1


def test_a_pool_of_another_driver_s_nodes_has_one_budget() -> None:
    fleet = Fleet(waves=[100], max_unavailable={**WIDE, "perPool": "2"})
    fleet.add(6)
    serves(fleet, "n0000")
    other = fleet.add(1)[0]
    del fleet.members[other.name]
    fleet.others.append(other)
    fleet.write(other, other_work())

    assert len(start_all(fleet)) == 1
    assert len(fleet.out("a")) == 2


def other_work() -> DriverWork:
    """The work of a node that another driver has taken out of service."""
    trial = Fleet(waves=[100], max_unavailable=WIDE)
    trial.add(2)
    serves(trial, "n0000")
    work = trial.members[start_all(trial)[0]].work
    assert work is not None
    return replace(work, driver="other")


def test_a_pool_narrows_what_its_nodes_may(proved: Fleet) -> None:
    proved.add(4, pool="b")
    proved.rules = {"a": PoolRules(max_cards=3)}

    taken = start_all(proved)

    assert len([name for name in taken if proved.members[name].pool == "a"]) == 3
    assert len([name for name in taken if proved.members[name].pool == "b"]) == 4


def test_nodes_that_are_out_for_other_causes_hold_those_that_serve(proved: Fleet) -> None:
    broken = [proved.members[name] for name in ("n0001", "n0002", "n0003")]
    for one in broken:
        one.broken, one.cordoned = True, True

    assert start_all(proved) == []  # 20 % of 20 are 4: half of that are 2
    assert begun(proved) == []
    assert set(proved.waiting.values()) == {"TooManyNodesOut", "NodeCordoned"}
    broken[0].broken = False
    assert len(start_all(proved)) == 16


def test_a_node_that_is_out_anyway_is_not_held_by_others_that_are(proved: Fleet) -> None:
    for one in list(proved.members.values())[1:]:
        one.broken = True

    assert len(start_all(proved)) == 19


def test_one_broken_node_never_stops_a_small_pool() -> None:
    fleet = Fleet(waves=[100], max_unavailable=WIDE)
    fleet.add(3)
    serves(fleet, "n0000")
    fleet.members["n0001"].broken = True

    assert "n0002" in start_all(fleet)


def test_idle_nodes_come_first_then_those_with_few_pods_of_low_priority(proved: Fleet) -> None:
    proved.rollout = replace(
        proved.rollout, max_unavailable=Fleet(max_unavailable={"nodes": "1"}).rollout.max_unavailable
    )
    for at, one in enumerate(proved.members.values()):
        one.load = Load(pods=2, priority=100 - at)
    proved.members["n0007"].load = Load(pods=1, priority=5000)
    proved.members["n0009"].load = Load()

    order = []
    for _ in range(3):
        taken = start_all(proved)
        order += taken
        proved.finish(taken)

    assert order == ["n0009", "n0007", "n0019"]


def test_ranks_of_one_job_are_begun_together(proved: Fleet) -> None:
    proved.rollout = Fleet(waves=[100], max_unavailable={**WIDE, "nodes": "3"}).rollout
    for at, one in enumerate(proved.members.values()):
        one.load = Load(
            pods=1 + at, jobs=frozenset(("training",)) if one.name in ("n0001", "n0015", "n0018") else frozenset()
        )

    assert sorted(start_all(proved)) == ["n0001", "n0015", "n0018"]


def test_nothing_starts_while_paused_and_it_goes_on_by_itself(proved: Fleet) -> None:
    proved.annotations = {names.PAUSE: stamp(proved.now + 600)}

    assert start_all(proved) == []
    assert begun(proved) == []
    assert set(proved.waiting.values()) == {"RolloutPaused"}
    proved.step()
    assert proved.requeue is not None
    assert proved.requeue <= 600
    proved.now += 601
    assert start_all(proved) != []


def test_a_node_is_paused_alone(proved: Fleet) -> None:
    proved.members["n0004"].annotations = {names.PAUSE: stamp(proved.now + 600)}

    assert len(start_all(proved)) == 18
    assert proved.waiting == {"n0004": "RolloutPaused"}


@pytest.mark.parametrize(
    ("how", "reason"),
    [({"cordoned": True}, "NodeCordoned"), ({"ready": False}, "NodeNotReady")],
)
def test_a_node_that_may_not_be_started_keeps_no_other(proved: Fleet, how: dict[str, bool], reason: str) -> None:
    for key, value in how.items():
        setattr(proved.members["n0004"], key, value)

    assert len(start_all(proved)) == 18
    assert proved.waiting == {"n0004": reason}


def test_a_bad_revision_is_begun_on_no_node_of_that_kind() -> None:
    fleet = Fleet(canary={"percent": 100}, max_unavailable=WIDE, waves=[100])
    fleet.add(4, stratum="good")
    fleet.add(4, stratum="bad")
    for name in start_all(fleet):
        one = fleet.members[name]
        if one.stratum == "bad":
            fleet.fail(one)
        else:
            fleet.finish([name])

    taken = start_all(fleet)

    assert {fleet.members[name].stratum for name in taken} == {"good"}
    assert len(taken) == 3
    assert set(fleet.waiting.values()) == {"RevisionBad"}


def test_what_befell_several_nodes_alike_keeps_all(proved: Fleet) -> None:
    proved.halted = "DiskFull"

    assert start_all(proved) == []
    assert set(proved.waiting.values()) == {"RolloutHalted"}


def test_nodes_start_only_in_a_window_that_is_long_enough(proved: Fleet) -> None:
    opens = proved.now + 7200
    clock, end = (stamp(at)[11:16] for at in (opens, opens + 3600))
    proved.rollout = replace(proved.rollout, windows=(Window(from_=clock, to=end),))

    assert start_all(proved) == []
    assert begun(proved) == []
    assert set(proved.waiting.values()) == {"AwaitingWindow"}
    proved.step()
    assert proved.requeue is not None
    proved.now = opens - 900
    assert start_all(proved) == []
    assert begun(proved) != [], "nodes are looked at before the window"
    proved.now = opens + 1801  # thirty minutes are expected of what nobody knows
    assert start_all(proved) == []
    proved.now = opens + 60
    assert start_all(proved) != []


def test_a_window_of_a_pool_holds_its_nodes_alone(proved: Fleet) -> None:
    proved.add(2, pool="b")
    shut = stamp(proved.now + 7200)[11:16]
    proved.rules = {"b": PoolRules(schedule=Schedule((Window(from_=shut, to="23:59"),)))}

    taken = start_all(proved)

    assert len(taken) == 19
    assert {proved.members[name].pool for name in taken} == {"a"}


def test_a_pool_that_is_configured_anew_holds_its_nodes(proved: Fleet) -> None:
    proved.rules = {"a": PoolRules(in_maintenance=True)}

    assert start_all(proved) == []
    assert set(proved.waiting.values()) == {"PoolInMaintenance"}


def test_a_node_that_was_given_back_is_tried_again_later_and_keeps_no_place(proved: Fleet) -> None:
    proved.rollout = Fleet(waves=[100], max_unavailable={**WIDE, "nodes": "1"}).rollout
    first = start_all(proved)[0]
    proved.defer(proved.members[first])

    second = start_all(proved)
    assert second not in ([], [first])
    proved.finish(second)
    proved.step()
    assert proved.requeue is not None
    proved.now += 1801
    rest = [name for wave in proved.roll() for name in wave]
    assert first in rest
    again = proved.members[first].last
    assert again is not None
    assert again.gpu_seconds >= 0


def test_a_person_has_a_deferred_node_tried_at_once(proved: Fleet) -> None:
    first = proved.members[start_all(proved)[0]]
    proved.defer(first)
    assert start_all(proved) == []
    first.annotations = {names.DRIVER_RETRY: "true"}

    proved.settle()

    assert first.phase == "Preflight"
    assert first.work is not None
    assert first.work.attempt == 2


def test_a_canary_that_failed_alone_gives_its_place_to_another() -> None:
    fleet = Fleet(max_unavailable=WIDE)
    fleet.add(20)
    first = start_all(fleet)
    fleet.fail(fleet.members[first[0]], fault="Node")

    second = start_all(fleet)

    assert len(second) == 1
    assert second != first


def test_what_failed_before_the_revision_was_resumed_does_not_count() -> None:
    fleet = Fleet(max_unavailable=WIDE)
    fleet.add(5)
    first = fleet.members[start_all(fleet)[0]]
    fleet.fail(first)
    fleet.until("RolledBack", first)
    assert start_all(fleet) == []
    fleet.write(first, None)  # as its own plan does once it is resumed
    fleet.results, fleet.now = {}, fleet.now + 60
    fleet.since = stamp(fleet.now)
    first.cordoned = True

    assert len(start_all(fleet)) == 1, "its place is another one's"


# --- way back and hand-over --------------------------------------------------------------------


def test_who_goes_back_is_begun_first_whatever_the_windows_and_within_the_budget() -> None:
    fleet = Fleet(waves=[100], max_unavailable={**WIDE, "nodes": "2"})
    fleet.add(6)
    serves(fleet, "n0000")
    taken = start_all(fleet)
    for name in taken:
        fleet.until("Soaking", fleet.members[name])
        fleet.fail(fleet.members[name])
    shut = stamp(fleet.now + 7200)[11:16]
    fleet.rollout = replace(fleet.rollout, windows=(Window(from_=shut, to="23:59"),))

    assert sorted(start_all(fleet)) == sorted(taken)
    assert len(fleet.out()) == 2


def test_a_wave_that_is_undone_goes_back_under_the_budget() -> None:
    fleet = Fleet(waves=[100], max_unavailable={**WIDE, "nodes": "2"}, rollback="Wave")
    fleet.add(6)
    serves(fleet, *fleet.members)
    fleet.results = {"s": "Bad"}
    for one in fleet.members.values():
        one.back = FORMER

    assert len(fleet.settle()) == 2
    assert sum(one.phase == "Queued" for one in fleet.members.values()) == 4
    one = fleet.members[fleet.out()[0].name]
    assert one.work is not None
    assert (one.work.undoes, one.work.to, one.work.from_) == (NEW.revision, OLD.value, NEW.value)


def test_a_node_that_a_person_wants_is_taken_under_the_budget_and_keeps_its_driver() -> None:
    fleet = Fleet(max_unavailable={**WIDE, "nodes": "1"}, windows=[{"from": "00:00", "to": "00:01"}])
    fleet.add(4)
    for name in ("n0001", "n0002"):
        fleet.members[name].annotations = {names.HAND_OVER: "ansible"}
        fleet.members[name].cordoned = True
        fleet.members[name].choice = None

    taken = start_all(fleet)

    assert len(taken) == 1
    work = fleet.members[taken[0]].work
    assert work is not None
    assert (work.hand_over, work.to, work.from_, work.wave) == ("ansible", OLD.value, None, None)
    assert fleet.waiting[({"n0001", "n0002"} - set(taken)).pop()] == "BudgetReached"


def test_no_more_nodes_are_looked_at_than_may_be_and_than_may_start_soon() -> None:
    fleet = Fleet(waves=[100], max_unavailable={**WIDE, "nodes": "10%"})
    fleet.add(100)
    serves(fleet, "n0000")
    fleet.looks = 7
    fleet.settle()
    assert len(begun(fleet)) == 7
    for _ in range(10):
        looked(fleet)
        fleet.settle()

    assert len(fleet.out()) == 10
    assert len(begun(fleet)) == 5, "half of what may be out at once waits to be next"


def test_a_pool_that_is_stuck_keeps_no_other() -> None:
    fleet = Fleet(waves=[100], max_unavailable={"nodes": "4", "perPool": "1", "cards": 0})
    fleet.add(10)
    fleet.add(10, pool="b")
    serves(fleet, "n0000")
    first = next(name for name in start_all(fleet) if fleet.members[name].pool == "a")

    done = 0
    for _ in range(9):
        taken = [one.name for one in fleet.out("b")]
        fleet.finish(taken)
        done += len(taken)
        start_all(fleet)

    assert fleet.members[first].is_out
    assert done >= 9


def test_the_cards_of_a_node_are_noted_as_it_is_taken(proved: Fleet) -> None:
    one = proved.members["n0001"]
    one.cards = (objects.card("n0001", pool="a", hardware={"uuid": "GPU-1"}),)
    start_all(proved)

    assert one.work is not None
    assert one.work.baseline is not None
    assert one.work.baseline.cards == ("GPU-1",)
    assert one.work.out_since == stamp(proved.now)
