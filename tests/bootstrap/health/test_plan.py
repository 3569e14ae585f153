"""A card is faulted and comes back; what is recorded of its health, and what people are told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.api.validation import CONTAINER, DRIVER, FAILED, OK
from controllers.runtime.plan import Apply, EmitEvent, Merge
from tests.bootstrap.world import DEVICE, LIMITS, NODE, SAMPLES, WELL, Cluster, address, device_name, recall_from
from tests.kit import conditions
from tests.kit.objects import condition

if TYPE_CHECKING:
    from controllers.runtime.plan import Plan

CARDS = 3


@pytest.fixture
def ready() -> Cluster:
    """A ready node with three well cards of pool `a`; the share of 20 % is one."""
    made = Cluster()
    for number in range(CARDS):
        made.device(hardware={"uuid": f"GPU-{number}"}, number=number)
        made.pooled("a", number=number)
    made.prepare()
    made.inventory(cards=CARDS)
    for number in range(CARDS):
        made.hear("well", number=number)
    made.step()
    return made


def notes(made: Plan) -> list[tuple[str, str]]:
    return [(action.about.name, action.reason) for action in made.actions if isinstance(action, EmitEvent)]


def health(cluster: Cluster, number: int = 0) -> dict[str, Any]:
    return dict(cluster.objects["GPUDevice", device_name(number=number)]["status"]["health"])


def ask_back(cluster: Cluster, value: str = "true", number: int = 0) -> None:
    cluster.objects["GPUDevice", device_name(number=number)]["metadata"]["annotations"][names.RETURN] = value


def test_a_fault_is_the_cards_alone_and_it_comes_back(ready: Cluster) -> None:
    assert [ready.faulted(number=number) for number in range(CARDS)] == [("False", "Healthy")] * CARDS
    ready.hear("xid")
    made = ready.step()
    assert [ready.faulted(number=number) for number in range(CARDS)] == [
        ("True", "CriticalXid"),
        ("False", "Healthy"),
        ("False", "Healthy"),
    ]
    assert notes(made) == [(DEVICE, names.EVENT_DEVICE_FAULTED)]
    assert ready.pooling() == ("True", "Ready")
    ready.step()  # the node says that pods may be on it; nothing more
    assert ready.plan().actions == ()

    ready.hear("well", times=19)
    assert ready.plan().writes == ()
    ready.hear("well")
    made = ready.step()
    assert ready.faulted() == ("False", "Recovered")
    assert notes(made) == [(DEVICE, names.EVENT_DEVICE_RECOVERED)]
    assert ready.plan().actions == ()


# --- many at once ---------------------------------------------------------------------------------


FAULTS = {
    "xid": "CriticalXid",
    "hot": "Overheated",
    "rows": "RowRemapFailure",
    "check": "ValidationFailed",
    "": "CardLost",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_all_faulted_cards_of_a_pool_go_at_once_whatever_the_share(ready: Cluster, fault: str) -> None:
    if fault == "check":
        every = ",".join(address(number) for number in range(CARDS))
        ready.verdict(DRIVER, OK, message="not started", cards_failed=every)
    for number in range(CARDS):
        if fault in SAMPLES:
            ready.hear(fault, number=number, times=LIMITS.temperature_scrapes)
        elif not fault:
            ready.device(names.REASON_CARD_LOST, number=number)
    made = ready.step()

    assert {ready.faulted(number=number) for number in range(CARDS)} == {("True", FAULTS[fault])}
    assert notes(made) == [(device_name(number=number), names.EVENT_DEVICE_FAULTED) for number in range(CARDS)]
    assert ready.plan().writes == ()


@pytest.mark.parametrize("reason", ["CriticalXid", "ValidationFailed"])
def test_a_card_that_an_earlier_version_held_goes_and_comes_back(ready: Cluster, reason: str) -> None:
    """Those kept faulted cards in service where many failed, and said so in the condition."""
    with ready.edit("GPUDevice", DEVICE) as card:
        said = "it is bad Held back: more than 20 % of the cards of pool a would be out of service at once"
        conditions.put(card, condition("Faulted", "Unknown", f"{reason}Held", said))
    found = ready.view().devices.get(DEVICE)
    assert found is not None
    ready.memory[DEVICE] = recall_from(found.status, 0)
    if reason == "ValidationFailed":
        ready.silence()
    ready.step()
    assert ready.faulted() == ("True", reason)
    assert conditions.message(ready.objects["GPUDevice", DEVICE], "Faulted") == "it is bad"

    ready.report()
    ready.verdict(DRIVER, OK)
    ready.verdict(CONTAINER, OK)
    ready.hear("well", times=LIMITS.recovery_scrapes)
    ready.step()
    assert (ready.faulted() or ("",))[0] == "False"


def test_that_a_card_is_gone_is_said_before_what_its_telemetry_said(ready: Cluster) -> None:
    ready.hear("xid")
    ready.verdict(DRIVER, FAILED, cards_failed=address(0), message="not started")
    ready.device(names.REASON_CARD_LOST)
    ready.step()
    assert ready.faulted() == ("True", "CardLost")

    ready.device()
    ready.step()
    assert ready.faulted() == ("True", "CriticalXid")  # what telemetry says, before what a validator does


# --- validators -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [DRIVER, CONTAINER])
def test_a_card_that_fails_its_check_alone_is_faulted_alone(ready: Cluster, role: str) -> None:
    ready.verdict(role, OK, reason="CardNotStarted", message="the driver could not start it", cards_failed=address(1))
    made = ready.step()
    assert [ready.faulted(number=number) for number in range(CARDS)] == [
        ("False", "Healthy"),
        ("True", "ValidationFailed"),
        ("False", "Healthy"),
    ]
    assert notes(made) == [(device_name(number=1), names.EVENT_DEVICE_FAULTED)]
    assert ready.pooling() == ("True", "Ready")
    assert ready.plan().writes == ()

    ready.verdict(role, OK)
    made = ready.step()
    assert ready.faulted(number=1) == ("False", "Healthy")
    assert notes(made) == [(device_name(number=1), names.EVENT_DEVICE_RECOVERED)]


def test_a_card_of_which_no_telemetry_speaks_comes_back_by_its_check(ready: Cluster) -> None:
    ready.memory.clear()
    ready.verdict(DRIVER, OK, message="not started", cards_failed=address(1))
    ready.step()
    assert ready.faulted(number=1) == ("True", "ValidationFailed")
    ready.verdict(DRIVER, OK)
    ready.step()

    assert ready.faulted(number=1) == ("False", "Validated")
    assert ready.plan().writes == ()


def test_a_failed_check_of_another_boot_faults_no_card(ready: Cluster) -> None:
    ready.verdict(DRIVER, OK, message="not started", cards_failed=address(1), boot_id="another")

    assert ready.plan().writes == ()


@pytest.mark.parametrize("lose", ["report", "boot"])
def test_a_failed_check_stands_until_a_validator_has_looked_again(ready: Cluster, lose: str) -> None:
    ready.verdict(DRIVER, OK, message="not started", cards_failed=address(1))
    ready.step()
    if lose == "report":
        ready.silence()
    else:
        ready.node(boot="another")
    ready.step()
    assert ready.faulted(number=1) == ("True", "ValidationFailed")
    assert ready.plan().writes == ()

    ready.node()
    ready.report()
    ready.verdict(DRIVER, OK)
    ready.step()
    assert ready.faulted(number=1) == ("False", "Healthy")


def test_a_failed_check_ends_with_the_validators(ready: Cluster) -> None:
    ready.verdict(DRIVER, OK, message="not started", cards_failed=address(1))
    ready.step()
    ready.settings = parse_settings(
        {"bootstrap": {"driver_validator": {"enabled": False}, "validator": {"enabled": False}}}
    )
    ready.step()
    assert ready.faulted(number=1) == ("False", "Healthy")


# --- a person's command ---------------------------------------------------------------------------


def test_a_card_is_returned_by_hand_and_the_command_removed(ready: Cluster) -> None:
    ready.hear("xid")
    ready.step()
    ask_back(ready)
    ready.hear("silent")
    made = ready.step()
    assert ready.faulted() == ("False", "ReturnedByHand")
    assert notes(made) == [(DEVICE, names.EVENT_DEVICE_RECOVERED)]
    assert names.RETURN in ready.annotations()  # obeyed first, removed then: dying in between loses nothing

    made = ready.step()
    assert names.RETURN not in ready.annotations()
    assert [type(action) for action in made.actions] == [Merge]
    assert ready.plan().actions == ()


def test_a_command_that_changes_nothing_is_told_and_removed(ready: Cluster) -> None:
    ask_back(ready)
    ready.hear("silent")
    made = ready.step()
    assert [type(action) for action in made.actions] == [Merge, EmitEvent]
    assert notes(made) == [(DEVICE, names.EVENT_RETURN_IGNORED)]
    assert "it is not faulted" in next(action.message for action in made.actions if isinstance(action, EmitEvent))
    assert names.RETURN not in ready.annotations()


@pytest.mark.parametrize(
    ("happen", "reason"),
    [
        (lambda c: c.device(names.REASON_CARD_LOST), "CardLost"),
        (lambda c: c.verdict(DRIVER, OK, message="not started", cards_failed=address(0)), "ValidationFailed"),
    ],
)
def test_a_card_that_is_gone_or_fails_its_check_is_not_returned_by_hand(
    ready: Cluster, happen: Any, reason: str
) -> None:
    happen(ready)
    ready.step()
    ask_back(ready)
    ready.hear("silent")
    made = ready.step()

    assert ready.faulted() == ("True", reason)
    assert f"{names.RETURN} changes nothing: {reason}: " in next(
        a.message for a in made.actions if isinstance(a, EmitEvent)
    )
    assert names.RETURN not in ready.annotations()


@pytest.mark.parametrize("value", ["false", "", "True", "yes"])
def test_only_true_is_a_command(ready: Cluster, value: str) -> None:
    ready.hear("xid")
    ready.step()
    ask_back(ready, value)
    ready.hear("silent")

    assert ready.plan().actions == ()
    assert ready.faulted() == ("True", "CriticalXid")
    assert ready.annotations()[names.RETURN] == value


def test_a_command_on_one_card_is_not_anothers(ready: Cluster) -> None:
    for number in (0, 1):
        ready.hear("xid", number=number)
    ready.step()
    ask_back(ready, number=1)
    for number in (0, 1):
        ready.hear("silent", number=number)
    ready.step()
    ready.step()

    assert ready.faulted(number=0) == ("True", "CriticalXid")
    assert ready.faulted(number=1) == ("False", "ReturnedByHand")


# --- health ---------------------------------------------------------------------------------------


def test_health_is_written_when_it_crosses_a_threshold_and_not_else(ready: Cluster) -> None:
    first = health(ready)
    assert (first["temperatureC"], first["throttled"], first["eccErrorsTotal"]) == (50, False, 0)
    for degrees in (51, 84, 60, 84):
        _heat(ready, degrees)
        ready.now += 15
        assert ready.plan().writes == (), degrees
    _heat(ready, 86)
    made = ready.step()
    assert [(type(action), action.ref.name) for action in made.actions if isinstance(action, Apply)] == [
        (Apply, DEVICE)
    ]
    assert health(ready)["temperatureC"] == 86
    assert health(ready)["lastUpdated"] > first["lastUpdated"]
    for degrees in (94, 86, 81):  # a margin below the border: noise writes nothing
        _heat(ready, degrees)
        assert ready.plan().writes == (), degrees
    _heat(ready, 79)
    ready.step()
    assert health(ready)["temperatureC"] == 79


def _heat(cluster: Cluster, degrees: int) -> None:
    sample = replace(WELL, temperature=degrees)
    cluster.memory[DEVICE] = cluster.sampled(DEVICE, sample)


def test_condition_and_health_are_one_write_and_neither_takes_the_other_away(ready: Cluster) -> None:
    """A server-side apply removes what it leaves out: whoever writes one of them must write both."""
    known = health(ready)
    ready.device(names.REASON_CARD_LOST)
    made = ready.step()
    (apply,) = [action for action in made.actions if isinstance(action, Apply) and action.ref.name == DEVICE]
    assert set(apply.body["status"]) == {"conditions", "health", "fault"}
    assert health(ready) == known
    assert ready.faulted() == ("True", "CardLost")

    _heat(ready, 90)
    made = ready.step()
    assert health(ready)["temperatureC"] == 90
    assert ready.faulted() == ("True", "CardLost")
    assert ready.plan().writes == ()


def test_a_new_error_and_the_fault_that_it_means_are_one_write(ready: Cluster) -> None:
    ready.hear("xid")
    made = ready.step()
    (apply,) = [action for action in made.actions if isinstance(action, Apply) and action.ref.name == DEVICE]

    assert apply.body["status"]["health"]["lastXid"] == 79
    assert [one["reason"] for one in apply.body["status"]["conditions"]] == ["CriticalXid"]


def test_nobody_elses_condition_is_touched(ready: Cluster) -> None:
    ready.hear("xid")
    ready.step()
    kinds = [one["type"] for one in ready.objects["GPUDevice", DEVICE]["status"]["conditions"]]

    assert sorted(kinds) == ["Faulted", "InventoryIncomplete"]


def test_warnings_are_told_and_fault_nobody(ready: Cluster) -> None:
    ready.warnings = ("XID 31 (page fault): look at the program",)
    made = ready.plan()

    assert made.writes == ()
    assert {(reason, name) for name, reason in notes(made)} == {
        (names.EVENT_DEVICE_WARNING, device_name(NODE, number)) for number in range(CARDS)
    }
