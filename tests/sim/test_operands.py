"""What simulated validators say, kubelet's probes, and the faults' spelling; the real program is the measure."""

from __future__ import annotations

import pytest

from controllers.api import validation
from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.bootstrap.preparation import validations
from sim.hardware import load
from sim.nodes import discover, faults, names, probes, validators
from sim.nodes.machine import machine
from sim.nodes.pods import Container, ContainerState, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, Waiting

CATALOGUE = load()
CARD = "0000:3b:00.0"
GOOD = {"boot_id", "version", "cards"}
OWN = {"driver": {"module", "checks_unknown"}, "container": {"injection", "cdi", "persistence", "cuda_version", "cuda"}}


def node(words, shape="t4-4"):
    meta = {names.SHAPE: shape, names.FAULT: words}
    return machine(Node(metadata=ObjectMeta(name="n", annotations=meta)), None, CATALOGUE)


def said(role, words="", shape="t4-4"):
    """The verdict as the controllers read it, and the keys without their role."""
    elements = validators.attributes(role, "n", "boot", node(words, shape))
    assert elements == validation.of_role(elements, role)
    return validation.read(elements, role), {key.removeprefix(f"{role}.") for key in elements} - {role}


@pytest.mark.parametrize("role", validation.ROLES)
@pytest.mark.parametrize("shape", ["t4-4", "h100-sxm-8", "mixed-2"])
def test_a_good_node_passes(role, shape):
    verdict, keys = said(role, shape=shape)
    assert (verdict.result, verdict.reason, verdict.boot_id) == ("ok", "", "boot")
    assert verdict.cards == len(CATALOGUE.shape(shape).cards)
    assert verdict.version == CATALOGUE.shape(shape).software.driver
    assert keys == GOOD | OWN[role]


@pytest.mark.parametrize(
    ("words", "failing", "reason"),
    [
        ("driver-check-failed", {"driver"}, "LibraryMismatch"),
        ("container-check-failed", {"container"}, "DevicesMissing"),
        ("no-toolkit", {"container"}, "DevicesMissing"),
        ("no-driver", {"driver", "container"}, "ModuleNotLoaded"),
        ("no-fabric", {"container"}, "FabricIncomplete"),
    ],
)
def test_a_check_that_fails_takes_its_role_and_says_why(words, failing, reason):
    for role in validation.ROLES:
        verdict, keys = said(role, words, "h100-sxm-8")
        assert verdict.result == ("failed" if role in failing else "ok")
        if role in failing:
            assert verdict.reason == reason
            assert len(verdict.message) > 40
            assert {"reason", "message", "checks_failed"} <= keys


def test_a_fabric_manager_that_is_down_shows_where_there_are_switches():
    old, _ = said("container", "no-fabric", "a100-sxm-8")
    assert (old.result, old.reason) == ("failed", "CudaError802"), "NVML of an A100 does not tell"
    assert said("container", "no-fabric")[0].result == "ok"


@pytest.mark.parametrize("role", validation.ROLES)
def test_a_card_that_fails_alone_leaves_the_role_ok(role):
    verdict, _ = said(role, f"card-check-failed:{CARD}")
    assert (verdict.result, verdict.cards, verdict.cards_failed) == ("ok", 3, (CARD,))
    assert CARD in verdict.message
    everything = ",".join(f"card-check-failed:{card.address}" for card in CATALOGUE.shape("t4-4").cards)
    assert said(role, everything)[0].result == "failed"


@pytest.mark.parametrize("role", validation.ROLES)
def test_an_old_driver_is_told_wherever_a_version_is(role):
    assert said(role, "old-driver")[0].version == "390.157"
    told = discover.features("n", "boot", node("old-driver"))["attributes"]["gpu.driver"]["elements"]
    assert told == {"version": "390.157", "cuda_version": "9.1"}


def test_roles_are_the_real_programs():
    assert {component: role for role, component in validations.VALIDATORS.items()} == probes.ROLES


# --- the faults' words ---------------------------------------------------------------------


def test_faults_are_read_freely_and_what_is_none_is_told():
    found = faults.of({names.FAULT: " no-driver,xid:00000000:3B:00.0=79 , not-ready:dcgm,exporter-silent,"})
    assert (found.driver, found.exporter, found.not_ready) == (True, "silent", {"dcgm"})
    assert found.signs[CARD].xid == 79
    assert found.unknown == ()
    wrong = ["xid:nowhere=3", f"xid:{CARD}", f"xid:{CARD}=-1", f"hot:{CARD}=warm", f"remap:{CARD}=1", "no-drivers"]
    assert faults.of({names.FAULT: ",".join(wrong)}).unknown == tuple(sorted(wrong))
    assert faults.of({}) == faults.Faults()


# --- probes --------------------------------------------------------------------------------


def pod(ready=False, waiting=""):
    state = ContainerState(waiting=Waiting(reason=waiting) if waiting else None)
    return Pod(
        metadata=ObjectMeta(name="p"),
        spec=PodSpec(containers=(Container(name="main", image="example/it:1"),)),
        status=PodStatus(
            conditions=(PodCondition(type="Ready", status=str(ready)),),
            container_statuses=(ContainerStatus(name="main", ready=ready, state=state),),
        ),
    )


@pytest.mark.parametrize(
    ("component", "words", "verdicts", "state"),
    [
        ("toolkit", "", {}, probes.State(ready=True)),
        ("toolkit", "not-ready:toolkit", {}, probes.State(ready=False, waiting="ImagePullBackOff")),
        ("dcgm", "not-ready:toolkit", {}, probes.State(ready=True)),
        ("validator", "", {"container": True, "driver": False}, probes.State(ready=True)),
        ("driver-validator", "", {"container": True, "driver": False}, probes.State(ready=False)),
        ("discover", "no-agent", {}, probes.State(ready=False)),
        ("gfd", "no-agent", {}, probes.State(ready=True)),
    ],
)
def test_who_is_ready(component, words, verdicts, state):
    assert probes.wanted(component, faults.of({names.FAULT: words}), verdicts) == state


@pytest.mark.parametrize(
    "state",
    [probes.State(ready=True), probes.State(ready=False), probes.State(ready=False, waiting="ImagePullBackOff")],
)
def test_what_is_written_is_what_is_read_back(state):
    status = probes.status(pod(), state, "2026-01-01T00:00:00Z")
    read = Pod(metadata=ObjectMeta(name="p"), status=status)
    assert probes.present(read) == state
    assert read.status.phase == ("Pending" if state.waiting else "Running")
    if state.waiting:
        assert "example/it:1" in status["containerStatuses"][0]["state"]["waiting"]["message"]
