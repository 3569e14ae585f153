"""The role as a process, with programs that behave as NVIDIA's do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeagent.deviceplugin.devices.records import NodeScan
from nodeagent.host import mpsfiles
from nodeagent.host.mpsfiles import DaemonState
from nodeagent.mps.programs import Failed, Programs
from tests.kit.waiting import PATIENCE
from tests.nodeagent import command
from tests.nodeagent.mps.fakes import CARD, FOUR, READY_FOUR, READY_TWO, TWO

CONTROL = """#!/usr/bin/python3
import os, pathlib, signal, sys, time
pipe = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
pid = pipe / "control.pid"
def write(path, text):  # at once: the test reads it meanwhile
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.rename(path)
if sys.argv[1:] == ["-f"]:
    write(pipe / "card", os.environ["CUDA_VISIBLE_DEVICES"])
    write(pid, str(os.getpid()))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        time.sleep(60)
for line in sys.stdin.read().splitlines():
    word, *rest = line.split()
    try:
        daemon = int(pid.read_text())
        os.kill(daemon, 0)
    except (OSError, ValueError):
        sys.exit("Cannot find MPS control daemon process")
    if word.startswith("set_"):
        write(pipe / word, " ".join(rest))
    elif word == "get_default_active_thread_percentage":
        set_ = pipe / "set_default_active_thread_percentage"
        print(float(set_.read_text()) if set_.exists() else 100.0)
    elif word == "get_default_device_pinned_mem_limit":
        set_ = pipe / "set_default_device_pinned_mem_limit"
        mib = int(set_.read_text().split()[1].rstrip("M")) if set_.exists() else 0
        print(f"{mib // 1024}G" if mib >= 1024 else f"{mib}M" if mib else "")
    elif word == "quit":
        os.kill(daemon, signal.SIGTERM)
"""
SMI = """#!/usr/bin/python3
import os, pathlib, sys
kept = pathlib.Path(__file__).with_name("mode-" + sys.argv[2])
if "-c" in sys.argv:
    names = {"DEFAULT": "Default", "EXCLUSIVE_PROCESS": "Exclusive_Process"}
    new = kept.with_name(f"{kept.name}.{os.getpid()}")  # written at once: the test reads it meanwhile
    new.write_text(names[sys.argv[sys.argv.index("-c") + 1]])
    new.rename(kept)
else:
    print((kept.read_text() if kept.exists() else "Default") + ", 24576")
"""


class Node:
    """A folder of the host, programs, and the role."""

    def __init__(self, place: Path) -> None:
        self.bin, self.mps = place / "bin", place / "mps"
        self.folder = mpsfiles.folder(self.mps, "p")
        self.bin.mkdir()
        for name, text in (("control", CONTROL), ("smi", SMI)):
            (self.bin / name).write_text(text, "utf-8")
            (self.bin / name).chmod(0o755)
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "nodeagent", *self.flags, "--period", "0.05"], stderr=subprocess.DEVNULL
        )

    @property
    def flags(self) -> tuple[str, ...]:
        programs = ("--mps-control", str(self.bin / "control"), "--nvidia-smi", str(self.bin / "smi"))
        return ("mps", "--pool", "p", "--mps-dir", str(self.mps), *programs)

    def mode(self) -> str:
        kept = self.bin / f"mode-{CARD}"
        return kept.read_text() if kept.exists() else "Default"

    def state(self) -> DaemonState | None:
        said = mpsfiles.read_state(self.folder)
        return said.cards.get(CARD) if said.alive else None

    def pipe(self, name: str) -> str:
        return (self.folder / CARD / mpsfiles.PIPE / name).read_text()

    def daemon(self) -> int:
        """The control daemon's process id, 0 between two of them."""
        try:
            return int(self.pipe("control.pid"))
        except FileNotFoundError:
            return 0

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.child is not None
        self.child.send_signal(number)
        return self.child.wait(PATIENCE)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    if made.child is not None and made.child.poll() is None:
        made.stop()


def until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for a condition of another process."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"never: {what()}"
        time.sleep(0.02)


@pytest.mark.slow("a process of the agent, and programs beside it")
def test_a_card_gets_a_daemon_with_limits_and_loses_it_with_the_role(node: Node) -> None:
    mpsfiles.write_wanted(node.folder, {CARD: FOUR})
    assert not mpsfiles.read_state(node.folder).alive
    node.start()
    until(lambda: node.state() == READY_FOUR, lambda: mpsfiles.read_state(node.folder))
    assert (node.mode(), node.pipe("card")) == ("Exclusive_Process", CARD)
    assert node.pipe("set_default_active_thread_percentage") == "25"
    assert node.pipe("set_default_device_pinned_mem_limit") == "0 6144M"
    code, said = command.run(*node.flags)
    assert (code, "another program serves the pool" in said) == (2, True)

    daemon = node.daemon()
    os.kill(daemon, signal.SIGKILL)
    until(lambda: node.daemon() not in (0, daemon), lambda: "the daemon does not come again")
    until(lambda: node.state() == READY_FOUR, lambda: mpsfiles.read_state(node.folder))

    mpsfiles.write_wanted(node.folder, {CARD: TWO})
    until(lambda: node.state() == READY_TWO, lambda: mpsfiles.read_state(node.folder))
    assert node.stop() == 0
    assert node.mode() == "Default"
    assert dict(mpsfiles.read_state(node.folder).cards) == {}


@pytest.mark.slow("a process of the agent, and programs beside it")
def test_a_role_that_was_killed_is_not_believed_and_the_next_one_puts_back(node: Node) -> None:
    mpsfiles.write_wanted(node.folder, {CARD: FOUR})
    node.start()
    until(lambda: node.state() is not None and node.mode() == "Exclusive_Process", node.mode)
    until(lambda: node.state() == READY_FOUR, lambda: mpsfiles.read_state(node.folder))
    daemon = node.daemon()
    node.stop(signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)  # as the runtime does with all of a container
    left = mpsfiles.read_state(node.folder)
    assert (left.alive, left.cards[CARD].phase) == (False, "Ready")
    assert NodeScan().daemons.alive is False

    mpsfiles.write_wanted(node.folder, {})
    node.start()
    until(lambda: node.mode() == "Default", lambda: mpsfiles.read_state(node.folder))
    until(lambda: dict(mpsfiles.read_state(node.folder).cards) == {}, lambda: mpsfiles.read_state(node.folder))


def test_a_program_that_is_not_there_is_said(node: Node) -> None:
    programs = Programs(str(node.bin / "nobody"), str(node.bin / "smi"), PATIENCE)
    with pytest.raises(Failed, match="cannot be started: No such file or directory"):
        programs.start(CARD, node.folder / CARD)


def test_a_daemon_that_ends_at_once_is_said_with_its_log(node: Node) -> None:
    (node.bin / "control").write_text("#!/bin/sh\nexit 3\n", "utf-8")
    programs = Programs(str(node.bin / "control"), str(node.bin / "smi"), PATIENCE)
    daemon = programs.start(CARD, node.folder / CARD)
    with pytest.raises(Failed, match=r"ended with status 3; its log is .*control\.log on the node"):
        programs.until_answers(daemon, node.folder / CARD)
