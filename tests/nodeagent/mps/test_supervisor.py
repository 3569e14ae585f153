"""Daemons are as they are wanted, compute modes are put back, and whoever uses a card keeps the daemon that it has."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.host import mpsfiles
from nodeagent.host.mpsfiles import DaemonState, WantedDaemon
from nodeagent.mps.decide import Next, next_step
from nodeagent.mps.limits import Limits, limits
from nodeagent.mps.programs import DEFAULT, EXCLUSIVE
from nodeagent.mps.supervisor import PAUSE, PROBE_SECONDS
from tests.nodeagent.mps.fakes import CARD, FOUR, TWO, Role


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
    assert role.state() == DaemonState("Ready", "v4", None, FOUR)
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


@pytest.mark.parametrize("broken", ["start", "ask", "mode", "facts"])
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
    assert role.state() == DaemonState("Ready", "v4", None, FOUR)


def test_a_daemon_that_does_not_answer_is_ended_and_comes_anew(role: Role) -> None:
    role.node.breaks = {"ask"}
    role.rounds(1, PROBE_SECONDS)
    said = role.state()
    assert said is not None
    assert (said.phase, "does not answer" in (said.reason or "")) == ("Down", True)
    assert role.node.daemons[CARD].how is not None
    role.node.breaks = set()
    role.rounds()
    assert role.state() == DaemonState("Ready", "v4", None, FOUR)


def test_a_mode_that_somebody_changed_by_hand_is_set_again(role: Role) -> None:
    role.node.modes[CARD] = DEFAULT
    role.rounds(1, PROBE_SECONDS)
    assert role.node.modes == {CARD: EXCLUSIVE}


def test_other_settings_wait_for_whoever_uses_the_card(role: Role) -> None:
    role.wants(GPU_0=replace(TWO, keep=True))
    role.rounds(3, PROBE_SECONDS)
    assert role.state() == DaemonState("Ready", "v4", None, FOUR)
    role.wants(GPU_0=TWO)
    role.rounds(2)
    assert role.state() == DaemonState("Ready", "v2", None, TWO)
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
    assert role.state() == DaemonState("Ready", "v4", None, FOUR)


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
    assert role.state() == DaemonState("Ready", "v4", None, FOUR)


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


def test_a_share_that_no_card_has_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="64Gi of memory, and the card has 24000 MiB"):
        limits(WantedDaemon("", 2, "64Gi", "Equal"), 24000)


def test_every_case_of_a_card_has_one_step() -> None:
    ready, down = DaemonState("Ready", "v4", None, FOUR), DaemonState("Down", "v4", "died", FOUR)
    cases = itertools.product((None, FOUR, TWO, replace(TWO, keep=True)), (None, ready, down), (False, True))
    steps = {case: next_step(case[0], case[1], runs=case[2]) for case in cases}
    assert steps[None, None, False] is None
    assert {step for (wanted, *_), step in steps.items() if wanted is None} == {None, Next("Stop")}
    assert steps[FOUR, ready, True] == Next("Probe", FOUR)
    assert steps[TWO, ready, True] == Next("Stop")
    assert steps[replace(TWO, keep=True), ready, True] == Next("Probe", FOUR)
    assert steps[replace(TWO, keep=True), down, False] == Next("Start", FOUR)
    assert steps[TWO, down, False] == Next("Start", TWO)
