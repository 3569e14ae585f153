"""Agreement with the real scheduler: asked in small, what is kept of it, and that a wrong rule does not pass."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controllers.domain.verdict.demands import CPU, Demands, NodeUse
from controllers.domain.verdict.nodes import node_verdict
from controllers.domain.verdict.records import NodeVerdict
from reliability.agreement import cases, run, wishes
from reliability.agreement.__main__ import main
from reliability.agreement.answers import outcome_of
from reliability.agreement.cluster import Cluster, Rule, histogram
from reliability.agreement.fleet import Fleet
from reliability.agreement.records import Expected, Outcome, asked, differences, reasons_of
from reliability.agreement.tally import BARS, Sizes, Tally, summary
from sim import controlplane
from tools.errors import UserError

KEPT = Path(__file__).parent / "agreement"
CASES = sorted(KEPT.glob("*.json"))
SMALL = Sizes(pods=40, nodes=8, pools=2, seed=3)


def sees_no_cordon(pod: Demands, node: Any, there: NodeUse | None) -> NodeVerdict:
    """A node that is closed is as good as any."""
    return node_verdict(pod, replace(node, spec=replace(node.spec, unschedulable=False)), there)


def miscounts_pods(pod: Demands, node: Any, there: NodeUse | None) -> NodeVerdict:
    """A node takes one pod more than it does."""
    return node_verdict(pod, node, replace(there, pods=there.pods - 1) if there is not None else None)


def forgets_the_others(pod: Demands, node: Any, there: NodeUse | None) -> NodeVerdict:
    """Nobody else is on the node."""
    return node_verdict(pod, node, NodeUse())


def forgets_cpu(pod: Demands, node: Any, there: NodeUse | None) -> NodeVerdict:
    """The pod asks for no CPU."""
    return node_verdict(replace(pod, requests={**pod.requests, CPU: 0}), node, there)


def test_the_histogram_counts_each_reason_of_a_node() -> None:
    lacking = ("Insufficient cpu", "Insufficient memory")
    verdicts = [
        NodeVerdict("a", "NodeResourcesFit", lacking),
        NodeVerdict("b", "NodeResourcesFit", lacking[:1]),
        NodeVerdict("c", "Unschedulable", ("node(s) were unschedulable",)),
        NodeVerdict("d", "Fits"),
    ]
    assert histogram(verdicts) == {"Insufficient cpu": 2, "Insufficient memory": 1, "node(s) were unschedulable": 1}


@pytest.mark.cluster
def test_the_real_scheduler_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.agree(tmp_path, SMALL, tmp_path / "cases", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "agreement.json").read_text())
    assert found["pods"] == SMALL.pods
    assert found["differences"] == []
    assert 0 < found["bound"] < SMALL.pods
    assert len(found["reasons"]) > 3
    assert not (tmp_path / "cases").exists()
    assert not controlplane.status(tmp_path / "agreement").up


@pytest.mark.cluster
def test_a_wrong_rule_is_caught_named_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep = tmp_path / "cases"
    assert run.agree(tmp_path, SMALL, keep, rule=forgets_the_others) == 1
    said = capsys.readouterr().out
    assert "missed" in said
    assert "seed 3, fleet 0, pod-" in said
    kept = [cases.load(path) for path in sorted(keep.glob("seed-3-pod-*.json"))]
    assert kept
    for cluster, pod, outcome in kept:
        assert differences(cluster.expect(pod, forgets_the_others), outcome)
        assert not differences(cluster.expect(pod), outcome)


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_what_the_scheduler_said_once_the_verdicts_say(path: Path) -> None:
    cluster, pod, outcome = cases.load(path)
    assert differences(cluster.expect(pod), outcome) == ()


@pytest.mark.parametrize("rule", [sees_no_cordon, miscounts_pods, forgets_the_others, forgets_cpu])
def test_the_kept_cases_catch_a_wrong_rule(rule: Rule) -> None:
    kept = [cases.load(path) for path in CASES]
    assert any(differences(cluster.expect(pod, rule), outcome) for cluster, pod, outcome in kept)


def test_the_kept_cases_name_each_reason_that_is_looked_at() -> None:
    found: Counter[str] = Counter()
    for path in CASES:
        _, _, outcome = cases.load(path)
        found += reasons_of(outcome.message) if outcome.node is None else Counter()
    assert set(found) >= {
        "Insufficient cpu",
        "Insufficient ephemeral-storage",
        "Insufficient hugepages-2Mi",
        "Insufficient memory",
        "Too many pods",
        "node(s) didn't have free ports for the requested pod ports",
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "node(s) had untolerated taint(s)",
        "node(s) were unschedulable",
        "pod affinity terms conflict",
    }


@pytest.mark.parametrize(
    ("message", "reasons"),
    [
        (
            "0/3 nodes are available: 1 Too many pods, 2 Insufficient gpu.deckhouse.io/a. no new claims to deallocate, "
            "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
            {"Too many pods": 1, "Insufficient gpu.deckhouse.io/a": 2},
        ),
        ("0/2 nodes are available: 2 Insufficient cpu.", {"Insufficient cpu": 2}),
        (
            "0/4 nodes are available: pod affinity terms conflict. no new claims to deallocate, preemption: 0/4 nodes "
            "are available: 4 Preemption is not helpful for scheduling.",
            {"pod affinity terms conflict": 4},
        ),
    ],
)
def test_a_histogram_is_read(message: str, reasons: dict[str, int]) -> None:
    assert reasons_of(message) == reasons


@pytest.mark.parametrize("message", ["", "no nodes available to schedule pods", "0/3 nodes are available: what now."])
def test_what_is_no_histogram_is_an_error_and_not_an_agreement(message: str) -> None:
    with pytest.raises(UserError, match="no histogram"):
        reasons_of(message)


REFUSED = "0/2 nodes are available: 2 Insufficient cpu."


@pytest.mark.parametrize(
    ("fits", "unknown", "outcome", "questions", "differ"),
    [
        ("a", "", Outcome(node="a"), ("bound", "node"), []),
        ("a", "", Outcome(node="b"), ("bound", "node"), ["node"]),
        ("", "", Outcome(node="b"), ("bound", "node"), ["bound"]),
        ("", "b", Outcome(node="b"), ("bound", "node"), []),
        ("", "", Outcome(message=REFUSED), ("bound", "reasons"), []),
        ("a", "", Outcome(message=REFUSED), ("bound", "reasons"), ["bound"]),
        ("", "a", Outcome(message=REFUSED), ("bound",), []),
        ("a", "b", Outcome(message=REFUSED), ("bound",), ["bound"]),
        ("", "", Outcome(message=REFUSED.replace("2 I", "1 I")), ("bound", "reasons"), ["reasons"]),
    ],
)
def test_what_is_asked_and_what_differs(fits: str, unknown: str, outcome: Outcome, questions: Any, differ: Any) -> None:
    expected = Expected(frozenset(fits), frozenset(unknown), Counter({"Insufficient cpu": 2}))
    assert asked(expected, outcome) == questions
    assert [one.question for one in differences(expected, outcome)] == differ


def test_of_a_volume_that_is_not_there_the_scheduler_says_one_thing_and_no_reason_of_a_node() -> None:
    expected = Expected(frozenset(), frozenset(), Counter({"Insufficient cpu": 2}), is_whole=False)
    outcome = Outcome(message='0/2 nodes are available: persistentvolumeclaim "data" not found.')
    assert asked(expected, outcome) == ("bound",)
    assert differences(expected, outcome) == ()


def test_a_bar_is_met_at_the_bar_and_not_where_nothing_was_asked() -> None:
    tally = Tally()
    tally.asked.update({"bound": 1000, "node": 1000})
    tally.differ.update({"bound": 1, "node": 2})
    assert {row["question"]: row["met"] for row in summary(tally)["rows"]} == {
        "bound": True,
        "node": False,
        "reasons": False,
    }
    assert BARS == {"bound": 0.999, "node": 0.999, "reasons": 0.99}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ({}, None),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}, None),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}]},
            Outcome(message="m"),
        ),
    ],
)
def test_what_the_scheduler_has_said(status: Any, outcome: Outcome | None) -> None:
    assert outcome_of({"spec": {}, "status": status}) == outcome
    assert outcome_of({"spec": {"nodeName": "n"}, "status": status}) == Outcome(node="n")


def test_the_same_seed_makes_the_same_fleet_and_the_same_pods() -> None:
    def made(seed: int) -> Any:
        draw = Random(seed)
        fleet = Fleet(draw, 5, 2)
        nodes = fleet.make_nodes()
        residents = [fleet.residents(node["metadata"]["name"]) for node in nodes]
        return nodes, residents, [wishes.pod(draw, f"p{n}", fleet.pool_names) for n in range(20)], fleet.change()

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_a_case_keeps_all_by_which_both_decide(tmp_path: Path) -> None:
    draw = Random(7)
    fleet, cluster = Fleet(draw, 6, 2), Cluster()
    for node in fleet.make_nodes():
        cluster.put_node(node)
        for pod in fleet.residents(node["metadata"]["name"]):
            cluster.put_pod({**pod, "metadata": {**pod["metadata"], "namespace": "agreement"}})
    for number in range(30):
        pod = wishes.pod(draw, f"p{number}", fleet.pool_names)
        cases.save(tmp_path / "case.json", cluster, pod, Outcome(node="node-01"), seed=7)
        again, same, outcome = cases.load(tmp_path / "case.json")
        assert again.expect(same) == cluster.expect(pod)
        assert outcome == Outcome(node="node-01")


def test_a_wrong_number_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--pods", "0"])
    assert "at least 1 is needed" in capsys.readouterr().err
