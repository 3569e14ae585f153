"""A containerd that nothing starts again is not ended; one that is being restarted is waited for, whoever ends us."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api.runtime_state import AWAITING_RESTART, REVERTED, SETTLED
from nodeagent.toolkit.config.plan import Change, Plan, Refused
from nodeagent.toolkit.config.sources import MAIN, Node
from nodeagent.toolkit.cri import RuntimeUnavailable
from nodeagent.toolkit.host import Server
from nodeagent.toolkit.keeper import Keeper
from nodeagent.toolkit.kinds.containerd import Containerd
from nodeagent.toolkit.restart import Timeouts
from nodeagent.toolkit.way_back import WayBack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOON = Timeouts(quiet=0.0, busy=1.0, serving=0.2, poll=0.01)
AS_IT_WAS, CHANGED = b"# theirs\n", b"# theirs, and ours\n"


class Quiet:
    """A runtime that makes nothing now, and does not answer."""

    def settings(self) -> dict[str, Any]:
        """It runs with no handler."""
        return {}

    def making(self) -> int:
        return 0

    def release(self) -> tuple[int, int]:
        raise RuntimeUnavailable("nobody answers")


class Bare(Containerd):
    """A host whose containerd is a process of the test's."""

    child: subprocess.Popen[bytes]

    @property
    def runtime(self) -> Any:
        return Quiet()

    def server(self) -> Server:
        if self.child.poll() is not None:
            raise Refused("nobody serves")
        return Server(self.child.pid, "/usr/bin/containerd", MAIN, "", os.getpid())


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    made = Bare(tmp_path)
    object.__setattr__(made, "child", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
    made.at(MAIN).parent.mkdir(parents=True)
    made.at(MAIN).write_bytes(AS_IT_WAS)
    yield made
    made.child.kill()
    made.child.wait()


def restarted(bare: Bare, server: Server) -> Any:
    """What comes of a restart after a change of the file."""
    change = Change(MAIN, AS_IT_WAS, CHANGED)
    WayBack(bare).carry_out([change])
    return Keeper(bare, SOON)._taken_up(bare, server, Node((1, 7), {}, {}), Plan((change,)))


def test_a_containerd_that_nothing_would_start_again_is_left_running_and_a_person_is_told(bare: Bare) -> None:
    orphan = Server(bare.child.pid, "/usr/bin/containerd", MAIN, unit="", parent=1)

    state = restarted(bare, orphan)

    assert bare.child.poll() is None, "else the node had no runtime from now on"
    assert (state.phase, "restart it by hand" in state.reason) == (AWAITING_RESTART, True)
    assert state.phase not in SETTLED, "the pod is not ready while the handlers are not known"
    assert bare.at(MAIN).read_bytes() == CHANGED
    assert not WayBack(bare).open, "the next look changes nothing, and the person's restart takes it"


def test_one_that_its_supervisor_does_not_bring_back_is_told_of_with_its_former_file(bare: Bare) -> None:
    state = restarted(bare, bare.server())

    assert bare.child.wait(10) != 0
    assert (state.phase, "look at it on the node" in state.reason) == (REVERTED, True)
    assert bare.at(MAIN).read_bytes() == AS_IT_WAS


def test_who_is_told_to_end_meanwhile_sees_the_restart_to_its_end(bare: Bare) -> None:
    """SIGTERM comes when containerd has ended already: the program waits for it, and undoes what it does not take."""

    class Ending(Bare):
        def server(self) -> Server:
            if self.child.poll() is not None:
                keeper.stopping.set()
            return super().server()

    ending = Ending(bare.root)
    object.__setattr__(ending, "child", bare.child)
    keeper = Keeper(ending, SOON)
    change = Change(MAIN, AS_IT_WAS, CHANGED)
    WayBack(ending).carry_out([change])

    state = keeper._taken_up(ending, ending.server(), Node((1, 7), {}, {}), Plan((change,)))

    assert keeper.stopping.is_set()
    assert (state.phase, "look at it on the node" in state.reason) == (REVERTED, True)
    assert ending.at(MAIN).read_bytes() == AS_IT_WAS
