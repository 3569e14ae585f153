"""The role against a real CRI-O: what it reads, what a reload brings, and that a restart is the exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api.runtime_state import READY, REVERTED
from nodeagent.toolkit.config import crio, marks, plan
from nodeagent.toolkit.keeper import Keeper
from nodeagent.toolkit.kinds.crio import Crio
from nodeagent.toolkit.state import State
from sim.realnode.needs import missing, missing_for_crio
from tests.e2e.realcrio import PACKAGED, RealCrio
from tests.e2e.test_toolkit import contents, tree
from tools.programs import ensure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.e2e
PLACE = f"{crio.DROP_INS}/{crio.DROP_IN}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RealCrio]]:
    if reason := missing() or missing_for_crio():
        pytest.skip(reason)
    program, running = ensure(("crio",))["crio"], list[RealCrio]()

    def begin(files: Mapping[str, str] = PACKAGED) -> RealCrio:
        running.append(RealCrio(tmp_path / "root", program, files))
        return running[-1]

    yield begin
    for one in running:
        one.end()


def programs(node: RealCrio) -> dict[str, str]:
    """What the process runs with."""
    return Crio(node.root, socket=node.socket).programs()


def test_a_drop_in_and_a_reload_bring_the_handlers_and_nothing_is_restarted(start: Callable[..., RealCrio]) -> None:
    node = start()
    before = contents(node)

    assert node.keeper.reconcile() == State(READY, kind="CRI-O")
    assert node.starts == 1
    told = programs(node)
    assert {name: told.get(name) for name in plan.HANDLERS} == {
        name: f"{plan.FOLDER}/{file}" for name, file in plan.HANDLERS.items()
    }
    assert told["runc"] == "/usr/bin/runc"
    assert "czNjcmV0" not in node.at(PLACE).read_text()

    written = tree(node)
    again = Keeper(node.host, node.keeper.timeouts)  # as a pod that was started again
    assert [node.keeper.reconcile().phase, again.reconcile().phase] == [READY] * 2
    node.restart()  # as with the node
    assert Keeper(node.host, node.keeper.timeouts).reconcile().phase == READY
    assert (tree(node), node.starts) == (written, 2)

    assert again.remove().phase == READY
    assert contents(node) == before
    assert node.starts == 2


def test_where_a_reload_brings_nothing_it_is_restarted_once(start: Callable[..., RealCrio]) -> None:
    """As where there was no folder of drop-ins when CRI-O started: it does not look there then."""
    node = start({})

    assert node.keeper.reconcile().phase == READY
    assert node.starts == 2
    assert programs(node)["nvidia-cdi"] == f"{plan.FOLDER}/{plan.HANDLERS['nvidia-cdi']}"


def test_a_crio_that_does_not_come_back_gets_its_files_back_and_the_same_is_not_tried_again(
    start: Callable[..., RealCrio], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start()
    before = contents(node)
    monkeypatch.setattr(Crio, "reload", lambda *_: False)
    node.refuses, node.keeper.timeouts = marks.BEGIN, node.impatient

    state = node.keeper.reconcile()

    assert (state.phase, "did not serve" in state.reason) == (REVERTED, True)
    assert contents(node) == before
    node.served()
    starts = node.starts
    assert Keeper(node.host, node.impatient).reconcile().phase == REVERTED
    assert node.starts == starts
