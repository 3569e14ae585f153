"""The simulated NFD beside its cluster: the co-process that evaluates rules, and GPU feature discovery's labels."""

import asyncio
import gc
import json
import re
import signal
import subprocess

import pytest

from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.inventory.rule import node_feature_rule
from sim.hardware import Card, load
from sim.nodes import agent, gfd, nfd
from sim.nodes import rule as master
from sim.nodes.evaluator import Evaluator
from sim.nodes.machine import Machine, machine
from sim.nodes.report import Report, ReportMeta, facts
from tests.data import facts as real_facts
from tests.kit.pace import Stretch
from tests.tools.lacking import GO
from tools import programs
from tools.errors import UserError
from tools.programs.catalog import unit_of
from tools.programs.golang import build_env, find_go

CATALOGUE = load()
FLAG = json.dumps([{"name": "flag", "labels": {"x/l": "1"}}]).encode()
STARTED = "2024-05-14T15:37:21Z"


def shape(name, faults=""):
    annotations = {"sim.gpu.deckhouse.io/shape": name, "sim.gpu.deckhouse.io/fault": faults}
    return machine(Node(metadata=ObjectMeta(name="n", annotations=annotations)), None, CATALOGUE)


def report(name="h100-sxm-8", node="n", **meta):
    spec = {"features": nfd.features(node, shape(name), CATALOGUE), "labels": {}}
    return Report(metadata=ReportMeta(name=node, namespace="node-feature-discovery", **meta), spec=facts(spec))


@pytest.fixture
async def evaluator():
    made = Evaluator(programs.ensure(["nfd-rule"])["nfd-rule"])
    yield made
    await made.close()


@pytest.mark.skipif(find_go() is None, reason=GO)
def test_the_programs_own_tests():
    command = [str(find_go().command), "test", "./..."]
    done = subprocess.run(
        command, cwd=unit_of("nfd-rule").folder, env=build_env(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- the co-process --------------------------------------------------------------------------


async def test_questions_are_answered_and_only_new_ones_asked(evaluator):
    rules = json.dumps(node_feature_rule.manifest()["spec"]["rules"]).encode()
    (answer, new), (again, known) = [await evaluator.node("n", rules, [report()]) for _ in range(2)]
    assert (new, known, again) == (True, False, answer)
    assert (answer.labels["gpu.deckhouse.io/device-count"], answer.errors) == ("8", ())
    for asked in [
        evaluator.node("n", FLAG, [report()]),
        evaluator.node("n", FLAG, [report("t4-4")]),
        evaluator.node("n", FLAG, [report("t4-4"), report("t4-4", "m")]),
        evaluator.node("m", FLAG, [report("t4-4"), report("t4-4", "m")]),
    ]:
        assert (await asked)[1]
    assert evaluator.asked == 5
    evaluator.forget("n")
    assert (await evaluator.node("n", FLAG, []))[1]


async def test_many_ask_at_once(evaluator):
    def counted(n):
        return json.dumps([{"name": "n", "labels": {"x/n": str(n)}}]).encode()

    answers = await asyncio.gather(*(evaluator.ask(counted(n), []) for n in range(50)))
    assert [answer.labels["x/n"] for answer in answers] == [str(n) for n in range(50)]


async def test_a_process_that_died_is_started_anew(evaluator):
    await evaluator.ask(FLAG, [])
    first = evaluator._process
    first.send_signal(signal.SIGKILL)
    await first.wait()
    assert (await evaluator.ask(FLAG, [])).labels == {"x/l": "1"}
    assert evaluator._process.pid != first.pid
    evaluator._process.send_signal(signal.SIGKILL)  # its end may not have been noticed yet
    assert (await evaluator.ask(FLAG, [])).labels == {"x/l": "1"}


async def test_a_question_that_was_given_up_does_not_leave_its_answer_to_the_next(evaluator):
    await evaluator.ask(FLAG, [])
    evaluator._process.send_signal(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(evaluator.ask(b'[{"name": "old", "labels": {"x/old": "1"}}]', []), 0.2)
    assert (await evaluator.ask(FLAG, [])).labels == {"x/l": "1"}


async def test_what_cannot_answer_is_told_in_a_sentence(evaluator, tmp_path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    with pytest.raises(UserError, match="gives no answer"):
        await Evaluator(silent).ask(FLAG, [])
    with pytest.raises(UserError, match="cannot start"):
        await Evaluator(tmp_path / "nowhere").ask(FLAG, [])
    with pytest.raises(UserError, match="not a request"):
        await evaluator.ask(b'{"no": "list"}', [])


async def test_a_rule_with_what_is_not_simulated_is_told_and_others_count(evaluator):
    taint = {"name": "taints", "taints": [{"key": "a", "effect": "NoSchedule"}]}
    answer = await evaluator.ask(json.dumps([taint, *json.loads(FLAG)]).encode(), [])
    assert answer.labels == {"x/l": "1"}
    assert [error for error in answer.errors if "taints" in error]


async def test_five_hundred_nodes_are_labelled_in_seconds(evaluator):
    rules = json.dumps(node_feature_rule.manifest()["spec"]["rules"]).encode()
    reports = [[report(node=f"n{n}")] for n in range(500)]
    with Stretch() as machine:
        for n, each in enumerate(reports):
            await evaluator.node(f"n{n}", rules, each)
    machine.judge("labelling them", machine.seconds, 10.0)  # a quarter of a second on an idle machine


def test_an_agent_that_cannot_have_the_program_says_so_and_ends(tmp_path, monkeypatch, capsys):
    """What it left open would be said by the collector of garbage, and then this test fails."""

    def missing(_):
        raise UserError("Go is missing", expected="`go` in PATH", do="install it")

    monkeypatch.setattr(programs, "ensure", missing)
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(KUBECONFIG))
    flags = ["--kubeconfig", str(config), "--health-port", "0"]
    assert agent.main(agent.arguments("agent", "d"), "agent", agent.wire, flags) == 2
    assert capsys.readouterr().err.startswith("agent: Go is missing")
    gc.unfreeze()  # as a process does at its start with what its imports made
    gc.collect()


KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "x", "user": {"token": "t"}}],
}


# --- nfd-master's part ------------------------------------------------------------------------------


def test_reports_are_merged_as_nfd_orders_them():
    def made(namespace, name):
        return Report(metadata=ReportMeta(name=name, namespace=namespace))

    given = [("a", "b"), ("b", "a"), ("node-feature-discovery", "z"), ("a", "a"), ("node-feature-discovery", "c")]
    ordered = [(r.metadata.namespace, r.name) for r in master.merged(made(*each) for each in given)]
    nfds = "node-feature-discovery"
    assert ordered == [(nfds, "c"), (nfds, "z"), ("a", "a"), ("b", "a"), ("a", "b")]


def test_rules_are_joined_by_the_names_of_their_objects():
    def made(name, *rules):
        return node_feature_rule.NodeFeatureRule(
            metadata=ObjectMeta(name=name), spec={"rules": [{"name": each} for each in rules]}
        )

    joined = master.rules(
        [made("b", "1"), made("a", "2", "3"), node_feature_rule.NodeFeatureRule(metadata=ObjectMeta(name="c"))]
    )
    assert [entry["name"] for entry in json.loads(joined)] == ["2", "3", "1"]


def test_labels_are_noted_as_nfd_notes_them():
    wanted = {"feature.node.kubernetes.io/a": "1", "x/b": "2"}
    meta = master.patch(wanted)
    assert meta["annotations"] == {"nfd.node.kubernetes.io/feature-labels": "a,x/b"}
    node = Node(metadata=ObjectMeta(labels={**wanted, "theirs": "3"}, annotations=meta["annotations"]))
    assert master.owned(node) == wanted
    assert master.owned(Node()) == {}


def test_a_cached_report_is_small_and_whole():
    raw = {"features": nfd.features("n", shape("h100-sxm-8"), CATALOGUE), "labels": {"x/l": "1"}}
    kept = facts(raw)
    assert json.loads(kept.unpacked) == raw
    assert len(kept.packed) < len(json.dumps(raw)) / 4
    assert json.loads(facts(None).unpacked) == {"features": {}, "labels": {}}


# --- GPU feature discovery --------------------------------------------------------------------------


def labels(machine):
    found = gfd.labels(machine, STARTED)
    assert all(key.startswith("nvidia.com/") for key in found)
    assert all(re.fullmatch("|[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value) for value in found.values())
    return {key.removeprefix("nvidia.com/"): value for key, value in found.items()}


def test_labels_of_eight_equal_cards():
    assert labels(shape("h100-sxm-8")) == {
        "cuda.driver.major": "580",
        "cuda.driver.minor": "105",
        "cuda.driver.rev": "08",
        "cuda.driver-version.full": "580.105.08",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "105",
        "cuda.driver-version.revision": "08",
        "cuda.runtime.major": "13",
        "cuda.runtime.minor": "0",
        "cuda.runtime-version.full": "13.0",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "gfd.timestamp": "1715701041",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
        "gpu.count": "8",
        "gpu.family": "hopper",
        "gpu.machine": "h100-sxm-8",
        "gpu.memory": "81559",
        "gpu.mode": "compute",
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "mig.capable": "true",
        "mps.capable": "false",
    }


def test_a_real_node_has_no_other_spelling():
    """A dump of one H100, whose operator ran GFD with a MIG strategy and an older version: it knew no mode."""
    (node,) = real_facts.nodes("node_labels/docs-h100-mig-capable-off-labels.json")
    real = node.labels
    others = ("gpu.deploy.", "mig.config", "gpu-driver-upgrade", "gpu.present")
    spelled = {key.removeprefix("nvidia.com/") for key in real if key.startswith("nvidia.com/")}
    spelled = {key for key in spelled if not key.startswith(others)}
    ours = labels(shape("h100-sxm-8"))
    assert spelled ^ set(ours) == {"mig.strategy", "gpu.mode"}
    same = ("gpu.product", "gpu.memory", "gpu.family", "gpu.compute.major", "mig.capable", "gpu.replicas")
    assert {key: real[f"nvidia.com/{key}"] for key in same} == {key: ours[key] for key in same}


def test_of_two_products_one_is_named():
    found = labels(shape("mixed-2"))
    assert (found["gpu.product"], found["gpu.count"]) in {("NVIDIA-A100-PCIE-40GB", "1"), ("Tesla-T4", "1")}
    assert found["mig.capable"] == "true", "of any card"


@pytest.mark.parametrize(("name", "family"), [("t4-4", "turing"), ("a100-sxm-8", "ampere"), ("l40s-4", "ada-lovelace")])
def test_families(name, family):
    assert labels(shape(name))["gpu.family"] == family


@pytest.mark.parametrize(("capability", "family"), [((7, 0), "volta"), ((12, 0), "blackwell"), ((2, 1), "undefined")])
def test_families_beside_the_shapes(capability, family):
    assert gfd.family(*capability) == family


def test_without_driver_or_cards_there_are_no_labels():
    assert gfd.labels(shape("no-gpu"), STARTED) == {}
    assert gfd.labels(shape("t4-4", "no-driver"), STARTED) == {}
    described = Card.model_validate({
        "vendor": "10de", "device": "2330", "class": "0302", "subsystem_vendor": "0000", "subsystem_device": "0000",
        "address": "0000:01:00.0",
    })  # fmt: skip
    t4 = shape("t4-4")
    assert gfd.labels(Machine(t4.shape, (described,), t4.software, t4.faults), STARTED) == {}
