"""Who does not lead does not write: by renewals, by whom the lease names, and by how long it lasts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reliability.faults import leader_election
from tests.faults.test_invariants import sent

if TYPE_CHECKING:
    from reliability.faults.process_proxy import Sent

LASTS = 3.0
WRITE = sent("apply", "configmaps", at=5)


def lease(holder: str, at: float, status: int = 200, process: str = "gpupool", replica: int = 1) -> Sent:
    spec = {"spec": {"holderIdentity": holder}}
    return sent("update", "leases", process, at, name="x", status=status, body=spec, replica=replica)


def said(*every: Sent, ended: tuple[float, ...] = ()) -> list[str]:
    return leader_election.one_leader(every, {"gpupool": ended}, LASTS)


def test_who_renewed_in_time_may_write() -> None:
    assert not said(lease("a", 1), lease("a", 3), WRITE)
    assert not said(lease("a", 1), lease("b", 4), WRITE, ended=(3,))


def test_a_write_later_than_the_lease_lasts_after_its_last_renewal_is_told() -> None:
    late = replace(WRITE, at=61.0)

    assert "60.0 s after its last renewal" in said(lease("a", 1), late)[0]
    assert "after its last renewal" in said(lease("a", 1), lease("a", 60, 500), late)[0]
    assert not said(lease("a", 1), lease("a", 60), late)


def test_who_was_ended_and_did_not_take_the_lease_since_is_told() -> None:
    assert "does not lead" in said(lease("a", 2.5), WRITE, ended=(3,))[0]
    assert "does not lead" in said(lease("a", 2.5), lease("b", 4, 409), WRITE, ended=(3,))[0]
    assert not said(lease("a", 2.5), replace(WRITE, orphan=True), ended=(3,))


def test_a_write_after_the_lease_was_given_back_is_told() -> None:
    assert "gave the lease back" in said(lease("a", 1), lease("", 4), WRITE)[0]


def test_a_write_while_another_replica_holds_the_lease_is_told() -> None:
    both = lease("a", 3), lease("b", 4, replica=2)

    assert "while another holds the lease" in said(*both, WRITE)[0]
    assert "gpupool-2: apply" in said(lease("b", 3, replica=2), lease("a", 4), replace(WRITE, replica=2))[0]
    assert not said(*both, replace(WRITE, replica=2))


def test_a_replica_that_never_had_the_lease_may_not_write() -> None:
    assert "never had the lease" in said(lease("a", 4), replace(WRITE, replica=2))[0]


def test_who_never_renews_is_told_and_who_has_yet_to_is_not() -> None:
    assert "without a renewal" in said(sent("apply", "configmaps", at=0), WRITE)[0]
    assert not said(sent("apply", "configmaps", at=4), WRITE)


def test_every_replica_of_the_webhook_reserves_and_one_keeps_the_certificates() -> None:
    reserves = sent("patch", "gpudevices", "webhook", at=99)
    keeps = sent("apply", "secrets", "webhook", at=99)

    assert not said(lease("a", 1, process="webhook"), reserves)
    assert said(lease("a", 1, process="webhook"), keeps)


def test_a_process_was_away_from_its_last_act_to_its_next() -> None:
    acts = [lease("a", at) for at in (1, 1.4, 1.8, 6, 6.4)]

    assert leader_election.away(acts, "gpupool", (0.6, 7), 1.2) == [(1.8, 6)]
    assert leader_election.away([*acts, lease("a", 4, 500)], "gpupool", (0.6, 7), 1.2) == [(1.8, 6)]
    assert leader_election.away([*acts, lease("", 2)], "gpupool", (0.6, 7), 1.2) == [(1.8, 6)]
    assert leader_election.away([*acts, lease("b", 3.5, replica=2)], "gpupool", (0.6, 7), 1.2) == [(1.8, 3.5), (3.5, 6)]
    assert leader_election.away([], "gpupool", (0, 7), 1.2) == [(0, 7)]
