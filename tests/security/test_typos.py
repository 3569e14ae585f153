"""An administrator's slip of the pen: what it cannot do. Nothing runs here."""

from __future__ import annotations

import time

import pytest

from controllers.api import resources
from controllers.api.duration import DURATION_MAX
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.settings import parse_settings
from controllers.domain.clock import seconds, stamp_exact
from tests.gpupool.world import Cluster

CARD = "n1-0000-00-00-0"
TIMES = ["admission.reservationTTL", "admission.unseenTTL", "maintenance.deadline", "pools.danglingAfter",
         "inventory.resyncPeriod"]  # fmt: skip


def pooled(made: Cluster) -> dict[str, str | None]:
    devices = made.all(resources.GPUDEVICE, GPUDevice)
    return {device.name: device.status.pool_ref.name if device.status.pool_ref else None for device in devices}


def cluster(cards: int = 3) -> Cluster:
    made = Cluster()
    made.node("n1", cards)
    made.pool("a")
    return made


@pytest.mark.parametrize("setting", TIMES)
@pytest.mark.parametrize("value", ["8785h", "1000000000h", "9" * 400 + "h", "0s", "-1s", "2 minutes", "", "2"])
def test_a_time_out_of_range_is_refused_with_its_place(setting: str, value: str) -> None:
    part, key = setting.split(".")
    with pytest.raises(ValueError, match=setting):
        parse_settings({part: {key: value}})


def test_the_longest_time_that_is_taken_can_be_written() -> None:
    ends = time.time() + DURATION_MAX
    assert seconds(stamp_exact(ends)) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"health": {"maxUnavailablePercent": 101}}, "health.maxUnavailablePercent"),
        ({"health": {"maxUnavailablePercent": 0}}, "health.maxUnavailablePercent"),
        ({"admission": {"maxUnseen": 0}}, "admission.maxUnseen"),
        ({"deviceApproval": {"mode": "Automatc"}}, "deviceApproval.mode"),
        ({"managedNodes": {"labelKey": ""}}, "managedNodes.labelKey"),
    ],
)
def test_a_number_or_word_out_of_range_is_refused_with_its_place(settings: dict[str, object], place: str) -> None:
    with pytest.raises(ValueError, match=place):
        parse_settings(settings)


def test_an_annotation_with_a_wrong_pool_moves_nothing() -> None:
    """What the webhook refuses as UnknownPool; where it could not be asked, the controller goes on all the same."""
    made = cluster()
    made.annotate(CARD, "a")
    made.settle()
    assert pooled(made)[CARD] == "a"
    other = "n1-0000-01-00-0"
    made.annotate(other, "aa")
    made.settle()
    assert pooled(made) == {CARD: "a", other: None, "n1-0000-02-00-0": None}


def test_a_selector_that_matches_everything_takes_nothing_by_itself() -> None:
    """A pool without any selector means every card, and waits for a person to confirm each."""
    made = cluster()
    made.settle()
    assert set(pooled(made).values()) == {None}


def test_a_selector_that_matches_nothing_any_more_evicts_nobody() -> None:
    made = cluster()
    for name in pooled(made):
        made.annotate(name, "a")
    made.settle()
    made.pod("p", "a", "r", node="n1")
    made.settle()
    made.pool("a", deviceSelector={"include": {"vendors": ["nvidja"]}})
    made.settle()
    assert set(pooled(made).values()) == {"a"}
    assert made.bound_to("n1")


def test_a_mode_that_is_changed_under_a_pod_waits_for_it_and_is_taken_back() -> None:
    made = cluster(1)
    made.annotate(CARD, "a")
    made.settle()
    made.pod("p", "a", "r", node="n1")
    made.allocate(CARD)
    made.settle()
    spec = made.objects["GPUPool", "a"]["spec"]
    spec["allocation"] = {"mode": "TimeSlice"}
    made.touch(("GPUPool", "a"))
    made.settle()
    assert _applied(made) == "Exclusive"
    assert pooled(made)[CARD] == "a"
    assert made.bound_to("n1")
    spec["allocation"] = {"mode": "Exclusive"}
    made.touch(("GPUPool", "a"))
    made.settle()
    assert "Maintenance" not in _true(made)


def test_a_pool_in_use_that_is_deleted_waits_for_its_pods() -> None:
    made = cluster(1)
    made.annotate(CARD, "a")
    made.settle()
    made.pod("p", "a", "r", node="n1")
    made.settle()
    made.delete_pool("a")
    made.settle()
    assert made.pools() == {"a"}
    assert made.bound_to("n1")
    made.drop(resources.POD, "default/p")
    made.settle()
    assert made.pools() == set()
    assert pooled(made)[CARD] is None


def _pool(made: Cluster) -> GPUPool:
    (found,) = made.all(resources.GPUPOOL, GPUPool)
    return found


def _applied(made: Cluster) -> str:
    told = _pool(made).status.applied_allocation
    assert told is not None
    return told.mode


def _true(made: Cluster) -> set[str]:
    return {one.type for one in _pool(made).status.conditions if one.status == "True"}
