"""What keeps a node's cards out of pools: in which order it is told, and each way there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.api.validation import CONTAINER, DRIVER, FAILED, OK, UNKNOWN
from tests.bootstrap.world import COMPONENTS, NODE, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE = 60.0
MONITORING = ("dcgm", "dcgm-exporter")


@pytest.fixture
def ready() -> Cluster:
    made = Cluster()
    made.prepare()
    return made


def off(*components: str) -> Any:
    return parse_settings({"bootstrap": {component: {"enabled": False} for component in components}})


def break_everything(cluster: Cluster) -> list[tuple[str, Callable[[Cluster], Any]]]:
    """Everything that can be wrong with a node at once, in the order in which it is told, and how it is mended."""
    cluster.settings, cluster.enabled = off("toolkit"), False
    cluster.inventory(cards=0, managed=False)
    cluster.report(driver="", cuda="", toolkit="false", boot="old")
    cluster.verdict(DRIVER, FAILED, reason="LibraryMismatch", message="half upgraded")
    cluster.verdict(CONTAINER, FAILED, reason="DevicesMissing", message="no card")
    cluster.node(ready=False)
    cluster.pod("discover", ready=False)
    for component in COMPONENTS:
        cluster.pod(component, ready=False)
    cluster.answers[NODE] = False
    return [
        ("ModuleDisabled", lambda c: setattr(c, "enabled", True)),
        ("NotManaged", lambda c: c.inventory(cards=0)),
        ("NoCards", lambda c: c.inventory()),
        ("NodeNotReady", lambda c: c.node()),
        ("ReportOutdated", lambda c: c.report(driver="", toolkit="false")),
        ("DriverNotFound", lambda c: c.report(driver="418.40", cuda="9.1", toolkit="false")),
        ("DriverTooOld", lambda c: c.report(cuda="9.1", toolkit="false")),
        ("CudaTooOld", lambda c: c.report(toolkit="false")),
        ("ToolkitNotFound", lambda c: c.report()),
        ("LibraryMismatch", lambda c: c.verdict(DRIVER, OK)),
        ("DevicesMissing", lambda c: c.verdict(CONTAINER, OK)),
        ("AgentNotReady", lambda c: c.pod("discover")),  # what its agent has shown of the node stands meanwhile
        ("DriverValidatorNotReady", lambda c: c.pod("driver-validator")),
        ("DcgmNotReady", lambda c: c.pod("dcgm")),
        ("DcgmExporterNotReady", lambda c: c.pod("dcgm-exporter")),
        ("ValidatorNotReady", lambda c: c.pod("validator")),
        ("HeartbeatMissing", lambda c: c.answers.update({NODE: None})),
        ("HeartbeatAwaited", lambda c: c.answers.update({NODE: True})),
        ("Ready", lambda _: None),
    ]


def test_of_many_troubles_the_first_in_order_is_told(ready: Cluster) -> None:
    ready.settings = parse_settings({"health": {"maxUnavailablePercent": 100}})
    told = []
    steps = break_everything(ready)
    for _, mend in steps:
        ready.step()
        told.append(ready.pooling()[1])
        assert ready.plan().writes == ()
        ready.pod("gfd")
        mend(ready)

    # GFD is ready throughout: it keeps no card out.
    assert told == [reason for reason, _ in steps]


def test_a_report_that_is_not_there_is_told_before_what_it_would_say(ready: Cluster) -> None:
    ready.silence()
    ready.pod("discover", ready=False)
    ready.step()
    ready.now += GRACE
    ready.step()

    assert ready.pooling() == ("False", "NoReport")
    for kind in ("DriverMissing", "DriverOutdated", "CudaOutdated", "ToolkitMissing"):
        assert ready.condition(kind) == ("Unknown", "NoReport")


# --- versions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "changes", "reason", "expected"),
    [
        ("DriverOutdated", {"driver": "515.105.01"}, "DriverTooOld", "Hopper (compute capability 9.0) needs 520"),
        ("CudaOutdated", {"cuda": "11.7"}, "CudaTooOld", "Hopper (compute capability 9.0) needs 11.8"),
    ],
)
def test_what_is_too_old_for_the_cards_keeps_them_out(
    ready: Cluster, kind: str, changes: dict[str, str], reason: str, expected: str
) -> None:
    word = kind.removesuffix("Outdated")
    assert ready.condition(kind) == ("False", f"{word}NewEnough")
    ready.report(**changes)
    ready.step()
    assert ready.condition(kind) == ("True", reason)
    assert ready.pooling() == ("False", reason)  # at once: no pod is away
    assert expected in ready.message(kind)
    assert next(iter(changes.values())) in ready.message(kind)
    assert NODE in ready.message(kind)
    assert ready.plan().writes == ()

    ready.report(driver="520.0", cuda="11.8")
    ready.step()
    assert ready.condition(kind) == ("False", f"{word}NewEnough")
    assert ready.pooling() == ("True", "Ready")


@pytest.mark.parametrize(("kind", "key"), [("DriverOutdated", "driver"), ("CudaOutdated", "cuda")])
@pytest.mark.parametrize("found", ["", "five", "580-open"])
def test_a_version_that_is_none_is_unknown(ready: Cluster, kind: str, key: str, found: str) -> None:
    ready.report(**{key: found})  # type: ignore[arg-type]
    ready.step()

    assert ready.condition(kind) == ("Unknown", f"{kind.removesuffix('Outdated')}VersionUnknown")
    # What no version is known of is not called too old; without a driver there are no cards to pool.
    assert ready.pooling()[1] == ("DriverNotFound" if (key, found) == ("driver", "") else "Ready")


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"version": "580.65.06", "cuda_version": "13.0"}, ("False", "CudaNewEnough")),
        ({"version": "580.65.06", "cuda_version": "9.1"}, ("True", "CudaTooOld")),
        ({"version": "570.1", "cuda_version": "13.0"}, ("Unknown", "CudaVersionUnknown")),
        ({"cuda_version": "13.0"}, ("Unknown", "CudaVersionUnknown")),
        ({"version": "580.65.06", "cuda_version": "13.0", "boot_id": "another"}, ("Unknown", "CudaVersionUnknown")),
    ],
)
def test_what_discover_cannot_ask_nvml_told_the_validator_of_the_same_driver(
    ready: Cluster, told: dict[str, str], found: tuple[str, str]
) -> None:
    ready.report(cuda="")
    ready.verdict(CONTAINER, OK, **told)
    ready.step()
    assert ready.condition("CudaOutdated") == found
    known = ready.status()["driver"].get("cudaVersion")
    assert known == (told["cuda_version"] if found[0] != "Unknown" else None)


def test_a_card_of_which_nothing_is_known_asks_for_nothing(ready: Cluster) -> None:
    ready.device(hardware=None)
    ready.report(driver="1.0", cuda="1.0")
    ready.step()

    assert ready.condition("DriverOutdated") == ("False", "NoDriverMinimum")
    assert ready.condition("CudaOutdated") == ("False", "NoCudaMinimum")
    assert ready.pooling() == ("True", "Ready")


# --- the validators' verdicts ---------------------------------------------------------------------

ROLES = [(DRIVER, "DriverMissing", "DriverReady"), (CONTAINER, "InfraDegraded", "Healthy")]


@pytest.mark.parametrize(("role", "kind", "well"), ROLES)
def test_a_failed_check_keeps_the_cards_out_in_its_own_words(ready: Cluster, role: str, kind: str, well: str) -> None:
    ready.verdict(role, FAILED, reason="LibraryMismatch", message="libcuda is 570, the module 580; reboot the node")
    ready.step()
    assert ready.condition(kind) == ("True", "LibraryMismatch")
    assert ready.pooling() == ("False", "LibraryMismatch")
    assert f"{NODE} failed: libcuda is 570, the module 580; reboot the node" in ready.message("ReadyForPooling")
    assert ready.status()["bootstrap"]["validated"] is (role == DRIVER)
    assert ready.plan().writes == ()

    ready.verdict(role, OK)
    ready.step()
    assert ready.condition(kind) == ("False", well)
    assert ready.pooling() == ("True", "Ready")
    assert ready.status()["bootstrap"]["validated"] is True


@pytest.mark.parametrize(("role", "kind", "well"), ROLES)
@pytest.mark.parametrize("told", [{"boot_id": "another"}, {"result": UNKNOWN}, {"result": "passed?"}])
def test_a_verdict_of_another_boot_or_none_says_nothing(
    ready: Cluster, role: str, kind: str, well: str, told: dict[str, str]
) -> None:
    words = {"result": FAILED, "reason": "CardLost", "message": "gone", **told}
    ready.verdict(role, words.pop("result"), **words)

    assert ready.plan().writes == ()
    assert ready.condition(kind) == ("False", well)


def test_a_failed_check_of_this_boot_counts(ready: Cluster) -> None:
    boot = ready.objects["Node", NODE]["status"]["nodeInfo"]["bootID"]
    ready.verdict(DRIVER, FAILED, reason="CardLost", message="gone", boot_id=boot)
    ready.step()

    assert ready.pooling() == ("False", "CardLost")


@pytest.mark.parametrize("word", ["", "two words", "ümläut", "9lives", "x" * 64, 'a"b', "Card_Lost"])
@pytest.mark.parametrize(("role", "kind", "_"), ROLES)
def test_a_reason_that_no_condition_takes_is_called_a_failed_check(
    ready: Cluster, role: str, kind: str, _: str, word: str
) -> None:
    ready.verdict(role, FAILED, reason=word, message="m" * 5000)
    ready.step()

    assert ready.condition(kind) == ("True", "CheckFailed")
    assert ready.pooling() == ("False", "CheckFailed")
    assert len(ready.message(kind)) < 1000


@pytest.mark.parametrize(("role", "component"), [(DRIVER, "driverValidator"), (CONTAINER, "validator")])
def test_a_validator_that_is_switched_off_says_nothing(ready: Cluster, role: str, component: str) -> None:
    ready.settings = off(component)
    ready.verdict(role, FAILED, reason="CardLost", message="what it said before")
    ready.step()

    assert ready.pooling() == ("True", "Ready")


# --- monitoring -----------------------------------------------------------------------------------


def test_monitoring_is_awaited_then_ready_then_missing_with_what_was_found(ready: Cluster) -> None:
    ready.inventory(managed=False)
    ready.step()
    ready.kubelet()
    ready.inventory()
    for _ in COMPONENTS:
        ready.step()
        ready.kubelet()
    ready.answers[NODE] = None
    ready.step()
    assert ready.condition("MonitoringMissing") == ("Unknown", "HeartbeatAwaited")
    assert ready.pooling() == ("False", "HeartbeatAwaited")
    assert ready.plan().writes == ()

    ready.answers[NODE] = True
    ready.step()
    assert ready.condition("MonitoringMissing") == ("False", "MonitoringReady")
    assert ready.pooling() == ("True", "Ready")
    assert ready.status()["monitoring"]["dcgmReady"] is True

    ready.answers[NODE], ready.found = False, "HTTP 503: starting"
    ready.step()
    assert ready.condition("MonitoringMissing") == ("True", "HeartbeatMissing")
    assert ready.pooling() == ("False", "HeartbeatMissing")
    assert "no fresh values: HTTP 503: starting; see kubectl" in ready.message("MonitoringMissing")
    assert ready.status()["monitoring"]["dcgmReady"] is False
    assert ready.plan().writes == ()

    ready.answers[NODE], ready.found = True, ""
    ready.step()
    assert ready.pooling() == ("True", "Ready")


def test_an_exporter_that_is_switched_on_may_be_silent_at_first_on_a_ready_node(ready: Cluster) -> None:
    ready.settings = off("dcgmExporter")
    ready.step()
    ready.kubelet()
    assert ready.condition("MonitoringMissing") == ("False", "MonitoringReady")  # dcgm alone
    assert ready.status()["monitoring"] == {}
    ready.settings = parse_settings({})
    ready.step()
    ready.kubelet()
    ready.answers[NODE] = None
    ready.step()
    assert ready.pooling() == ("True", "Preparing")
    assert ready.condition("MonitoringMissing") == ("Unknown", "HeartbeatAwaited")

    ready.answers[NODE] = True
    ready.step()
    assert ready.pooling() == ("True", "Ready")


def test_when_we_are_blind_nothing_is_known_and_the_node_stays(ready: Cluster) -> None:
    ready.blind = True
    made = ready.step()
    assert ready.condition("MonitoringMissing") == ("Unknown", "Blind")
    assert names.BOOTSTRAP in ready.message("MonitoringMissing")
    assert ready.pooling() == ("True", "Ready")
    assert len(made.writes) == 1
    ready.now += 86_400
    assert ready.plan().writes == ()

    ready.blind = False
    ready.step()
    assert ready.condition("MonitoringMissing") == ("False", "MonitoringReady")


@pytest.mark.parametrize("component", MONITORING)
def test_answers_vouch_for_the_pods_of_monitoring(ready: Cluster, component: str) -> None:
    ready.pod(component, ready=False)
    assert ready.plan().writes == ()
    ready.now += 86_400
    assert ready.plan().writes == ()
    assert ready.condition("MonitoringMissing") == ("False", "MonitoringReady")
    assert ready.pooling() == ("True", "Ready")


def test_without_answers_the_pod_that_is_away_is_named(ready: Cluster) -> None:
    ready.pod("dcgm", ready=False)
    ready.answers[NODE] = None
    ready.step()

    assert ready.pooling() == ("True", "Restarting")
    assert ready.condition("MonitoringMissing") == ("Unknown", "DcgmNotReady")


# --- workloads ------------------------------------------------------------------------------------


def test_pods_on_cards_that_are_out_of_service_are_told(ready: Cluster) -> None:
    ready.used()
    ready.step()
    assert ready.condition("DegradedWorkloads") == ("False", "None")

    ready.report(driver="")
    ready.step()
    assert ready.condition("DegradedWorkloads") == ("True", "NodeNotInService")
    assert f"{NODE}-0000-17-00-0" in ready.message("DegradedWorkloads")
    assert "install the cards' driver" in ready.message("DegradedWorkloads")
    ready.report()
    ready.step()
    assert ready.condition("DegradedWorkloads") == ("False", "None")

    ready.hear("well")
    ready.hear("xid")
    ready.step()
    ready.step()  # the condition of the card is written first
    assert ready.faulted() == ("True", "CriticalXid")
    assert ready.condition("DegradedWorkloads") == ("True", "CardFaulted")
    ready.hear("well", times=20)
    ready.step()
    ready.step()
    assert ready.faulted() == ("False", "Recovered")
    assert ready.condition("DegradedWorkloads") == ("False", "None")


def test_a_node_that_only_restarts_degrades_no_workload(ready: Cluster) -> None:
    ready.used()
    ready.pod("toolkit", ready=False)
    ready.step()

    assert ready.pooling() == ("True", "Restarting")
    assert ready.condition("DegradedWorkloads") == ("False", "None")
