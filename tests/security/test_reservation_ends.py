"""Reservations that a webhook in foreign hands wrote end like others, whatever times they claim."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.domain.clock import seconds, stamp_exact
from controllers.gpupool.queue import reservations
from controllers.gpupool.queue.reservations import FAR as AHEAD
from tests.gpupool.world import Cluster
from tests.kit.objects import NOW

CARD = "n1-0000-00-00-0"
FAR = "9999-12-31T23:59:59Z"
BEFORE_TIME = "0000-01-01T00:00:00Z"
"""Years that Go reads and the API server takes; Python's begin with 1 and end with 9999."""


def cluster(**entry: Any) -> Cluster:
    """A pool with one card, which somebody has promised to nobody."""
    made = Cluster()
    made.node("n1", 1)
    made.pool("a")
    made.annotate(CARD, "a")
    made.settle()
    now = stamp_exact(made.now)
    whole = {"requestID": "r", "namespace": "team", "pod": "p", "slots": 1, "since": now, "expiresAt": FAR, **entry}
    made.objects["GPUDevice", CARD]["status"]["reservations"] = [whole]
    made.touch(("GPUDevice", CARD))
    return made


def device(made: Cluster) -> GPUDevice:
    (found,) = made.all(resources.GPUDEVICE, GPUDevice)
    return found


@pytest.mark.parametrize("since", [FAR, BEFORE_TIME, "2020-01-01T00:00:00Z"])
def test_an_end_that_nobody_can_have_promised_is_cut(since: str) -> None:
    made = cluster(since=since)
    made.settle()
    (entry,) = device(made).status.reservations
    longest = made.settings.admission.reservation_ttl
    assert seconds(entry.expires_at) <= made.now + longest

    made.now += longest + 1
    made.settle()
    assert device(made).status.reservations == ()
    assert device(made).status.state == "Assigned"


@pytest.mark.parametrize("since", [FAR, BEFORE_TIME])
def test_a_time_that_cannot_be_counted_with_stops_nobody(since: str) -> None:
    """Not even where its pod is there, which counts the whole time from then on."""
    made = cluster(since=since)
    made.pod("p", "a", "r")
    made.settle()
    (entry,) = device(made).status.reservations
    assert entry.seen
    assert seconds(entry.expires_at) <= made.now + made.settings.admission.reservation_ttl

    made.now += made.settings.admission.reservation_ttl + 1
    made.drop(resources.POD, "default/p")
    made.settle()
    assert device(made).status.reservations == ()


def test_an_honest_end_stays_as_it_is_though_clocks_differ() -> None:
    made = cluster(expiresAt="")
    ends = stamp_exact(made.now + made.settings.admission.reservation_ttl + AHEAD - 1)
    made.objects["GPUDevice", CARD]["status"]["reservations"][0]["expiresAt"] = ends
    made.settle()
    (entry,) = device(made).status.reservations
    assert entry.expires_at == ends


def test_a_pod_that_was_there_and_is_gone_frees_its_card_whatever_the_end() -> None:
    made = cluster(seen=True)
    made.settle()
    assert device(made).status.reservations == ()


def test_sixty_four_forged_promises_hold_a_card_no_longer_than_one() -> None:
    made = cluster()
    status = made.objects["GPUDevice", CARD]["status"]
    made.pool("a", allocation={"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 64}})
    (whole,) = status["reservations"]
    status["reservations"] = [{**whole, "requestID": f"r{n}", "namespace": f"team-{n}"} for n in range(64)]
    made.touch(("GPUDevice", CARD))
    made.now += 1
    card = made.view().card(CARD)
    assert card is not None
    made.execute(reservations.plan_card(card, made.now).actions, names.MANAGER_POOL)
    longest = made.settings.admission.reservation_ttl
    assert all(seconds(entry.expires_at) <= made.now + longest for entry in device(made).status.reservations)


def test_what_is_reserved_for_a_pod_behind_a_gate_is_given_back() -> None:
    """Kueue's webhook adds its gate after ours has reserved."""
    made = cluster(expiresAt=stamp_exact(NOW + 15))
    made.pod("p", "a", "r", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    made.settle()
    assert device(made).status.reservations == ()
    assert device(made).status.state == "Assigned"
