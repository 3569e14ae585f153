"""`kubectl gpu driver <name>` amid a roll-out: waves of each kind of node, who waits for whom, live or to its end."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names
from controllers.api.gpudriver import GPUDriver
from controllers.api.resources import GPUDRIVER, Resource
from controllers.domain.clock import stamp
from controllers.explain import node as explain_node
from controllers.explain.faults import UsageError
from kubectl_gpu import driver_waiting, drivers, live
from kubectl_gpu.cluster import Found
from kubectl_gpu.parser import build
from tests.kubectl_gpu.drivers import SINCE, Api, condition, driver, node

PODS = "2 pods use cards (team/a, team/b)"
KIND, OTHER = "ubuntu24.04 6.8 open 2330 nvswitch", "ubuntu24.04 6.8 open 26b5"


def rolling(**more: Any) -> GPUDriver:
    return driver(
        "main",
        target="0123456789",
        state="Rolling 1/3",
        counts={"nodes": 6, "current": 1, "busy": 2, "outdated": 3},
        revisions=[{"hash": "0123456789", "version": "580.178.04", "result": "Good", "since": SINCE}],
        strata=[
            {"key": KIND, "nodes": 4, "canary": "n1", "result": "Good", "wave": 1, "started": 2, "finished": 1},
            {"key": OTHER, "nodes": 2, "canary": "n5", "result": "Unproved", "wave": 0, "started": 1, "finished": 0},
        ],
        nodes=[
            {"name": "n2", "phase": "Draining", "reason": "PodsRemain", "since": SINCE},
            {"name": "n5", "phase": "Soaking", "since": SINCE},
            {"name": "n3", "phase": "Outdated", "reason": "BudgetReached"},
            {"name": "n4", "phase": "Outdated", "reason": "BudgetReached"},
            {"name": "n6", "phase": "Outdated", "reason": "AwaitingWave"},
            {"name": "n1", "phase": "Current"},
        ],
        spent=[{"hour": SINCE, "gpu_seconds": 5400}, {"hour": SINCE, "gpu_seconds": 1800}],
        conditions=[condition("Ready", "NodesAtWork", "of 6 nodes 1 as asked for, 5 without it yet", "False")],
        **more,
    )


ROLL = Api(
    (rolling(),),
    (
        node("n2", phase="Draining", reason="PodsRemain", message=PODS, wave=1, stratum=KIND),
        node("n5", phase="Soaking", wave=0, stratum=OTHER),
    ),
)


async def said(api: Any, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[str, str]:
    assert await drivers.driver(api, build().parse_args(["driver", *words])) == status
    told = capsys.readouterr()
    return told.out, told.err


async def test_each_kind_of_node_has_its_wave_and_the_nodes_that_are_under_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = (await said(ROLL, capsys, "main"))[0].splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("KIND"))

    assert lines[at].split() == ["KIND", "NODES", "WAVE", "STARTED", "FINISHED", "RESULT", "UNDER", "WAY"]
    assert lines[at + 1].removeprefix(KIND).split()[:7] == ["4", "1/3", "2", "1", "Good", "n2", "(Draining"]
    assert lines[at + 2].removeprefix(OTHER).split()[:7] == ["2", "canary", "1", "0", "Unproved", "n5", "(Soaking"]


async def test_those_that_wait_are_told_once_with_what_they_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = await said(ROLL, capsys, "main")

    assert "BudgetReached on 2 nodes (n3, n4); it waits for n2 in Draining." in out
    assert "AwaitingWave on 1 node (n6); it waits for n2 in Draining, n5 in Soaking." in out
    assert "2 GPU hours in the last 24 hours" in out
    rows = [line.split()[0] for line in out.splitlines()[-3:]]
    assert rows == ["NODE", "n2", "n5"]
    assert PODS in out


async def test_a_wave_without_an_end_is_done_or_none() -> None:
    found = rolling()
    first, second = found.status.strata
    rollout = drivers.rollout

    assert rollout.wave_of(found, first) == "1/3"
    assert rollout.wave_of(found, second) == "canary"
    assert rollout.wave_of(found, replace(first, wave=None, started=4, finished=4)) == "done"
    assert rollout.wave_of(found, replace(first, wave=None, started=0, finished=0)) == "-"


async def test_a_pause_and_the_end_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    later = stamp(time.time() + 7200)
    paused = rolling(annotations={names.PAUSE: later}, rollout={"paused": True}, eta=later)
    out, _ = await said(Api((paused,)), capsys, "main")
    program = json.loads((await said(Api((paused,)), capsys, "main", "-o", "json"))[0])

    assert "spec.rollout.paused is true: no node is begun" in out
    assert f"It is paused until {later}, in 1" in out
    assert f"All nodes will have it by {later}, in 1" in out
    assert (program["paused"], program["eta"], program["gpuHours"], program["state"]) == (
        True,
        later,
        2.0,
        "Rolling 1/3",
    )
    assert program["strata"][0]["wave"] == 1


class Moving(Api):
    """A cluster whose driver is another one at each look."""

    def __init__(self, *looks: GPUDriver) -> None:
        super().__init__(looks[:1], ROLL.nodes)
        self._looks = list(looks)

    async def get(self, resource: Resource, cls: type[Any], name: str, namespace: str | None = None) -> Found[Any]:
        if resource == GPUDRIVER:
            self.drivers = (self._looks.pop(0) if len(self._looks) > 1 else self._looks[0],)
        return await super().get(resource, cls, name, namespace)


def at(version: str, found: GPUDriver) -> GPUDriver:
    return replace(found, metadata=replace(found.metadata, resource_version=version))


def judged(*conditions: dict[str, str], observed: int = 1) -> GPUDriver:
    return driver("main", counts={"nodes": 1}, observed_generation=observed, conditions=list(conditions))


READY = judged(condition("Ready", "AllNodesReady", "1 node as asked for"))
BUSY = judged(condition("Ready", "NodesAtWork", "of 1 node 0 as asked for", "False"))
HALTED = judged(
    condition("Ready", "NodesAtWork", "of 1 node 0", "False"), condition("Halted", "Xid", "revision 01 failed on n1")
)


async def test_a_live_view_shows_what_has_changed_and_reads_nodes_only_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_AGAIN", 0.01)
    api = Moving(at("1", rolling()), at("1", rolling()), at("1", rolling()), at("2", READY))
    out, _ = await said(api, capsys, "main", "-w", "--timeout", "0.5")

    shown = out.split("\n\n")
    assert [text.split(":")[0] for text in shown] == ["GPUDriver main, version 580.178.04"] * 2
    assert "n5 (Soaking" in shown[0]
    assert "1 node as asked for" in shown[1]
    assert api.reads["gpunodeinventories"] == 2


@pytest.mark.parametrize(
    ("looks", "status", "text"),
    [
        ((BUSY, READY), 0, ""),
        ((BUSY, HALTED), 1, "error: GPUDriver main: Halted (Xid): revision 01 failed on n1\n"),
        ((judged(*[], observed=0), READY), 0, ""),
        # What is told of the spec before this one says nothing of this one.
        ((replace(HALTED, metadata=replace(HALTED.metadata, generation=2)),), 1, "it has not been looked at\n"),
        ((BUSY,), 1, "after 0.3 s GPUDriver main is not everywhere: of 1 node 0 as asked for\n"),
    ],
)
async def test_a_program_waits_until_all_nodes_have_it_or_something_speaks_against_it(
    looks: tuple[GPUDriver, ...],
    status: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_waiting, "LOOK_AGAIN", 0.01)
    _, err = await said(Moving(*looks), capsys, "status", "main", "--wait", "--timeout", "0.3", status=status)

    assert err.endswith(text)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("main --for 8h", "--for goes with pause, not with status."),
        ("retry n1 --wait", "--wait goes with hand-over and status, not with retry."),
        ("hand-over n1 -w", "--watch goes with status, not with hand-over."),
        ("status --wait", "For which driver?"),
    ],
)
async def test_an_option_that_means_nothing_is_refused(words: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("?", "[?]")):
        await drivers.driver(ROLL, build().parse_args(["driver", *words.split()]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("work", "level", "text", "cure"),
    [
        (
            {"phase": "Deferred", "reason": "PodsRemain", "message": PODS},
            "note",
            f"GPUDriver main: Deferred (PodsRemain) since {SINCE}, {PODS}",
            "kubectl gpu driver retry n1",
        ),
        (
            {"phase": "Broken", "reason": "RollbackFailed", "undoes": "0123456789"},
            "bad",
            f"GPUDriver main takes back revision 0123456789: Broken (RollbackFailed) since {SINCE}",
            "kubectl gpu driver retry n1",
        ),
        (
            {"phase": "HandedOver", "hand_over": "ansible"},
            "note",
            f"ansible wants it for work of their own: HandedOver since {SINCE}",
            "",
        ),
    ],
)
def test_a_node_tells_what_is_done_to_it(work: dict[str, Any], level: str, text: str, cure: str) -> None:
    found = explain_node.explained(explain_node.NodeSeen(node("n1", **work))).findings
    (told,) = [one for one in found if SINCE in one.text]

    assert (told.level, told.text) == (level, text)
    assert cure in told.do
    assert bool(told.do) is bool(cure)
