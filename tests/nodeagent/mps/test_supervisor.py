"""Daemons are as they are wanted, compute modes are put back, and whoever uses a card keeps the daemon that it has."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.host import mpsfiles
from nodeagent.host.mpsfiles import DaemonState, WantedDaemon
from nodeagent.mps.decide import Next, next_step
from nodeagent.mps.limits import Limits, limits
from nodeagent.mps.programs import DEFAULT, EXCLUSIVE
from nodeagent.mps.supervisor import LIVED_SECONDS, PAUSE, PROBE_SECONDS
from tests.nodeagent.mps.fakes import CARD, FOUR, READY_FOUR, READY_TWO, TWO, Role


@pytest.fixture
def role(tmp_path: Path) -> Role:
    """A role whose pool has one card with a daemon of four clients."""
    made = Role(tmp_path / "pool")
    made.wants(GPU_0=FOUR)
    made.rounds()
    return made


def test_a_card_gets_its_mode_then_its_daemon_then_its_limits(role: Role) -> None:
    assert role.node.said == [
        f"{EXCLUSIVE} {CARD}",
        f"start {CARD}",
        "set_default_active_thread_percentage 25",
        "set_default_device_pinned_mem_limit 0 4000M",
    ]
    assert role.state() == READY_FOUR
    role.rounds(3)
    assert len(role.node.said) == 4, "nothing is done again"


def test_a_card_that_is_wanted_no_more_gets_the_drivers_mode_back(role: Role) -> None:
    role.wants()
    role.rounds()
    assert role.node.said[-2:] == [f"end {CARD}", f"{DEFAULT} {CARD}"]
    assert role.node.modes == {CARD: DEFAULT}
    assert role.state() is None


@pytest.mark.parametrize("broken", ["mode", "facts", "lies"])
def test_a_card_is_not_let_go_before_its_mode_is_read_back(role: Role, broken: str) -> None:
    role.node.breaks = {broken}
    role.wants()
    role.rounds()
    said = role.state()
    assert said is not None
    assert said.phase == "Stopping"
    assert "compute mode is not put back" in (said.reason or "")

    role.node.breaks = set()
    role.rounds(1, PAUSE)
    assert role.state() is None
    assert role.node.modes == {CARD: DEFAULT}


@pytest.mark.parametrize("broken", ["start", "answer", "ask", "mode", "facts"])
def test_a_daemon_that_cannot_be_started_is_down_and_tried_again_after_a_pause(tmp_path: Path, broken: str) -> None:
    role = Role(tmp_path / "pool")
    role.node.breaks = {broken}
    role.wants(GPU_0=FOUR)
    role.rounds()
    said = role.state()
    assert said is not None
    assert (said.phase, broken in (said.reason or "")) == ("Down", True)
    before = list(role.node.said)
    role.rounds()
    assert role.node.said == before, "not at once"

    role.node.breaks = set()
    role.rounds(1, PAUSE)
    ready = role.state()
    assert ready is not None
    assert ready.phase == "Ready"


def test_a_daemon_that_dies_is_down_at_once_and_comes_anew(role: Role) -> None:
    role.node.daemons[CARD].how = "ended by signal 9"
    role.node.breaks = {"start"}
    role.rounds()
    said = role.state()
    assert said is not None
    assert said.phase == "Down"
    role.node.breaks = set()
    role.rounds(1, PAUSE)
    assert role.state() == READY_FOUR


def test_a_daemon_that_does_not_answer_is_ended_and_comes_anew(role: Role) -> None:
    role.node.breaks = {"ask"}
    role.rounds(1, LIVED_SECONDS)
    assert role.state() == READY_FOUR, "one answer that does not come is no end of all clients"
    role.rounds(1, PROBE_SECONDS)
    said = role.state()
    assert said is not None
    assert (said.phase, "does not answer" in (said.reason or "")) == ("Down", True)
    assert role.node.daemons[CARD].how is not None
    role.node.breaks = set()
    role.rounds()
    assert role.state() == READY_FOUR


def test_a_daemon_outlives_an_nvidia_smi_that_fails(role: Role) -> None:
    role.node.breaks = {"facts"}
    role.rounds(5, PROBE_SECONDS)
    assert role.state() == READY_FOUR
    assert len(role.node.said) == 4


def test_one_silence_is_forgotten_by_the_next_answer(role: Role) -> None:
    for breaks in ({"ask"}, set(), {"ask"}, set()):
        role.node.breaks = breaks
        role.rounds(1, PROBE_SECONDS)
    assert role.state() == READY_FOUR
    assert f"end {CARD}" not in role.node.said


@pytest.mark.parametrize("which", ["threads", "memory"])
def test_limits_that_somebody_changed_are_set_again(role: Role, which: str) -> None:
    changed = getattr(role.node, which)
    right = dict(changed)
    changed[CARD] = "100.0" if which == "threads" else "15G"
    role.rounds(1, PROBE_SECONDS)
    assert (changed, role.state()) == (right, READY_FOUR)


@pytest.mark.parametrize("wanted", [{}, {"GPU_0": FOUR}, {"GPU_0": TWO}])
def test_a_daemon_that_does_not_end_is_held_on_to(role: Role, wanted: dict[str, WantedDaemon]) -> None:
    role.node.breaks = {"end", "ask"} if wanted else {"end"}
    role.wants(GPU_1=FOUR, **wanted)
    role.rounds(4, LIVED_SECONDS)
    said = role.state()
    assert said is not None
    assert (said.phase in ("Down", "Stopping"), said.runs, "does not end" in (said.reason or "")) == (True, True, True)
    assert role.node.modes[CARD] == EXCLUSIVE, "a daemon has the card"
    assert role.node.said.count(f"start {CARD}") == 1, "none is started beside it"

    role.node.breaks = set()
    role.rounds(3, LIVED_SECONDS)
    assert role.state() == {"": None, "v4": READY_FOUR, "v2": READY_TWO}[wanted["GPU_0"].version if wanted else ""]
    other = role.state("GPU-1")
    assert other is not None
    assert other.phase == "Ready", "the other card is served"


def test_a_daemon_that_neither_comes_up_nor_ends_is_held_on_to(tmp_path: Path) -> None:
    role = Role(tmp_path / "pool")
    role.node.breaks = {"answer", "end"}
    role.wants(GPU_0=FOUR)
    role.rounds(2, LIVED_SECONDS)
    role.wants()
    role.rounds(1, LIVED_SECONDS)
    said = role.state()
    assert said is not None
    assert (said.runs, role.node.modes[CARD]) == (True, EXCLUSIVE)
    role.node.breaks = set()
    role.rounds(1, LIVED_SECONDS)
    assert (role.state(), role.node.modes[CARD]) == (None, DEFAULT)


def test_the_wish_is_read_before_each_card(tmp_path: Path) -> None:
    role = Role(tmp_path / "pool")
    role.wants(GPU_0=FOUR, GPU_1=FOUR)
    role.node.on_start = lambda _uuid: role.wants(GPU_0=FOUR)
    role.rounds()
    assert role.node.daemons.keys() == {CARD}, "the other was released while the first was started"


def test_a_ready_of_a_former_wish_is_not_believed(role: Role) -> None:
    assert mpsfiles.read_state(role.folder).read
    role.wants()
    said = mpsfiles.read_state(role.folder)
    assert (said.cards[CARD].phase, said.read, said.is_gone(CARD)) == ("Stopping", False, False)
    role.wants(GPU_0=replace(FOUR, keep=True))
    said = mpsfiles.read_state(role.folder)
    assert (said.cards[CARD].phase, said.cards[CARD].reason) == ("Down", mpsfiles.UNREAD)
    role.rounds()
    assert role.state() == READY_FOUR
    role.wants(GPU_0=FOUR, GPU_1=FOUR)
    assert role.state() == READY_FOUR, "nothing has changed for this card"
    assert not mpsfiles.read_state(role.folder).is_gone("GPU-1")


def test_a_card_is_gone_once_the_role_goes_by_a_wish_without_it(tmp_path: Path) -> None:
    role = Role(tmp_path / "pool")
    lock = mpsfiles.claim(role.folder)
    role.wants(GPU_0=FOUR)
    assert not mpsfiles.read_state(role.folder).is_gone(CARD), "it may be started now"
    role.wants()
    assert not mpsfiles.read_state(role.folder).is_gone(CARD), "by the wish before"
    role.rounds()
    assert mpsfiles.read_state(role.folder).is_gone(CARD)
    assert lock is not None
    os.close(lock)


def test_a_reason_stays_while_it_is_tried_again(tmp_path: Path) -> None:
    role = Role(tmp_path / "pool")
    role.node.breaks = {"answer"}
    role.wants(GPU_0=FOUR)
    role.rounds()
    seen: list[DaemonState | None] = []
    role.node.on_start = lambda _uuid: seen.append(role.state())
    first = role.state()
    role.rounds(3, LIVED_SECONDS)
    assert first is not None
    assert {one.reason for one in seen if one is not None} == {first.reason}
    assert role.state() == first

    role.node.breaks = {"mode"}
    role.wants()
    role.rounds(1, LIVED_SECONDS)
    first = role.state()
    role.rounds(3, LIVED_SECONDS)
    assert role.state() == first


def test_a_daemon_that_dies_again_and_again_has_longer_and_longer_pauses(role: Role) -> None:
    for _ in range(40):
        role.node.daemons[CARD].how = "ended by signal 9"
        role.rounds(1, PAUSE)
    assert role.node.said.count(f"start {CARD}") < 8
    role.rounds(8, LIVED_SECONDS)
    role.node.daemons[CARD].how = "ended by signal 9"
    role.rounds(2)
    assert role.state() == READY_FOUR, "this one had lived"


def test_an_unreadable_state_puts_back_each_card_that_has_had_a_daemon(role: Role) -> None:
    (role.folder / mpsfiles.STATE).write_text("{half", "utf-8")
    assert not mpsfiles.read_state(role.folder).known
    role.wants()
    role.born()
    role.rounds()
    assert (role.state(), role.node.modes) == (None, {CARD: DEFAULT})
    assert mpsfiles.card_folders(role.folder) == frozenset()


def test_a_state_file_that_cannot_be_written_ends_nothing(role: Role) -> None:
    (role.folder / mpsfiles.STATE).unlink()
    (role.folder / mpsfiles.STATE).mkdir()
    role.wants(GPU_0=FOUR, GPU_1=FOUR)
    role.rounds(2, PAUSE)
    assert role.node.daemons.keys() == {CARD}, "nothing is begun that nobody would know of"
    (role.folder / mpsfiles.STATE).rmdir()
    role.rounds(2, LIVED_SECONDS)
    assert role.state() == READY_FOUR
    assert role.node.daemons.keys() == {CARD, "GPU-1"}


def test_a_mode_that_somebody_changed_by_hand_is_set_again(role: Role) -> None:
    role.node.modes[CARD] = DEFAULT
    role.rounds(1, PROBE_SECONDS)
    assert role.node.modes == {CARD: EXCLUSIVE}


def test_other_settings_wait_for_whoever_uses_the_card(role: Role) -> None:
    role.wants(GPU_0=replace(TWO, keep=True))
    role.rounds(3, PROBE_SECONDS)
    assert role.state() == READY_FOUR
    role.wants(GPU_0=TWO)
    role.rounds(2)
    assert role.state() == READY_TWO
    assert role.node.said[-3:] == [
        f"start {CARD}",
        "set_default_active_thread_percentage 30",
        "set_default_device_pinned_mem_limit 0 8192M",
    ]
    assert role.node.modes == {CARD: EXCLUSIVE}


def test_a_new_life_starts_the_former_settings_where_somebody_may_use_the_card(role: Role) -> None:
    role.born()
    said = role.state()
    assert said is not None
    assert said.phase == "Down", "no daemon of a former life is believed in"
    role.wants(GPU_0=replace(TWO, keep=True))
    role.rounds()
    assert role.state() == READY_FOUR


def test_a_new_life_puts_back_what_a_former_one_left(role: Role) -> None:
    role.wants()
    role.born()
    role.rounds()
    assert role.state() is None
    assert role.node.modes == {CARD: DEFAULT}


def test_a_role_that_leaves_puts_all_back(role: Role) -> None:
    role.wants(GPU_0=FOUR, GPU_1=FOUR)
    role.rounds()
    role.supervisor.close()
    assert set(role.node.modes.values()) == {DEFAULT}
    assert dict(mpsfiles.read_state(role.folder).cards) == {}


def test_a_wish_that_cannot_be_read_changes_nothing(role: Role) -> None:
    (role.folder / mpsfiles.WANTED).write_text("{half", "utf-8")
    role.rounds()
    assert role.state() == READY_FOUR


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (WantedDaemon("", 8, "Equal", "Equal"), Limits(12, 3000)),
        (WantedDaemon("", 48, "Equal", "100%"), Limits(100, 500)),
        (WantedDaemon("", 2, "4Gi", "1%"), Limits(1, 4096)),
        (WantedDaemon("", 3, "512Mi", "Equal"), Limits(33, 512)),
    ],
)
def test_shares_become_limits(wanted: WantedDaemon, expected: Limits) -> None:
    assert limits(wanted, 24000) == expected


@pytest.mark.parametrize(
    ("threads", "memory", "same"),
    [
        ("33.0\n", "3G\n", True),
        ("33.0\n", "4G\n", False),
        ("33.0\n", "3M\n", False),
        ("33.0\n", "\n", False),
        ("34.0\n", "3G\n", False),
        ("", "3G\n", False),
    ],
)
def test_answers_are_compared_with_limits(threads: str, memory: str, *, same: bool) -> None:
    assert (Limits(33, 4000).difference(threads, memory) is None) is same


def test_a_limit_below_a_gib_is_answered_in_mib() -> None:
    assert Limits(33, 512).difference("33.0", "512M") is None
    assert Limits(33, 512).difference("33.0", "511M") is not None


def test_a_share_that_no_card_has_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="64Gi of memory, and the card has 24000 MiB"):
        limits(WantedDaemon("", 2, "64Gi", "Equal"), 24000)


def test_every_case_of_a_card_has_one_step() -> None:
    ready, down = READY_FOUR, DaemonState("Down", "v4", "died", FOUR)
    cases = itertools.product((None, FOUR, TWO, replace(TWO, keep=True)), (None, ready, down), (False, True))
    steps = {case: next_step(case[0], case[1], runs=case[2]) for case in cases}
    assert steps[None, None, False] is None
    assert {step for (wanted, *_), step in steps.items() if wanted is None} == {None, Next("Stop")}
    assert steps[FOUR, ready, True] == Next("Probe", FOUR)
    assert steps[TWO, ready, True] == Next("Stop")
    assert steps[replace(TWO, keep=True), ready, True] == Next("Probe", FOUR)
    assert steps[replace(TWO, keep=True), down, False] == Next("Start", FOUR)
    assert steps[TWO, down, False] == Next("Start", TWO)
