"""What the keeper does with a runtime, played in memory over real files: when it writes, waits, and leaves alone."""

# ruff: noqa: ARG002 - the played runtime answers without looking at what it is asked about

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from controllers.api.runtime_state import (
    AWAITING_RESTART,
    AWAITING_TOOLKIT,
    AWAITING_TURN,
    NOT_CONFIGURED,
    READ_ONLY,
    READY,
    REVERTED,
)
from nodeagent.host.toolkit import read
from nodeagent.toolkit import keeper as kept
from nodeagent.toolkit import readonly
from nodeagent.toolkit.config.effective import Handler
from nodeagent.toolkit.config.plan import Change, Plan
from nodeagent.toolkit.config.sources import FORMER, Node
from nodeagent.toolkit.cri import Runtime
from nodeagent.toolkit.disk import WayBack
from nodeagent.toolkit.host import Host, Server
from nodeagent.toolkit.keeper import PROGRAMS, Keeper
from nodeagent.toolkit.kinds import choice
from nodeagent.toolkit.kinds.base import Kind
from nodeagent.toolkit.kinds.rancher import Rancher
from nodeagent.toolkit.state import STATE_FILE, State, tell
from tests.nodeagent.toolkit.programs import installed

if TYPE_CHECKING:
    from pathlib import Path

FILE = "/etc/played.conf"
OURS = b"# theirs\n# ours\n"
HANDLER = Handler("nvidia", PROGRAMS[0])


@dataclass
class World:
    """The played runtime: what it runs with, and what happened to it."""

    runs: bool = False
    reloads: bool = False
    hindered: str = ""
    foreign: str = ""
    restarts: int = 0
    comes_back: bool = True
    looks: int = 0
    programs: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)


WORLD = World()


class Played(Kind):
    """A runtime whose file is real."""

    name: ClassVar[str] = "Played"

    def server(self) -> Server:
        return Server(os.getpid(), "/usr/bin/played", FILE, "", os.getppid())

    def serves(self) -> bool:
        return True

    def observe(self) -> tuple[Server, Any]:
        WORLD.looks += 1
        return self.server(), Node((1, 0), {FILE: self.read(FILE) or b""}, {})

    def files(self) -> Any:
        return self.observe()[1]

    def install(self, node: Any) -> Plan:
        if WORLD.foreign:
            return Plan(foreign=WORLD.foreign)
        had = node.files[FILE]
        return Plan((Change(FILE, had, OURS),) if had != OURS else (), (HANDLER,))

    def removal(self, node: Any) -> Plan:
        return Plan((Change(FILE, OURS, b"# theirs\n"),) if node.files[FILE] == OURS else ())

    def prove(self, server: Server, node: Any, done: Plan, back: WayBack) -> None:
        WORLD.events.append("proved")

    def runs_with(self, done: Plan) -> bool:
        return WORLD.runs

    def programs(self) -> dict[str, str]:
        return WORLD.programs

    def reload(self, server: Server, done: Plan) -> bool:
        WORLD.events.append("reload")
        WORLD.runs = WORLD.runs or WORLD.reloads
        return WORLD.runs

    def why_not_restarted(self, server: Server) -> str:
        return WORLD.hindered

    def making(self) -> int:
        return 0

    def fingerprint(self) -> tuple[object, ...]:
        return self.stamps(FILE)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    global WORLD  # noqa: PLW0603 - the runtime's own memory, which outlives what asks it
    WORLD = World()

    def restart(*_: object) -> bool:
        WORLD.restarts += 1
        WORLD.runs = WORLD.comes_back
        return True

    monkeypatch.setattr(choice, "of", lambda seen: Played(seen.root))
    monkeypatch.setattr(choice, "all_of", lambda seen: [Played(seen.root)])
    monkeypatch.setattr(kept, "restart", restart)
    monkeypatch.setattr(kept, "wait_until_quiet", lambda *_: None)
    made = Host(tmp_path)
    installed(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/played.conf").write_bytes(b"# theirs\n")
    return made


def content(host: Host) -> bytes:
    return host.at(FILE).read_bytes()


def test_a_restart_waits_for_the_nodes_turn_and_nothing_is_written_before(host: Host) -> None:
    turns = [False]
    keeper = Keeper(host, may_restart=lambda: turns[-1])

    assert [keeper.reconcile().phase, keeper.reconcile().phase] == [AWAITING_TURN] * 2
    assert WORLD.looks == 1, "while nothing changes, only the turn is asked for"
    assert (content(host), WORLD.restarts, WORLD.events) == (b"# theirs\n", 0, [])
    assert not WayBack(host).open
    turns.append(True)
    assert keeper.reconcile() == State(READY, kind="Played")
    assert (content(host), WORLD.restarts) == (OURS, 1)


def test_pod_restart_agent_upgrade_and_reboot_write_nothing_restart_nothing_and_ask_for_no_turn(host: Host) -> None:
    assert Keeper(host).reconcile().phase == READY
    before = host.at(FILE).stat()
    asked: list[bool] = []

    def turn() -> bool:
        asked.append(True)
        return True

    for _ in range(3):
        again = Keeper(host, may_restart=turn)
        assert [again.reconcile().phase, again.reconcile().phase] == [READY] * 2

    assert host.at(FILE).stat() == before
    assert (WORLD.restarts, asked) == (1, [])


def test_a_reload_that_suffices_is_no_restart(host: Host) -> None:
    WORLD.reloads = True

    assert Keeper(host).reconcile().phase == READY
    assert (WORLD.restarts, WORLD.events) == (0, ["proved", "reload"])


def test_what_only_a_person_may_restart_is_written_and_told_and_needs_no_turn(host: Host) -> None:
    WORLD.hindered = "restart it when it suits you"
    keeper = Keeper(host, may_restart=lambda: False)

    state = keeper.reconcile()

    assert (state.phase, WORLD.hindered in state.reason) == (AWAITING_RESTART, True)
    assert (content(host), WORLD.restarts) == (OURS, 0)
    WORLD.runs = True  # the person has
    assert keeper.reconcile().phase == READY


@pytest.mark.parametrize("hindered", ["", "restart it when it suits you"])
def test_a_node_that_serves_with_our_handler_stays_ready_while_a_change_of_it_waits(host: Host, hindered: str) -> None:
    WORLD.hindered = hindered
    for programs, is_ready in (
        ({}, False),
        ({"nvidia": "/usr/bin/another"}, False),
        ({"nvidia-cdi": PROGRAMS[0]}, False),
        ({"nvidia": PROGRAMS[0]}, True),
    ):
        WORLD.programs = programs
        state = Keeper(host, may_restart=lambda: False).reconcile()
        assert (state.phase, state.is_ready) == (AWAITING_RESTART if hindered else AWAITING_TURN, is_ready), programs


def test_one_that_comes_back_without_the_handlers_gets_its_file_back_and_is_not_tried_again(host: Host) -> None:
    WORLD.comes_back = False

    assert Keeper(host).reconcile().phase == REVERTED
    assert (content(host), WORLD.restarts) == (b"# theirs\n", 2)
    assert Keeper(host).reconcile().phase == REVERTED
    assert WORLD.restarts == 2


def test_never_writes_nothing_and_says_what_is_missing(host: Host) -> None:
    keeper = Keeper(host, writes=False)

    state = keeper.reconcile()

    assert (state.phase, "runtimeConfig is Never" in state.reason) == (NOT_CONFIGURED, True)
    assert content(host) == b"# theirs\n"
    WORLD.runs = True  # the administrator has configured it
    assert keeper.reconcile().phase == READY
    assert (content(host), WORLD.restarts) == (b"# theirs\n", 0)


@pytest.mark.parametrize("vendor", ["talos", "bottlerocket", "flatcar", "other"])
def test_a_read_only_host_is_told_its_vendors_way(host: Host, monkeypatch: pytest.MonkeyPatch, vendor: str) -> None:
    host.at("/etc/os-release").write_text(f'NAME=x\nID="{vendor}"\n')
    host.at(PROGRAMS[1]).unlink()
    assert Keeper(host).reconcile().phase == AWAITING_TOOLKIT
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((0,) * 8 + (os.ST_RDONLY, 255)))

    state = Keeper(host).reconcile()

    assert (state.phase, readonly.VENDORS.get(vendor, readonly.OTHERS) in state.reason) == (READ_ONLY, True)
    WORLD.foreign = "/usr/bin/nvidia-container-runtime"
    assert Keeper(host).reconcile().phase == READY, "the vendor's own handler is there"


def test_removal_gives_the_file_back_and_restarts_nothing(host: Host) -> None:
    Keeper(host).reconcile()

    assert Keeper(host).remove().phase == READY
    assert (content(host), WORLD.restarts) == (b"# theirs\n", 1)


def test_what_may_be_another_toolkits_drop_in_stays_while_that_one_is_the_nodes(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, elsewhere = host.root / FORMER.lstrip("/"), True
    former.parent.mkdir(parents=True)
    former.write_bytes(b"theirs")

    def planned(_: Played, node: Any) -> Plan:
        there = host.read(FORMER)
        return Plan((Change(FORMER, there, None),) if there is not None else (), (HANDLER,))

    monkeypatch.setattr(Played, "install", planned)
    monkeypatch.setattr(Played, "removal", planned)
    keeper = Keeper(host, is_elsewhere=lambda: elsewhere)

    assert keeper.reconcile().phase == AWAITING_TOOLKIT
    assert keeper.remove().phase == READY
    assert (former.read_bytes(), WORLD.restarts) == (b"theirs", 0)
    elsewhere = False
    assert keeper.reconcile().phase == READY
    assert not former.exists()


def test_k3s_is_told_of_and_nothing_of_it_is_written(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, str] = {}
    server = Server(1, "/var/lib/rancher/k3s/data/current/bin/containerd", "", "k3s.service")
    monkeypatch.setattr(choice, "of", lambda seen: Rancher(seen.root))
    monkeypatch.setattr(Rancher, "server", lambda _: server)
    monkeypatch.setattr(Rancher, "programs", lambda _: known)
    monkeypatch.setattr(Runtime, "release", lambda _: (2, 1))

    state = Keeper(host, may_restart=lambda: False).reconcile()

    assert (state.phase, state.kind, "k3s-agent" in state.reason) == (AWAITING_RESTART, "K3s or RKE2", True)
    known["nvidia"] = PROGRAMS[0]
    assert Keeper(host).reconcile().phase == READY


def test_what_a_look_came_to_stands_in_the_nodes_report(host: Host) -> None:
    (host.root / "usr").mkdir(exist_ok=True)
    tell(host, State(AWAITING_TURN, "x" * 600, "containerd"))
    found = read(host.root)

    assert found is not None
    assert found.runtime == {
        "runtime_kind": "containerd",
        "runtime_state": AWAITING_TURN,
        "runtime_message": "x" * 512,
    }
    before = host.at(STATE_FILE).stat()
    tell(host, State(AWAITING_TURN, "x" * 600, "containerd"))
    assert host.at(STATE_FILE).stat() == before, "the same is not written again"
    host.at(STATE_FILE).write_text("[")
    assert (read(host.root) or found).runtime == {}
    tell(host, None)
    assert not host.at(STATE_FILE).exists()
