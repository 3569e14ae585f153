"""What is done with a node and said of it, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.settings import parse_settings
from controllers.bootstrap.preparation.phases import PHASES
from controllers.runtime.plan import EmitEvent
from tests.bootstrap.world import COMPONENTS, DEVICE, LIMITS, NODE, Cluster, device_name
from tests.kit import conditions
from tests.kit.objects import condition

KINDS = ("DriverMissing", "ToolkitMissing", "MonitoringMissing", "InfraDegraded", "ReadyForPooling")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.node()
    made.report()
    made.inventory()
    made.pod("discover")
    return made


@pytest.fixture
def ready() -> Cluster:
    made = Cluster()
    made.prepare()
    return made


def notes(actions: tuple[Any, ...]) -> list[tuple[str, str]]:
    return [(action.type, action.reason) for action in actions if isinstance(action, EmitEvent)]


def test_a_node_is_prepared_step_by_step(cluster: Cluster) -> None:
    for at in range(len(COMPONENTS)):
        made = cluster.step()
        assert cluster.gates() == COMPONENTS[: at + 1]
        assert cluster.condition("ReadyForPooling") == ("False", PHASES[at].not_ready)
        assert f"gpu-{COMPONENTS[at]} is ready on node {NODE}" in cluster.message("ReadyForPooling")
        assert notes(made.actions) == []
        assert cluster.step().writes == ()
        cluster.now += 1
        cluster.kubelet()
    made = cluster.step()

    assert notes(made.actions) == [("Normal", names.EVENT_NODE_READY)]
    assert cluster.condition("ReadyForPooling") == ("True", "Ready")
    assert [cluster.condition(kind)[0] for kind in KINDS] == ["False", "False", "False", "False", "True"]
    assert cluster.plan().actions == ()
    assert cluster.plan().requeue_after == LIMITS.missing_after, "the exporter has to answer by then"


def test_the_facts_are_the_agents_and_the_pods(ready: Cluster) -> None:
    assert ready.status()["driver"] == {"version": "580.65.06", "cudaVersion": "13.0", "toolkitInstalled": True}
    assert ready.status()["monitoring"] == {"dcgmReady": True, "lastHeartbeat": "2027-01-15T08:00:00Z"}
    ready.now += 15
    assert ready.plan().actions == ()  # another heartbeat is no news
    flags = ready.status()["bootstrap"]
    assert (flags["gfdReady"], flags["toolkitReady"], flags["validated"]) == (True, True, True)


def test_other_labels_of_the_node_are_not_touched(ready: Cluster) -> None:
    ready.inventory(managed=False)
    ready.step()

    assert ready.objects["Node", NODE]["metadata"]["labels"] == {"example.com/own": "stays"}


@pytest.mark.parametrize(("change", "reason"), [({"managed": False}, "NotManaged"), ({"cards": 0}, "NoCards")])
def test_a_node_that_is_not_to_be_prepared_loses_its_gates(ready: Cluster, change: dict[str, Any], reason: str) -> None:
    ready.inventory(**change)
    made = ready.step()

    assert ready.gates() == []
    assert {ready.condition(kind) for kind in KINDS} == {("False", reason)}
    assert notes(made.actions) == [("Warning", names.EVENT_INVENTORY_CONDITION)]
    assert ready.plan().writes == ()


def aside(cluster: Cluster, why: str, number: int = 0) -> None:
    """A card for which no node is prepared."""
    if why == "ignored":
        cluster.device(number=number)
        with cluster.edit("GPUDevice", device_name(number=number)) as card:
            conditions.put(card, condition("Ignored", True, "IgnoreRequested"))
    else:
        cluster.device(names.REASON_VENDOR_NOT_SERVED, number=number)
        with cluster.edit("GPUDevice", device_name(number=number)) as card:
            card["status"]["hardware"]["pci"]["vendor"] = "1002"


@pytest.mark.parametrize("why", ["ignored", "not served"])
def test_a_node_whose_cards_are_ignored_or_of_another_vendor_is_not_prepared_and_lacks_no_driver(
    cluster: Cluster, why: str
) -> None:
    cluster.report(driver="")
    aside(cluster, why)
    cluster.step()

    assert cluster.gates() == []
    assert {cluster.condition(kind) for kind in KINDS} == {("False", "NoServedCards")}
    assert cluster.plan().writes == ()


@pytest.mark.parametrize("why", ["ignored", "not served"])
def test_a_card_that_is_set_aside_does_not_keep_its_neighbour_out(ready: Cluster, why: str) -> None:
    ready.inventory(cards=2)
    ready.device(number=1)
    aside(ready, why, 1)
    ready.step()

    assert ready.pooling() == ("True", "Ready")
    assert "1 cards" in ready.message("ReadyForPooling")


@pytest.mark.parametrize("how", ["pooled", "used"])
def test_what_prepares_a_node_stays_while_an_ignored_card_is_in_a_pool_or_in_use(ready: Cluster, how: str) -> None:
    aside(ready, "ignored")
    ready.pooled("a") if how == "pooled" else ready.used()
    ready.step()

    assert ready.pooling() == ("True", "Ready")


@pytest.mark.parametrize("opener", ["by hand", "ours"])
def test_a_gate_that_somebody_else_opened_is_closed_too(cluster: Cluster, opener: str) -> None:
    cluster.inventory(managed=False)
    labels = cluster.objects["Node", NODE]["metadata"]["labels"]
    labels[names.deploy_label("toolkit")] = "true" if opener == "ours" else "yes"
    cluster.step()

    assert names.deploy_label("toolkit") not in cluster.objects["Node", NODE]["metadata"]["labels"]


def test_until_inventory_has_spoken_nothing_is_done(ready: Cluster) -> None:
    inventory = ready.objects["GPUNodeInventory", NODE]
    del inventory["status"]["hw"]
    assert ready.plan().actions == ()
    inventory["status"] = {"hw": {"present": True, "devices": []}}
    assert ready.plan().actions == ()
    ready.objects["Node", NODE]["metadata"]["labels"][names.LABEL_PRESENT] = "true"
    ready.drop(resources.GPUNODEINVENTORY, NODE)
    assert ready.plan().actions == ()
    assert ready.gates() == COMPONENTS


def test_a_node_that_is_no_gpu_node_any_more_has_no_open_gate(ready: Cluster) -> None:
    ready.drop(resources.GPUNODEINVENTORY, NODE)
    ready.step()

    assert ready.gates() == []
    assert ready.plan().actions == ()


def test_a_node_that_is_gone_needs_nothing(ready: Cluster) -> None:
    ready.drop(resources.NODE, NODE)

    assert ready.plan().actions == ()


@pytest.mark.parametrize(
    ("happen", "reason", "said"),
    [
        (lambda c: c.node(ready=False), "NodeNotReady", "node worker-01 is not Ready"),
        (lambda c: c.silence(), "NoReport", "NodeFeature d8-gpu-operator/gpu-worker-01 is not there"),
        (lambda c: c.report(boot="another"), "ReportOutdated", "from before node worker-01 last started"),
        (lambda c: c.pod("discover", ready=False), "AgentNotReady", "no pod of gpu-nodeagent-discover is ready"),
    ],
)
def test_without_a_fresh_report_no_card_is_pooled_and_no_gate_closed(
    ready: Cluster, happen: Any, reason: str, said: str
) -> None:
    before = ready.status()["driver"]
    happen(ready)
    ready.step()
    # What a roll-out of the agent does is waited for; a node that is away or was rebooted is not.
    assert ready.pooling() == (("True", "Restarting") if reason in ("NoReport", "AgentNotReady") else ("False", reason))
    assert said in ready.message("ReadyForPooling")
    ready.now += ready.settings.bootstrap.restart_grace
    ready.step()

    assert ready.pooling() == ("False", reason)
    assert ready.condition("InfraDegraded") == ("True", reason)
    assert said in ready.message("ReadyForPooling")
    assert ready.gates() == COMPONENTS
    assert ready.status()["driver"] == before
    assert ready.plan().writes == ()


def test_a_boot_id_that_one_side_does_not_tell_is_no_reason_to_doubt(ready: Cluster) -> None:
    ready.node(boot="")

    assert ready.plan().writes == ()


def test_a_host_without_a_driver_is_told_so(cluster: Cluster) -> None:
    cluster.report(driver="")
    cluster.step()

    for kind, status in (("DriverMissing", "True"), ("ReadyForPooling", "False")):
        assert cluster.condition(kind) == (status, "DriverNotFound")
        assert "install the cards' driver on the host of node worker-01" in cluster.message(kind)
    assert cluster.condition("ToolkitMissing") == ("Unknown", "Waiting")


@pytest.mark.parametrize("installed", ["true", "false"])
def test_a_toolkit_that_the_administrator_brings_is_the_agents_to_find(cluster: Cluster, installed: str) -> None:
    cluster.settings = parse_settings({"bootstrap": {"toolkit": {"enabled": False}}})
    cluster.report(toolkit=installed)
    for _ in COMPONENTS:
        cluster.step()
        cluster.kubelet()
    cluster.step()

    assert "toolkit" not in cluster.gates()
    assert cluster.status()["bootstrap"]["toolkitReady"] is (installed == "true")
    wanted = ("True", "Ready") if installed == "true" else ("False", "ToolkitNotFound")
    assert cluster.condition("ReadyForPooling") == wanted
    assert cluster.condition("ToolkitMissing")[0] == ("False" if installed == "true" else "True")


def test_a_component_that_is_switched_off_loses_its_gate(ready: Cluster) -> None:
    ready.settings = parse_settings({"bootstrap": {"dcgm": {"enabled": False}, "dcgmExporter": {"enabled": False}}})
    ready.step()

    assert ready.gates() == ["driver-validator", "toolkit", "gfd", "validator"]
    assert ready.condition("MonitoringMissing") == ("False", "MonitoringNotChecked")
    assert ready.condition("ReadyForPooling") == ("True", "Ready")
    assert ready.status()["monitoring"] == {}


def test_a_component_beside_it_that_comes_and_goes_does_not_put_the_deadline_off(cluster: Cluster) -> None:
    for _ in COMPONENTS:
        cluster.step()
        cluster.kubelet()
    cluster.pod("validator", ready=False)
    cluster.step()
    for ready in (False, True, False):
        cluster.now += cluster.settings.bootstrap.phase_deadline / 3
        cluster.pod("gfd", ready=ready)
        cluster.step()

    assert cluster.condition("ReadyForPooling") == ("False", "ValidatorOverdue")


@pytest.mark.parametrize("at", range(len(PHASES)))
def test_past_its_deadline_a_component_is_called_overdue(cluster: Cluster, at: int) -> None:
    phase, deadline = PHASES[at], cluster.settings.bootstrap.phase_deadline
    for component in COMPONENTS[:at]:
        cluster.pod(component)
    made = cluster.step()
    assert cluster.condition("ReadyForPooling") == ("False", phase.not_ready)
    assert made.requeue_after == pytest.approx(deadline, abs=1)

    cluster.now += deadline - 1
    assert cluster.plan().writes == ()
    assert cluster.plan().requeue_after == pytest.approx(1, abs=0.1)
    cluster.now += 1
    cluster.step()
    assert cluster.condition("ReadyForPooling") == ("False", phase.overdue)
    assert cluster.condition(phase.condition) == ("True", phase.overdue)
    assert "should be after 600 s" in cluster.message("ReadyForPooling")
    assert cluster.plan().actions == ()
    assert cluster.plan().requeue_after is None

    cluster.pod(phase.name)
    cluster.step()
    assert cluster.condition(phase.condition)[0] != "True"
    assert cluster.condition("ReadyForPooling")[1] != phase.overdue


def test_the_deadline_counts_from_the_last_step_forward(cluster: Cluster) -> None:
    cluster.step()
    cluster.now += 599
    cluster.pod("driver-validator")
    cluster.step()
    cluster.now += 599
    cluster.step()
    assert cluster.condition("ReadyForPooling") == ("False", "ToolkitNotReady")
    cluster.now += 1
    cluster.step()
    assert cluster.condition("ReadyForPooling") == ("False", "ToolkitOverdue")


def test_stages_are_told_and_clocks_go_on_by_them(cluster: Cluster) -> None:
    cluster.step()
    told = cluster.status()["bootstrap"]
    assert (told["stage"], told["component"]) == ("Component", "driver-validator")
    assert "kept" not in told


def test_why_a_node_stays_in_service_is_told(ready: Cluster) -> None:
    assert ready.status()["bootstrap"]["stage"] == "Ready"
    ready.pod("toolkit", ready=False)
    ready.step()
    told = ready.status()["bootstrap"]
    assert (told["stage"], told["component"], told["kept"]) == ("Component", "toolkit", "Restarting")


@pytest.mark.parametrize("late", [False, True])
def test_a_clock_that_an_earlier_version_began_goes_on(cluster: Cluster, late: bool) -> None:
    """It said in the reason alone what it waited for."""
    cluster.step()
    if late:
        cluster.now += 600
        cluster.step()
    began = cluster.status()["bootstrap"]["lastRun"]
    with cluster.edit("GPUNodeInventory", NODE) as inventory:
        del inventory["status"]["bootstrap"]["stage"], inventory["status"]["bootstrap"]["component"]
    cluster.now += 100
    cluster.step()

    assert cluster.status()["bootstrap"]["lastRun"] == began
    assert cluster.status()["bootstrap"]["stage"] == "Component"


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_fails_later_takes_the_cards_out_unless_it_only_labels(ready: Cluster, component: str) -> None:
    phase = next(phase for phase in PHASES if phase.name == component)
    ready.now += 86_400
    if phase.condition == "MonitoringMissing":
        ready.answers[NODE] = False
    ready.pod(component, ready=False)
    ready.step()
    if phase.essential:
        assert ready.pooling() == ("True", "Restarting")
    ready.now += ready.settings.bootstrap.restart_grace
    ready.step()

    assert ready.gates() == COMPONENTS
    if component == "gfd":
        assert ready.pooling() == ("True", "Ready")
        assert ready.condition("InfraDegraded") == ("True", "GfdNotReady")
    else:
        assert ready.pooling() == ("False", phase.not_ready)
    assert ready.plan().writes == ()


def test_last_run_moves_only_when_something_changes(ready: Cluster) -> None:
    before = ready.status()["bootstrap"]["lastRun"]
    ready.now += 100
    ready.report(driver="590.1")
    ready.step()
    assert ready.status()["driver"]["version"] == "590.1"
    assert ready.status()["bootstrap"]["lastRun"] == before
    ready.pod("toolkit", ready=False)
    ready.step()
    assert ready.status()["bootstrap"]["lastRun"] > before


def test_a_time_that_was_noted_while_the_clock_was_ahead_puts_no_deadline_off(ready: Cluster) -> None:
    ready.now += 900.0
    ready.pod("toolkit", ready=False)
    ready.step()
    ready.now -= 900.0  # the clock is set right
    ready.step()
    assert ready.plan().writes == ()
    ready.now += ready.settings.bootstrap.restart_grace
    ready.step()

    assert ready.pooling() == ("False", "ToolkitNotReady")


def test_a_card_that_is_lost_is_faulted_and_returns(ready: Cluster) -> None:
    ready.device("Complete")
    assert ready.plan().writes == ()
    ready.device(names.REASON_CARD_LOST)
    ready.step()
    conditions = {c["type"]: c for c in ready.objects["GPUDevice", DEVICE]["status"]["conditions"]}
    assert (conditions["Faulted"]["status"], conditions["Faulted"]["reason"]) == ("True", "CardLost")
    assert conditions["InventoryIncomplete"]["reason"] == names.REASON_CARD_LOST
    assert ready.plan().writes == ()

    ready.device("Complete")
    ready.step()
    conditions = {c["type"]: c for c in ready.objects["GPUDevice", DEVICE]["status"]["conditions"]}
    assert (conditions["Faulted"]["status"], conditions["Faulted"]["reason"]) == ("False", "CardBack")
    assert ready.plan().writes == ()


@pytest.mark.parametrize("reason", ["AttributesMissing", "AwaitingReport"])
def test_a_card_that_is_only_incomplete_is_not_faulted(ready: Cluster, reason: str) -> None:
    ready.device(reason)

    assert ready.plan().writes == ()


def test_every_message_names_the_node(cluster: Cluster) -> None:
    cluster.step()

    for kind in KINDS:
        assert NODE in cluster.message(kind)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-45T00:00:00Z"])
def test_a_clock_that_cannot_be_read_starts_anew(cluster: Cluster, text: str) -> None:
    cluster.step()
    cluster.status()["bootstrap"]["lastRun"] = text
    cluster.now += 86_400
    cluster.step()

    assert cluster.condition("ReadyForPooling") == ("False", "DriverValidatorNotReady")
    assert cluster.plan().writes == ()
