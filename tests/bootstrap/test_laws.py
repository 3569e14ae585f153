"""The laws of the planners, on many histories: they come to rest, and may die anywhere."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.components import HOLDING_GPU_OPEN, VALIDATOR
from controllers.api.driver_work import CLOSED, OUT_OF_SERVICE, Phase
from controllers.api.settings import parse_settings
from controllers.api.validation import FAILED, OK, ROLES, UNKNOWN
from controllers.bootstrap.preparation import phases
from controllers.bootstrap.readiness.conditions import CONDITIONS
from controllers.domain.clock import seconds, stamp
from controllers.domain.driver.node_work import work_on
from controllers.domain.report import is_of_this_boot
from controllers.runtime.plan import Apply, Merge
from tests.bootstrap.world import COMPONENTS, DEVICE, NODE, SAMPLES, Lived, address, device_name
from tests.test_docs_conditions import rows

if TYPE_CHECKING:
    from collections.abc import Callable

REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""What the API server takes as a reason of a condition."""
DOCUMENTED = rows()
TROUBLES = {reason for kind, status, reason in DOCUMENTED if kind in CONDITIONS and status != "False"}
TROUBLES -= {"Blind", "Waiting"}
"""What may keep a node out of service: neither our blindness nor that something else comes first."""

boots = st.sampled_from(["", "boot-1", "boot-2"])
words = st.text(max_size=20) | st.sampled_from(["true", "false", "580.65.06", "418.40"])
results = st.sampled_from([OK, FAILED, UNKNOWN, "", "ok?"])
reasons = st.text(max_size=70).map(lambda text: f"{text}!") | st.sampled_from(["LibraryMismatch", "CardLost", ""])
cards = st.sampled_from(["", address(0), f"{address(1)},{address(0)}", "nonsense"])
boards = st.sampled_from(["20b0", "2330", "ffff"])  # reset for MIG, not reset, unknown
happenings = st.one_of(
    st.tuples(st.just("node"), st.booleans(), boots),
    st.tuples(st.just("report"), words, words, words, boots),
    st.tuples(st.just("silence")),
    st.tuples(st.just("inventory"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("pod"), st.sampled_from([*COMPONENTS, "discover"]), st.booleans()),
    st.tuples(st.just("kubelet")),
    st.tuples(st.just("device"), st.sampled_from(["Complete", "AttributesMissing", names.REASON_CARD_LOST])),
    st.tuples(st.just("label"), st.sampled_from(COMPONENTS), words),
    st.tuples(st.just("switch"), st.sampled_from(COMPONENTS), st.booleans()),
    st.tuples(st.just("later"), st.sampled_from([0.5, 30.0, 59.0, 61.0, 599.0, 601.0])),
    st.tuples(st.just("answers"), st.sampled_from([True, False, None])),
    st.tuples(st.just("blind"), st.booleans()),
    st.tuples(st.just("hear"), st.sampled_from(sorted(SAMPLES)), st.sampled_from([1, 3, 20])),
    st.tuples(st.just("verdict"), st.sampled_from(ROLES), results, reasons, cards, boots),
    st.tuples(st.just("pool"), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("used")),
    st.tuples(st.just("mig"), st.sampled_from(["Waiting", "Applying", "Done", "Failed", None]), boards),
    st.tuples(st.just("annotation"), st.sampled_from(["true", "false"])),
    st.tuples(st.just("neighbour"), st.booleans(), st.booleans()),
    st.tuples(st.just("module"), st.booleans()),
    st.tuples(st.just("percent"), st.sampled_from([1, 20, 50, 100])),
    st.tuples(st.just("restart")),
    st.tuples(
        st.just("driver"), st.none() | st.sampled_from(get_args(Phase)), st.sampled_from([None, -99.0, 300.0, 900.0])
    ),
)
NEIGHBOUR = "worker-02"


def happen(cluster: Lived, what: tuple[Any, ...]) -> None:  # noqa: C901, PLR0912, PLR0915 - a list of happenings
    match what:
        case ("node", ready, boot):
            cluster.node(ready=ready, boot=boot)
        case ("report", driver, cuda, toolkit, boot):
            cluster.report(driver=driver, cuda=cuda, toolkit=toolkit, boot=boot)
        case ("silence",):
            cluster.silence()
        case ("inventory", cards, managed):
            cluster.inventory(cards=cards, managed=managed)
        case ("pod", component, ready):
            cluster.pod(component, ready=ready)
        case ("kubelet",):
            cluster.kubelet()
        case ("device", reason):
            cluster.device(reason)
        case ("label", component, value):
            cluster.objects["Node", NODE]["metadata"]["labels"][names.deploy_label(component)] = value
        case ("switch", component, on):
            key = {"driver-validator": "driverValidator", "dcgm-exporter": "dcgmExporter"}.get(component, component)
            percent = cluster.settings.health.max_unavailable_percent
            values = {"bootstrap": {key: {"enabled": on}}, "health": {"maxUnavailablePercent": percent}}
            cluster.settings = parse_settings(values)
        case ("later", seconds):
            cluster.now += seconds
        case ("answers", ready):
            cluster.answers[NODE] = ready
        case ("restart",):
            cluster.restart()
        case ("blind", blind):
            cluster.blind = blind
        case ("hear", sample, times):
            cluster.hear(sample, times=times)
        case ("verdict", role, result, reason, failed, boot):
            told = {"reason": reason, "message": "m", "cards_failed": failed, "boot_id": boot}
            cluster.verdict(role, result, **told)
        case ("pool", pool):
            cluster.pooled(pool)
        case ("used",):
            cluster.used()
        case ("mig", phase, board):
            cluster.mig(phase, board=board)
        case ("annotation", value):
            cluster.device()
            cluster.objects["GPUDevice", DEVICE]["metadata"]["annotations"][names.RETURN] = value
        case ("neighbour", out, faulted):
            neighbour(cluster, out=out, faulted=faulted)
        case ("module", enabled):
            cluster.enabled = enabled
        case ("driver", phase, limit):
            drive(cluster, phase, limit)
        case ("percent", share):
            cluster.settings = replace(
                cluster.settings, health=replace(cluster.settings.health, max_unavailable_percent=share)
            )


def drive(cluster: Lived, phase: str | None, limit: float | None) -> None:
    """What gpu-driver-controller says that it does, for so many seconds."""
    uid = cluster.objects["Node", NODE]["metadata"].get("uid", "")
    told = {"driver": "a", "phase": phase, "since": stamp(cluster.now), "nodeUID": uid, "reason": "R", "message": "m"}
    if limit is not None:
        told["deadline"] = stamp(cluster.now + limit)
    cluster.status()["driverWork"] = told if phase else None


def neighbour(cluster: Lived, *, out: bool, faulted: bool) -> None:
    """Another node with a card of pool `a`, in service or not: what fills the fuse."""
    cluster.inventory(on=NEIGHBOUR)
    pooling = {"type": "ReadyForPooling", "status": str(not out), "reason": "X"}
    cluster.status(NEIGHBOUR)["conditions"].append(pooling)
    cluster.pooled("a", on=NEIGHBOUR)
    conditions = cluster.objects["GPUDevice", device_name(NEIGHBOUR)]["status"]["conditions"]
    conditions[:] = [one for one in conditions if one["type"] != "Faulted"]
    conditions.append({"type": "Faulted", "status": str(faulted), "reason": "X"})


def fresh() -> Lived:
    cluster = Lived()
    cluster.node()
    cluster.report()
    cluster.inventory()
    cluster.device()
    cluster.pod("discover")
    return cluster


def prepared() -> Lived:
    cluster = Lived()
    cluster.prepare()
    cluster.pooled("a")
    return cluster


starts = st.sampled_from([fresh, prepared])


def comes_to_rest(cluster: Lived) -> None:
    """A plan that was carried out leaves nothing to do, but for what its own writes mean elsewhere.

    A node tells of pods on a card that was faulted, and a person's command is taken away once it was obeyed. None of
    this opens a gate, and none of it goes on.
    """
    for _ in range(2):
        made = cluster.plan()
        for action in made.writes:
            assert isinstance(action, (Apply, Merge))
            assert action.ref.resource.kind in ("GPUNodeInventory", "GPUDevice"), made
            assert isinstance(action, Apply) or cluster.annotations().get(names.RETURN) == "true", made
        cluster.step()
    assert cluster.plan().actions == ()
    assert cluster.plan_anew().actions == (), "a process that starts goes on where one that lived on has come to rest"


@pytest.mark.slow("300 stories of up to 15 happenings, each played until it rests")
@settings(max_examples=300, deadline=None)
@given(starts, st.lists(st.tuples(happenings, st.none() | st.integers(0, 2)), min_size=1, max_size=15))
def test_they_come_to_rest_whatever_happens_and_wherever_they_die(
    start: Callable[[], Lived], history: list[tuple[Any, int | None]]
) -> None:
    cluster = start()
    for what, dies_after in history:
        happen(cluster, what)
        cluster.step(stop_after=dies_after)
        if dies_after is None:
            comes_to_rest(cluster)


@settings(max_examples=200, deadline=None)
@given(starts, st.lists(happenings, max_size=10), happenings, st.integers(0, 3))
def test_dying_at_any_write_leads_to_the_same_end(
    start: Callable[[], Lived], before: list[Any], what: Any, dies_after: int
) -> None:
    cluster = start()
    for one in before:
        happen(cluster, one)
        cluster.step()
    happen(cluster, what)
    other = copy.deepcopy(cluster)
    cluster.step()
    comes_to_rest(cluster)
    other.step(stop_after=dies_after)
    other.step()
    comes_to_rest(other)

    assert other.end() == cluster.end()


@settings(max_examples=200, deadline=None)
@given(starts, st.lists(happenings, max_size=20))
def test_ready_means_that_everything_is_or_was_a_moment_ago(start: Callable[[], Lived], history: list[Any]) -> None:
    cluster = start()
    since = cluster.now  # when the node was last in order, or left service
    for what in history:
        happen(cluster, what)
        made = cluster.step()
        seen = cluster.view().node(NODE)
        status, reason = cluster.pooling()
        if status != "True":
            since = cluster.now
            if reason.endswith("NotReady") and reason not in ("NodeNotReady", "AgentNotReady"):
                assert made.requeue_after is not None  # nothing waits without a deadline
            continue
        assert cluster.enabled
        assert cluster.condition("ManagedDisabled")[0] == "False"
        assert cluster.status()["hw"]["devices"]
        if reason == "Held":
            # Silence is held, and never what the agent has shown since the node started.
            told = seen.report is not None and seen.node is not None and is_of_this_boot(seen.report, seen.node)
            assert not told or cluster.condition("DriverMissing") != ("True", "DriverNotFound")
            continue
        assert seen.node is not None
        assert seen.node.ready
        needed = set(cluster.gates()) - {"gfd"}
        if cluster.answers.get(NODE):
            needed -= {"dcgm", "dcgm-exporter"}
        whole = seen.agent_ready and seen.report is not None and needed <= seen.ready
        if reason == "Ready":
            assert whole
            assert cluster.condition("DriverMissing")[0] != "True"
            since = cluster.now
        elif reason == "Preparing":  # a gate was opened on a ready node, perhaps again and again
            since = cluster.now
            assert made.requeue_after is not None
            assert made.requeue_after <= cluster.settings.bootstrap.phase_deadline
        elif reason == "MigWork":
            assert cluster.status()["bootstrap"]["suspended"] is True
            assert cluster.now - since < 601 + cluster.settings.bootstrap.phase_deadline  # a leap, and its deadline
            assert made.requeue_after is not None
            assert made.requeue_after <= cluster.settings.bootstrap.phase_deadline
        else:
            assert reason == "Restarting"
            assert cluster.now - since < 601 + cluster.settings.bootstrap.restart_grace  # a leap, and the grace
            assert made.requeue_after is not None
            assert made.requeue_after <= cluster.settings.bootstrap.restart_grace


@settings(max_examples=200, deadline=None)
@given(starts, st.lists(happenings, max_size=20))
def test_what_is_said_is_in_order(start: Callable[[], Lived], history: list[Any]) -> None:
    """Reasons and gates, after each plan."""
    cluster = start()
    for what in history:
        happen(cluster, what)
        opened = set(cluster.gates())
        cluster.step()
        conditions = {one["type"]: one for one in cluster.status()["conditions"]}
        for kind in (*CONDITIONS, kinds.DEGRADED_WORKLOADS, kinds.READY_FOR_POOLING):
            one = conditions[kind]
            assert REASON.fullmatch(one["reason"]), one
            # ReadyForPooling is False with the reason of another condition's row.
            of_another = (kind, one["status"]) == (kinds.READY_FOR_POOLING, "False") and one["reason"] in TROUBLES
            assert of_another or (kind, one["status"], one["reason"]) in DOCUMENTED, one
            assert one["message"]
        pooling = conditions["ReadyForPooling"]
        ours = ("Held", "Restarting", "Preparing", "MigWork", "Ready")
        assert pooling["reason"] not in ours or pooling["status"] == "True"
        card = cluster.faulted() if ("GPUDevice", DEVICE) in cluster.objects else None
        if card is not None:
            assert ("Faulted", *card) in DOCUMENTED
        opens(cluster, opened)
        rests(cluster)
        follows_the_driver(cluster)


def opens(cluster: Lived, opened: set[str]) -> None:
    """A gate that was opened now has everything before it ready; answers vouch for dcgm and the exporter."""
    ready = set(cluster.view().node(NODE).ready) | ({"dcgm", "dcgm-exporter"} if cluster.answers.get(NODE) else set())
    running = [phase.name for phase in phases.enabled(cluster.settings.bootstrap)]
    for component in set(cluster.gates()) - opened:
        assert set(running[: running.index(component)]) <= ready


def rests(cluster: Lived) -> None:
    """The preparation is suspended only while a card is worked on, and only then are its clients' gates closed."""
    told = cluster.status()["bootstrap"]
    suspended = told.get("suspended")
    assert not suspended or cluster.now - seconds(told["lastRun"]) < cluster.settings.bootstrap.phase_deadline
    apply = cluster.objects.get(("GPUDevice", DEVICE), {}).get("status", {}).get("migApply") or {}
    if apply.get("phase") not in ("Waiting", "Applying"):
        assert suspended is None
    assert not suspended or VALIDATOR not in cluster.gates()
    if suspended and cluster.board() != "2330":
        assert not set(cluster.gates()) & HOLDING_GPU_OPEN
        assert cluster.pooling()[1] != "Ready"


def follows_the_driver(cluster: Lived) -> None:
    """A node whose driver is changed is out of service, its clients' gates are closed, and it counts in no fuse."""
    inventory = cluster.view().inventories.get(NODE)
    assert inventory is not None
    node = cluster.view().nodes.get(NODE)
    assert node is not None
    work = work_on(inventory.status.driver_work, node, cluster.now)
    told = cluster.status()["bootstrap"]
    assert (told["stage"] == "DriverWork") == (work.is_out and told["stage"] != "NotWanted")
    if work.is_out:
        assert work.work is not None
        assert work.work.phase in OUT_OF_SERVICE
        assert cluster.pooling()[0] == "False"
        assert not told.get("disrupted")
        assert work.work.phase not in CLOSED or not set(cluster.gates()) & HOLDING_GPU_OPEN
    if work.is_planned:
        assert NODE not in cluster.view().fleet(cluster.now)[1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(COMPONENTS), st.booleans()), max_size=6), st.integers(0, 8))
def test_components_come_to_rest_from_any_prefix(switches: list[tuple[str, bool]], dies_after: int) -> None:
    cluster = fresh()
    for component, on in switches:
        happen(cluster, ("switch", component, on))
        cluster.execute(cluster.plan_components().actions, names.MANAGER_BOOTSTRAP, dies_after)
    cluster.execute(cluster.plan_components().actions, names.MANAGER_BOOTSTRAP)

    assert cluster.plan_components().actions == ()
    wanted = {f"gpu-{c}" for c in COMPONENTS if not switches or (c, False) != switches[-1]}
    assert {name.split("/")[1] for kind, name in cluster.objects if kind == "DaemonSet"} == wanted
    assert resources.RUNTIMECLASS.kind in {kind for kind, _ in cluster.objects}
