"""The laws of the planners, on many histories: they come to rest, and may die anywhere."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names, resources
from controllers.api.settings import parse_settings
from tests.bootstrap.world import COMPONENTS, NODE, Cluster

boots = st.sampled_from(["", "boot-1", "boot-2"])
words = st.text(max_size=20) | st.sampled_from(["true", "false", "580.65.06"])
happenings = st.one_of(
    st.tuples(st.just("node"), st.booleans(), boots),
    st.tuples(st.just("report"), words, words, boots),
    st.tuples(st.just("silence")),
    st.tuples(st.just("inventory"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("pod"), st.sampled_from([*COMPONENTS, "discover"]), st.booleans()),
    st.tuples(st.just("kubelet")),
    st.tuples(st.just("device"), st.sampled_from(["Complete", "AttributesMissing", names.REASON_CARD_LOST])),
    st.tuples(st.just("label"), st.sampled_from(COMPONENTS), words),
    st.tuples(st.just("switch"), st.sampled_from(COMPONENTS), st.booleans()),
    st.tuples(st.just("later"), st.sampled_from([0.5, 30.0, 599.0, 601.0])),
)


def happen(cluster: Cluster, what: tuple[Any, ...]) -> None:  # noqa: C901 - a list of happenings
    match what:
        case ("node", ready, boot):
            cluster.node(ready=ready, boot=boot)
        case ("report", driver, toolkit, boot):
            cluster.report(driver=driver, toolkit=toolkit, boot=boot)
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
            cluster.settings = parse_settings({"bootstrap": {key: {"enabled": on}}})
        case ("later", seconds):
            cluster.now += seconds


def fresh() -> Cluster:
    cluster = Cluster()
    cluster.node()
    cluster.report()
    cluster.inventory()
    cluster.pod("discover")
    return cluster


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(happenings, st.none() | st.integers(0, 2)), min_size=1, max_size=15))
def test_they_come_to_rest_whatever_happens_and_wherever_they_die(history: list[tuple[Any, int | None]]) -> None:
    cluster = fresh()
    for what, dies_after in history:
        happen(cluster, what)
        cluster.step(stop_after=dies_after)
        if dies_after is None:
            assert cluster.plan().actions == ()


@settings(max_examples=200, deadline=None)
@given(st.lists(happenings, max_size=10), happenings, st.integers(0, 3))
def test_dying_at_any_write_leads_to_the_same_end(before: list[Any], what: Any, dies_after: int) -> None:
    cluster = fresh()
    for one in before:
        happen(cluster, one)
        cluster.step()
    happen(cluster, what)
    other = copy.deepcopy(cluster)
    cluster.step()
    other.step(stop_after=dies_after)
    other.step()

    assert other.end() == cluster.end()


@settings(max_examples=200, deadline=None)
@given(st.lists(happenings, max_size=20))
def test_ready_means_that_everything_is(history: list[Any]) -> None:
    cluster = fresh()
    for what in history:
        happen(cluster, what)
        made = cluster.step()
        seen = cluster.view().node(NODE)
        if cluster.condition("ReadyForPooling")[0] != "True":
            if cluster.condition("ReadyForPooling")[1].endswith("NotReady") and cluster.gates():
                assert made.requeue_after is not None or seen.node is None or not seen.node.ready
            continue
        assert seen.node is not None
        assert seen.node.ready
        assert seen.agent_ready
        assert seen.report is not None
        assert cluster.condition("ManagedDisabled")[0] == "False"
        assert cluster.status()["hw"]["devices"]
        needed = set(cluster.gates()) - {"gfd"}
        assert needed <= seen.ready


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
