"""The MIG manager's passes: what it says, in which order, what it never touches, and how work fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controllers.api.gpudevice import Allocation, DeviceHealth, ForeignAllocation, MigApply, Published
from controllers.domain.mig import DISABLED, CardLayout
from nodeagent.mig.cards import plan
from nodeagent.mig.cards.records import Attempt, Loading
from tests.nodeagent.mig.plane import Died, Plane

if TYPE_CHECKING:
    from collections.abc import Callable

SEVEN, THREE, BIG = CardLayout(True, {"1g.5gb": 7}), CardLayout(True, {"2g.10gb": 3}), CardLayout(True, {"7g.40gb": 1})
ALLOCATED = (Allocation(pod_uid="u", namespace="d", pod="p", container="c", slots=1),)
ELSEWHERE = (ForeignAllocation(namespace="d", pod="p", container="c", resource="nvidia.com/gpu"),)
OFFER = Published(pool="p", config_version="1", slots=1)


@pytest.fixture
def plane() -> Plane:
    return Plane()


def done(plane: Plane) -> MigApply:
    """What is said of the first card once it is as wanted."""
    assert plane.loads is not None
    version = plane.parts[plane.address(0)].version
    return MigApply(version=version, phase="Done", boot_id=plane.loads.boot, driver_load=plane.loads.driver)


def test_a_card_is_divided_after_it_was_told_of(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Done"]
    assert plane.actual() == SEVEN
    assert plane.said() == done(plane)
    assert plane.journal == {}


def test_only_the_card_is_reset_and_only_for_its_mode(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.rest()
    assert plane.log("reset") == [["reset", plane.address(0)]]
    plane.want(THREE)
    plane.rest()
    assert plane.actual() == THREE
    assert len(plane.log("reset")) == 1


def test_no_reset_where_none_is_needed() -> None:
    plane = Plane(needs_reset=False)
    plane.pods_there = frozenset({"pod gpu-dcgm-1"})
    plane.want(CardLayout(True, {"1g.10gb": 7}))
    plane.rest()
    assert plane.phase() == "Done"
    assert plane.log("reset") == []


def test_a_version_is_acknowledged_where_nothing_is_to_be_done(plane: Plane) -> None:
    plane.divide(SEVEN)
    plane.change(plane.address(0), published=OFFER, allocations=ALLOCATED)
    plane.want(SEVEN, asked="2026-01-01T00:00:00Z")
    plane.rest()
    assert plane.phases() == ["Done"]
    plane.want(SEVEN, asked="2026-01-02T00:00:00Z")
    plane.rest()
    assert plane.said() == done(plane)
    assert plane.machine.state["log"] == []


@pytest.mark.parametrize(
    "status", [{"published": OFFER}, {"allocations": ALLOCATED}, {"foreign_allocations": ELSEWHERE}]
)
def test_a_card_in_use_waits_and_is_not_looked_at_again(plane: Plane, status: dict[str, object]) -> None:
    plane.change(plane.address(0), **status)
    plane.want(SEVEN)
    assert plane.turn() is None, "a watch will tell"
    looks = plane.looks
    plane.rest()
    assert (plane.phases(), plane.looks) == (["Waiting"], looks)
    plane.change(plane.address(0), published=None, allocations=(), foreign_allocations=())
    plane.rest()
    assert plane.phase() == "Done"


def test_what_the_cache_hides_is_seen_by_the_quorum(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.change(plane.address(0), mig_apply=MigApply(version=plane.parts[plane.address(0)].version, phase="Waiting"))
    stale = plane.cards()
    plane.change(plane.address(0), published=OFFER)
    plane.cards = lambda: stale  # type: ignore[method-assign]
    plane.turn()
    assert plane.history == []
    assert plane.machine.state["log"] == []


def test_cards_of_two_pools_are_one_apply_and_neighbours_are_untouched() -> None:
    plane = Plane(cards=4)
    plane.machine.state["in_use"] = [plane.address(1), plane.address(3)]
    plane.divide(THREE, 1)
    plane.want(SEVEN, 0)
    plane.want(BIG, 2)
    plane.rest()
    assert [plane.phase(n) for n in (0, 2)] == ["Done", "Done"]
    assert plane.log("apply") == [
        ["apply", True, [plane.address(0), plane.address(2)]],
        ["apply", False, [plane.address(0), plane.address(2)]],
    ]
    assert plane.machine.state["touched"] == []
    assert (plane.actual(1), plane.said(1)) == (THREE, None)


def test_clients_go_first(plane: Plane) -> None:
    plane.pods_there, plane.gates = frozenset({"pod gpu-dcgm-1"}), frozenset({"gate dcgm"})
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting"]
    plane.pods_there = frozenset()
    plane.rest()
    assert plane.phases() == ["Waiting"], "its gate is open: a new pod may come any moment"
    plane.gates = frozenset()
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Done"]


def test_a_client_that_the_cache_hides_is_seen_by_the_quorum(plane: Plane) -> None:
    plane.pods_there, plane.unknown_pods = frozenset({"pod gpu-gfd-1"}), True
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting"]


def test_waiting_for_clients_asks_the_driver_once(plane: Plane) -> None:
    plane.pods_there = frozenset({"pod gpu-dcgm-1"})
    plane.want(SEVEN)
    assert plane.turn() == 1.0
    looks = plane.looks
    assert [plane.turn() for _ in range(3)] == [1.0] * 3
    assert plane.looks == looks


def test_clients_that_stay_fail_the_work(plane: Plane) -> None:
    plane.pods_there = frozenset({"pod gpu-dcgm-1"})
    plane.born(clients_deadline=0.0)
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting", "Failed"]
    assert plane.reason().startswith("ClientsStay:")
    assert "gpu-dcgm-1" in plane.reason()
    assert plane.machine.state["log"] == []


def test_clients_need_not_go_where_only_instances_change(plane: Plane) -> None:
    plane.divide(SEVEN)
    plane.pods_there = frozenset({"pod gpu-dcgm-1"})
    plane.want(THREE)
    plane.rest()
    assert (plane.phase(), plane.actual()) == ("Done", THREE)


def test_turned_back_when_the_card_leaves(plane: Plane) -> None:
    plane.divide(SEVEN)
    plane.want(DISABLED)
    plane.rest()
    assert (plane.phase(), plane.actual()) == ("Done", DISABLED)


FAULTS = [
    ("create:{}:1g.5gb", "ApplyFailed:"),
    ("mode:{}:on", "ApplyFailed:"),
    ("reset:{}", "RebootRequired:"),
    ("stuck:{}", "RebootRequired:"),
]


@pytest.mark.parametrize(("fault", "word"), FAULTS)
def test_what_fails_is_put_back_and_tells_why(plane: Plane, fault: str, word: str) -> None:
    plane.machine.state["faults"] = [fault.format(plane.address(0))]
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Failed"]
    assert plane.reason().startswith(word)
    assert "could not be put back" not in plane.reason()
    assert plane.actual() == DISABLED
    assert plane.machine.state["cards"][plane.address(0)]["pending"] is False, "no mode waits for the next reboot"
    assert plane.journal == {}


def test_other_instances_are_put_back(plane: Plane) -> None:
    plane.divide(THREE)
    plane.machine.state["faults"] = [f"create:{plane.address(0)}:1g.5gb"]
    plane.want(SEVEN)
    plane.rest()
    assert (plane.phase(), plane.actual()) == ("Failed", THREE)


def test_one_cards_trouble_is_not_its_neighbours(plane: Plane) -> None:
    plane.machine.state["faults"] = [f"create:{plane.address(0)}:1g.5gb"]
    plane.want(SEVEN, 0)
    plane.want(THREE, 1)
    plane.rest()
    assert [plane.phase(n) for n in (0, 1)] == ["Failed", "Done"]
    assert [plane.actual(n) for n in (0, 1)] == [DISABLED, THREE]


def test_what_cannot_be_put_back_is_told_too(plane: Plane) -> None:
    plane.divide(THREE)
    plane.machine.state["faults"] = [f"create:{plane.address(0)}:{name}" for name in ("1g.5gb", "2g.10gb")]
    plane.want(SEVEN)
    plane.rest()
    assert plane.phase() == "Failed"
    assert "could not be put back" in plane.reason()


def test_a_card_that_somebody_holds(plane: Plane) -> None:
    plane.machine.state["held"] = [plane.address(0)]
    plane.want(SEVEN)
    plane.rest()
    assert plane.reason().startswith("CardInUse:")
    assert len(plane.log("reset")) == 20


def counted_pauses(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None) -> list[float]:
    """The pauses for who holds cards; `then` happens in each."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)
        then()

    monkeypatch.setattr("nodeagent.mig.work.asyncio.sleep", sleep)
    return found


def test_cards_that_are_all_held_share_the_patience(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it lasts the node's clients of cards are away, and they come back after ten minutes whatever is done."""
    pauses = counted_pauses(monkeypatch)
    plane.machine.state["held"] = [plane.address(0), plane.address(1)]
    plane.want(SEVEN, 0)
    plane.want(SEVEN, 1)
    plane.rest()
    assert [plane.reason(n).split(":")[0] for n in (0, 1)] == ["CardInUse", "CardInUse"]
    assert len(plane.log("reset")) == 40, "each is tried in every round"
    assert len(pauses) == 19


def test_told_to_end_it_waits_for_nobody(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = counted_pauses(monkeypatch, then=plane.manager.work.hurry)
    plane.machine.state["held"] = [plane.address(0)]
    plane.want(SEVEN)
    plane.rest()
    assert plane.reason().startswith("CardInUse:")
    assert len(pauses) == 1


def test_a_card_of_which_nobody_knows_the_loading_is_not_lost(plane: Plane) -> None:
    """An older manager told none, nor does one whose kernel does not show it."""
    plane.machine.state["faults"] = [f"stuck:{plane.address(0)}"]
    plane.want(SEVEN)
    plane.rest()
    failed = plane.said()
    assert failed is not None
    assert (failed.phase, failed.driver_load) == ("Failed", "1")
    plane.change(plane.address(0), mig_apply=replace(failed, driver_load=None))
    plane.rest()
    assert plane.said() == failed


def test_a_context_that_ends_soon_is_waited_for_before_instances_go(plane: Plane) -> None:
    """The validator tries CUDA on a MIG device now and then."""
    plane.divide(SEVEN)
    plane.machine.state["contexts"] = {plane.address(0): 5}
    plane.want(THREE)
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Done"]
    assert plane.actual() == THREE


def test_a_context_that_ends_soon_is_waited_for_where_the_mode_comes_without_a_reset() -> None:
    """The driver takes the mode down as pending then, and says nothing."""
    plane = Plane(needs_reset=False)
    plane.machine.state["contexts"] = {plane.address(0): 5}
    plane.want(CardLayout(True, {"1g.10gb": 7}), 0)
    plane.want(CardLayout(True, {"1g.10gb": 7}), 1)
    plane.rest()
    assert [plane.phase(n) for n in (0, 1)] == ["Done", "Done"]
    assert plane.log("reset") == []


def test_a_context_that_stays_is_told_of_and_the_card_is_as_it_was(plane: Plane) -> None:
    plane.divide(SEVEN)
    plane.machine.state["contexts"] = {plane.address(0): 1000}
    plane.want(THREE)
    plane.rest()
    assert plane.phase() == "Failed"
    assert plane.reason().startswith("CardInUse:")
    assert plane.actual() == SEVEN


def test_a_program_that_hangs_is_for_a_reboot(plane: Plane) -> None:
    plane.machine.state["faults"] = ["hung"]
    plane.want(SEVEN)
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Failed"]
    assert plane.reason().startswith("RebootRequired:")


def test_a_model_that_needs_a_reset_though_the_catalogue_denies_it() -> None:
    plane = Plane(needs_reset=False)
    plane.machine.state["cards"][plane.address(0)]["needs_reset"] = True
    plane.want(CardLayout(True, {"1g.10gb": 7}))
    plane.rest()
    assert plane.reason().startswith("ResetRequired:")
    assert plane.log("reset") == [], "its clients have not gone"


def test_a_profile_that_the_card_does_not_offer(plane: Plane) -> None:
    plane.want(CardLayout(True, {"1g.99gb": 1}))
    plane.rest()
    assert plane.phases() == ["Failed"]
    assert plane.reason().startswith("MIGProfileNotOffered:")


def test_each_version_is_tried_once(plane: Plane) -> None:
    plane.machine.state["faults"] = [f"create:{plane.address(0)}:1g.5gb"]
    plane.want(SEVEN)
    plane.rest()
    plane.machine.state["faults"] = []
    done = len(plane.machine.state["log"])
    plane.rest()
    assert len(plane.machine.state["log"]) == done
    plane.want(SEVEN, asked="2026-01-01T00:00:00Z")
    plane.rest()
    assert plane.phase() == "Done"


def test_a_part_that_goes_takes_back_what_was_said(plane: Plane) -> None:
    plane.change(plane.address(0), published=OFFER)
    plane.want(SEVEN)
    plane.rest()
    plane.parts.clear()
    plane.rest()
    assert plane.said() is None


def test_a_lost_card_is_not_waited_for(plane: Plane) -> None:
    plane.change(plane.address(0), published=OFFER)
    plane.want(SEVEN)
    plane.rest()
    plane.lost = frozenset({plane.address(0)})
    plane.born()
    plane.rest()
    assert plane.said() is None


@pytest.mark.parametrize("silent", ["all", "one"])
def test_without_the_drivers_word_nothing_is_done(plane: Plane, silent: str) -> None:
    plane.silence = "no driver is loaded" if silent == "all" else ""
    plane.untold = frozenset({plane.address(0)})
    plane.want(SEVEN)
    assert plane.turn() == 1.0
    plane.rest()
    assert plane.phases() == ["Waiting"]
    plane.silence, plane.untold = "", frozenset()
    plane.rest()
    assert plane.phase() == "Done"


def test_the_other_manager_is_at_work(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.locked_by_other = True
    assert plane.turn() == 0.5
    assert plane.history == []
    plane.locked_by_other = False
    plane.rest()
    assert plane.phase() == "Done"


def test_a_layout_that_cannot_be_relied_on_changes_nothing(plane: Plane) -> None:
    plane.want(SEVEN)
    config = plane.layout()
    assert config is not None
    spoiled = replace(config, data={**config.data, "version": "x"})
    plane.layout = lambda: spoiled  # type: ignore[method-assign]
    assert plane.turn() is None
    assert plane.history == []


def test_another_layout_while_one_was_cut_short(plane: Plane) -> None:
    """What the card had before the first is what a failure of the second puts back."""
    plane.divide(THREE)
    plane.want(SEVEN)
    plane.dies_after = plane.effects + 6
    with pytest.raises(Died):
        plane.turn()
    assert plane.actual() not in (THREE, SEVEN), "it was cut short half-way"
    plane.born()
    plane.machine.state["faults"] = [f"create:{plane.address(0)}:7g.40gb"]
    plane.want(BIG)
    plane.rest()
    assert (plane.phase(), plane.actual()) == ("Failed", THREE)


def test_an_attempt_that_never_ends_has_failed(plane: Plane) -> None:
    plane.want(SEVEN)
    version = plane.parts[plane.address(0)].version
    plane.change(plane.address(0), mig_apply=MigApply(version=version, phase="Applying"))
    plane.journal = {plane.address(0): Attempt(version, DISABLED, begun=plan.ATTEMPTS)}
    plane.rest()
    assert plane.reason().startswith("Interrupted:")


def test_somebody_else_writes_while_the_work_goes_on(plane: Plane) -> None:
    plane.want(SEVEN)
    real, done = plane.write_status, []

    async def say(card, said):  # type: ignore[no-untyped-def]
        if said.phase == "Done" and len(done) < 3:
            done.append(1)
            plane.change(card.name, auto_attach=True)
        return await real(card, said)

    plane.write_status = say  # type: ignore[method-assign]
    plane.rest()
    assert plane.phases() == ["Waiting", "Applying", "Done"]
    assert len(done) == 3


def test_killed_on_the_way_back_it_stays_failed() -> None:
    """Though what failed would work by now: a version is tried once."""
    met = 0
    for death in range(30):
        plane = Plane()
        plane.divide(THREE)
        plane.machine.state["faults"] = [f"create:{plane.address(0)}:1g.5gb"]
        plane.want(SEVEN)
        plane.dies_after = death
        try:
            plane.turn()
        except Died:
            if any(attempt.failed for attempt in plane.journal.values()):
                met += 1
                plane.machine.state["faults"] = []
                plane.born()
                plane.rest()
                assert (plane.phase(), plane.actual()) == ("Failed", THREE)
    assert met


AGAIN = [Loading("boot-2", "1"), Loading("boot-1", "2"), Loading("boot-2", "")]


@pytest.mark.parametrize("loading", AGAIN, ids=["reboot", "driver", "reboot, and the kernel tells nothing of loadings"])
@pytest.mark.parametrize("keeps_mode", [True, False])
def test_what_another_loading_of_the_driver_has_lost_is_told_and_divided_when_asked(
    plane: Plane, loading: Loading, keeps_mode: bool
) -> None:
    plane.want(SEVEN)
    plane.rest()
    plane.reload(loading, keeps_mode=keeps_mode)
    plane.born()
    plane.rest()
    left = "divided into nothing" if keeps_mode else "undivided"
    assert plane.said() == replace(
        done(plane),
        phase="Lost",
        reason=f"DriverReloaded: the node's driver was loaded anew, and the card is {left}",
        driver_load=loading.driver or None,
    )
    looks = plane.looks
    plane.rest()
    assert plane.looks == looks, "it has been told, and nobody asks"

    plane.want(SEVEN, asked="2026-01-02T00:00:00Z")
    plane.rest()
    assert (plane.phase(), plane.actual()) == ("Done", SEVEN)


def test_a_card_that_is_as_wanted_under_another_loading_is_acknowledged_for_that_one(plane: Plane) -> None:
    plane.want(DISABLED)
    plane.rest()
    plane.reload(Loading("boot-2", "1"))
    plane.rest()
    assert plane.phases() == ["Done", "Done"]
    assert plane.said() == done(plane)


def test_what_was_told_of_while_nobody_knew_the_loading_is_told_of_with_it(plane: Plane) -> None:
    plane.loads = None
    plane.want(DISABLED)
    plane.rest()
    plane.loads = Loading("boot-2", "1")
    plane.rest()
    assert plane.turn() is None, "it need not look again"
    said = plane.said()
    assert said is not None
    assert (said.phase, said.boot_id, said.driver_load) == ("Done", "boot-2", "1")


def test_what_failed_under_an_earlier_loading_is_told_of_with_its_reason(plane: Plane) -> None:
    plane.machine.state["faults"] = [f"stuck:{plane.address(0)}"]
    plane.want(SEVEN)
    plane.rest()
    assert plane.reason().startswith("RebootRequired")
    why = plane.reason()
    plane.machine.state["faults"] = []
    plane.reload(Loading("boot-2", "1"))
    plane.rest()
    assert (plane.phase(), plane.reason().endswith(f"before that the work had failed: {why}")) == ("Lost", True)


@pytest.mark.parametrize("loads", [None, Loading("boot-1", "1")], ids=["no driver", "the same"])
def test_what_somebody_else_divides_is_not_told_of_as_lost(plane: Plane, loads: Loading | None) -> None:
    plane.want(SEVEN)
    plane.rest()
    said = plane.said()
    plane.divide(THREE)
    plane.loads = loads
    plane.rest()
    assert plane.said() == said


def test_a_driver_that_is_silent_after_a_reboot_is_asked_until_it_tells(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.rest()
    plane.reload(Loading("boot-2", "1"))
    plane.silence = "it hangs"
    assert plane.turn() == plane.manager.intervals.check
    assert plane.phase() == "Done"
    plane.silence = ""
    plane.rest()
    assert plane.phase() == "Lost"


def test_a_card_that_a_reboot_has_lost_is_asked_about_after_pauses_that_grow(plane: Plane) -> None:
    plane.want(SEVEN)
    plane.rest()
    plane.reload(Loading("boot-2", "1"))
    plane.lost = frozenset({plane.address(0)})
    assert [plane.turn() for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    looks = plane.looks
    plane.now -= 299.0
    plane.change(plane.address(1), health=DeviceHealth(temperature_c=40))
    assert (plane.turn(), plane.looks) == (299, looks), "what does not matter wakes it all the time"
    plane.lost = frozenset()
    plane.rest()
    assert plane.phase() == "Lost", "it is on the bus again, and nobody waits out the pause"


def test_a_silent_driver_is_asked_after_pauses_that_grow_until_something_changes(plane: Plane) -> None:
    plane.silence = "it hangs"
    plane.want(SEVEN)
    assert [plane.turn() for _ in range(4)] == [1, 2, 4, 8]
    plane.now -= 8.0
    plane.reload(Loading("boot-1", "2"))
    assert [plane.turn() for _ in range(2)] == [1, 2], "the driver was loaded anew"
    plane.now -= 2.0
    plane.want(SEVEN, asked="2026-01-01T00:00:00Z")
    assert plane.turn() == 1, "it was asked for again"


def test_a_card_that_waits_for_its_pods_keeps_no_other_from_being_told_of(plane: Plane) -> None:
    plane.want(SEVEN, 1)
    plane.rest()
    plane.change(plane.address(0), published=OFFER)
    plane.want(SEVEN, 0)
    plane.rest()
    plane.reload(Loading("boot-1", "2"))
    plane.rest()
    assert (plane.phase(0), plane.phase(1)) == ("Waiting", "Lost")
