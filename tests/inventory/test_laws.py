"""The laws of the planner, on thousands of histories: it comes to rest, and it may die anywhere."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names, resources
from controllers.runtime.plan import Delete
from tests.inventory.test_cards import garbage
from tests.inventory.world import NODE, Cluster
from tests.kit.reports import on_the_bus, reported

POOL = {"name": "a", "resource": "gpu.deckhouse.io/a"}
boots = st.sampled_from(["", "boot-1", "boot-2"])
uuids = st.sampled_from(["", "GPU-00000001", "GPU-00000002", "ERR!"])
cards = st.lists(
    st.builds(lambda number, uuid: reported(number, uuid=uuid), st.integers(0, 3), uuids) | garbage, max_size=4
)
happenings = st.one_of(
    st.tuples(st.just("node"), boots, st.sampled_from(["true", "false", "odd"])),
    st.tuples(st.just("no node")),
    st.tuples(st.just("report"), cards, boots, st.sampled_from(["580.65.06", ""])),
    st.tuples(st.just("bus"), st.integers(0, 3)),
    st.tuples(st.just("gfd"), st.sampled_from(["1", "2", "x"]), st.sampled_from(["A", "A-SHARED", "A-MIG-1g.5gb"])),
    st.tuples(st.just("not ready")),
    st.tuples(st.just("no label")),
    st.tuples(st.just("gate"), st.booleans()),
    st.tuples(st.just("silence")),
    st.tuples(st.just("pool"), st.booleans()),
    st.tuples(st.just("assign"), st.sampled_from(["a", None])),
    st.tuples(st.just("ignore"), st.sampled_from(["true", "false"])),
    st.tuples(st.just("labels"), st.sampled_from([names.LABEL_PRODUCT, names.LABEL_NODE, names.LABEL_FAMILY])),
    st.tuples(st.just("deleted by hand")),
    st.tuples(st.just("later")),
    st.tuples(st.just("days later")),
)


def happen(cluster: Cluster, what: tuple[Any, ...]) -> None:  # noqa: C901, PLR0912 - a list of happenings
    devices = list(cluster.devices())
    match what:
        case ("node", boot, enabled):
            cluster.node(boot=boot, **{names.LABEL_ENABLED: enabled, names.LABEL_PRESENT: "true"})
        case ("no node",):
            cluster.drop(resources.NODE, NODE)
        case ("report", reported, boot, driver):
            cluster.report(reported, boot=boot, driver=driver)
        case ("bus", count):
            cluster.bus(on_the_bus(count))
        case ("gfd", count, product):
            prefix = f"{names.GFD_PREFIX}gpu."
            labels = {f"{prefix}count": count, f"{prefix}product": product, f"{prefix}memory": "81559"}
            cluster.node(**labels)
        case ("not ready",):
            cluster.node(ready=False)
        case ("no label",):
            cluster.node()
        case ("gate", opened):
            cluster.node(**({names.deploy_label("gfd"): "true"} if opened else {}))
        case ("silence",):
            cluster.silence()
        case ("pool", True) if devices:
            cluster.merge("GPUDevice", devices[0], {"status": {"poolRef": POOL}})
        case ("pool", False) if devices:
            cluster.device(devices[0]).get("status", {}).pop("poolRef", None)
        case ("assign", pool) if devices:
            cluster.merge("GPUDevice", devices[0], {"metadata": {"annotations": {names.ASSIGNMENT: pool}}})
        case ("ignore", value) if devices:
            cluster.merge("GPUDevice", devices[-1], {"metadata": {"annotations": {names.LABEL_IGNORE: value}}})
        case ("labels", label) if devices:
            cluster.merge("GPUDevice", devices[-1], {"metadata": {"labels": {label: "by-hand"}}})
        case ("deleted by hand",) if devices:
            cluster.drop(resources.GPUDEVICE, devices[0])
        case ("later",):
            cluster.now += 10
        case ("days later",):
            cluster.now += 4 * 86400


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(happenings, st.none() | st.integers(0, 6)), min_size=1, max_size=10))
def test_it_comes_to_rest_whatever_happens_and_wherever_it_dies(history: list[tuple[Any, int | None]]) -> None:
    cluster = Cluster()
    for what, dies_after in history:
        happen(cluster, what)
        if dies_after is not None:
            cluster.step(stop_after=dies_after)
            continue
        # A card that was exchanged is deleted in one pass and made anew in the next; the summary of a node
        # without cards says so in one pass, for bootstrap to close its gates, and goes in the next.
        found = ("GPUNodeInventory", NODE) in cluster.objects
        exchanged = any(isinstance(action, Delete) for action in cluster.plan().actions)
        rounds = cluster.settle()
        assert rounds <= (2 if exchanged or (found and ("GPUNodeInventory", NODE) not in cluster.objects) else 1)
        assert cluster.plan().actions == ()
        assert cluster.plan_anew() == cluster.plan(), "a process that starts sees what one that lives on sees"


@settings(max_examples=150, deadline=None)
@given(st.lists(happenings, min_size=1, max_size=6), happenings, st.integers(0, 20))
def test_dying_at_any_write_leads_to_the_same_end(before: list[Any], what: Any, dies_after: int) -> None:
    cluster = Cluster()
    cluster.node()
    cluster.report([reported(0), reported(1)])
    for one in before:
        happen(cluster, one)
        cluster.settle()
    happen(cluster, what)
    other = copy.deepcopy(cluster)
    cluster.settle()
    other.step(stop_after=dies_after)
    other.settle()

    assert other.end() == cluster.end()
