"""What a sweep is to end is judged when it has ended, and at the end of the run."""

from __future__ import annotations

from typing import Any

from controllers.domain.clock import stamp
from reliability.faults.eventual_invariants import overlap, united
from tests.faults.test_invariants import IN_POOL, NOW, SLACK, device, pod, pool, told

MUCH = SLACK + 55


def reservation(request: str, expires: float, slots: int = 1) -> dict[str, Any]:
    return {"requestID": request, "slots": slots, "expiresAt": stamp(expires), "pod": "x"}


def allocation(uid: str, slots: int = 1) -> dict[str, Any]:
    return {"podUID": uid, "slots": slots, "pod": uid.removeprefix("u-")}


HELD = device(**IN_POOL, reservations=[reservation("r", NOW)])
FREE = device(**IN_POOL)
TAKEN = device(**IN_POOL, allocations=[allocation("u-x")], reservations=[reservation("late", NOW + 999)])
SERVES = device(**IN_POOL, allocations=[allocation("u-x")])


def test_a_reservation_without_a_pod_outlives_its_time_by_no_more_than_a_sweep() -> None:
    assert "reservation r has no pod" in told(("GPUDevice", HELD, 0), until=NOW + SLACK + 1)[0]
    assert not told(("GPUDevice", HELD, 0), until=NOW + SLACK - 1)
    assert not told(("Pod", pod("x", "r"), 0), ("GPUDevice", HELD, 0), until=NOW + MUCH)


def test_a_reservation_that_stood_too_long_is_told_though_it_was_removed_then() -> None:
    (said,) = told(("GPUDevice", HELD, 0), ("GPUDevice", FREE, MUCH), until=NOW + MUCH + 1)

    assert "reservation r has no pod" in said
    assert f"for {MUCH:.1f} s" in said
    assert not told(("GPUDevice", HELD, 0), ("GPUDevice", FREE, SLACK - 1), until=NOW + MUCH)


def test_a_reservation_that_is_overdue_is_told_also_when_another_card_changes_last() -> None:
    other = device("n-2", **IN_POOL)

    assert told(("GPUDevice", HELD, 0), ("GPUDevice", other, MUCH), ("GPUDevice", FREE, MUCH + 1), until=NOW + MUCH + 2)


def test_the_time_of_a_reservation_whose_pod_is_deleted_counts_from_then() -> None:
    before = [("Pod", pod("x", "r"), 0.0), ("GPUDevice", HELD, 0.0)]
    gone = ("-Pod", pod("x", "r"), MUCH)

    assert not told(*before, gone, ("GPUDevice", FREE, MUCH + SLACK - 1), until=NOW + 2 * MUCH)
    assert told(*before, gone, ("GPUDevice", FREE, MUCH + SLACK + 1), until=NOW + 2 * MUCH)


def test_more_given_than_there_is_has_to_end_within_a_sweep() -> None:
    assert "pool p gives 2 of 1 slots" in told(("GPUDevice", TAKEN, 0), until=NOW + SLACK + 1)[0]
    assert not told(("GPUDevice", TAKEN, 0), ("GPUDevice", SERVES, SLACK - 1), until=NOW + MUCH)


def test_an_excess_that_ended_after_a_minute_is_told() -> None:
    (said,) = told(("GPUDevice", TAKEN, 0), ("GPUDevice", SERVES, MUCH), until=NOW + MUCH)

    assert f"gives 2 of 1 slots, for {MUCH:.1f} s" in said


def test_what_was_wrong_when_a_run_began_counts() -> None:
    assert told(("GPUDevice", SERVES, MUCH), until=NOW + MUCH, initial=(("GPUDevice", TAKEN),)) == []
    later = ("GPUDevice", device("n-2"), 0.0)
    assert told(later, ("GPUDevice", SERVES, MUCH), until=NOW + MUCH, initial=(("GPUDevice", TAKEN),))


def test_a_withdrawn_card_that_serves_a_pod_hides_no_excess_beside_it() -> None:
    """In every drain and Maintenance: its slots are those that were published last."""
    withdrawn = device("n-2", poolRef={"name": "p"}, allocations=[allocation("u-y")])
    shown = device("n-2", **IN_POOL)

    assert told(("GPUDevice", shown, 0), ("GPUDevice", withdrawn, 0), ("GPUDevice", TAKEN, 0), until=NOW + MUCH)
    assert not told(("GPUDevice", shown, 0), ("GPUDevice", withdrawn, 0), ("GPUDevice", SERVES, 0), until=NOW + MUCH)


def test_a_card_that_is_being_divided_counts_as_what_is_taken_of_it() -> None:
    mig = pool(appliedAllocation={"mode": "MIG", "migProfile": "1g.5gb"})
    divided = device("n-2", poolRef={"name": "p"})

    assert told(("GPUPool", mig, 0), ("GPUDevice", divided, 0), ("GPUDevice", TAKEN, 0), until=NOW + MUCH)
    assert not told(("GPUPool", mig, 0), ("GPUDevice", divided, 0), ("GPUDevice", SERVES, 0), until=NOW + MUCH)


def test_a_card_that_waits_for_its_control_daemon_has_as_many_slots_as_clients() -> None:
    waiting = device(poolRef={"name": "p"}, reservations=[reservation("late", NOW + 999, slots=3)])

    for mps, slots in (({"mps": {"clients": 2}}, 2), ({}, 8)):
        shared = ("GPUPool", pool(appliedAllocation={"mode": "MPS"} | mps), 0.0)
        said = told(shared, ("GPUDevice", waiting, 0), until=NOW + MUCH)
        assert [f"pool p gives 3 of {slots} slots" in sentence for sentence in said] == [True] * (slots < 3)


def test_the_reservation_of_a_pod_that_has_its_card_counts_once() -> None:
    both = device(**IN_POOL, allocations=[allocation("u-x")], reservations=[reservation("r", NOW + 99)])

    assert not told(("Pod", pod("x", "r"), 0), ("GPUDevice", both, 0), until=NOW + SLACK + 1)


def test_a_card_in_no_pool_is_not_published_for_long() -> None:
    bad = device(published={"pool": "a", "slots": 1})

    assert "in no pool, and published by the plugin of a" in told(("GPUDevice", bad, 0), until=NOW + MUCH)[0]
    assert not told(("GPUDevice", bad, 0), ("GPUDevice", device(), 1), until=NOW + MUCH)


def test_the_time_in_which_nobody_was_there_to_sweep_does_not_count() -> None:
    steps = ("GPUDevice", HELD, 0.0), ("GPUDevice", FREE, MUCH)

    assert not told(*steps, until=NOW + MUCH, away=((NOW + 3, NOW + MUCH - 1),))
    assert told(*steps, until=NOW + MUCH, away=((NOW + 3, NOW + MUCH - SLACK),))
    assert told(*steps, until=NOW + MUCH, away=((NOW - MUCH, NOW),))


def test_spans_are_united_before_they_are_counted() -> None:
    assert united([(3, 5), (0, 2), (4, 6)]) == [(0, 2), (3, 6)]
    assert overlap((1, 4), [(0, 2), (3, 6)]) == 2
