"""Entries are made once for each version of a pod, and are those of the pods as they are now."""

from __future__ import annotations

from controllers.api import names
from controllers.api.gpupool import Toleration
from controllers.domain.queue.entry import Entries, Entry, queue_entry
from tests.kit.pods import pod

GATE = [{"name": names.CARDS_GATE}]
TOLERATED = (Toleration(key="gpu", operator="Exists"),)


def units(found: Entry | None) -> int | None:
    return found.units if found is not None else None


def test_an_entry_is_made_once_for_a_pod_and_anew_for_its_next_version() -> None:
    known, seen = Entries(), {"team/p": pod(schedulingGates=GATE)}
    ((_, first),) = known.of(seen, "a")
    ((_, again),) = known.of(seen, "a")
    assert first is again is not None
    ((_, changed),) = known.of({"team/p": pod(units=2, schedulingGates=GATE)}, "a")
    assert (units(first), units(changed)) == (1, 2)


def test_what_the_pool_tolerates_is_part_of_an_entry() -> None:
    known, waits = Entries(), pod(schedulingGates=GATE)
    seen = {waits.key: waits}
    for tolerated in ((), TOLERATED, ()):
        assert list(known.of(seen, "a", tolerated)) == [(waits, queue_entry(waits, "a", tolerated))]


def test_one_that_waits_for_other_gates_has_none_and_a_pod_that_is_gone_is_forgotten() -> None:
    known, theirs = Entries(), pod(schedulingGates=[*GATE, {"name": "example.com/quota"}])
    assert list(known.of({theirs.key: theirs}, "a")) == [(theirs, None)]
    assert list(known.of({}, "a")) == []
    assert known._known == {}
