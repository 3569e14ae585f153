"""A real Prometheus scrapes a running cluster: every panel has data, and every alert can be judged.

The cluster is the session's own, with a pool and a pod of this file's. Prometheus stands before they come, so that
it sees counters rise.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from controllers.api import names
from controllers.api.resources import GPUPOOL, POD
from controllers.runtime.errors import NotFound
from sim.controlplane import ControlPlane
from sim.view import View
from tests.kit import prometheus
from tests.kit.prometheus import Prometheus
from tests.kit.waiting import PATIENCE, eventually, until
from tests.monitoring.exported import ours
from tests.monitoring.rules import alerts, groups, metrics_in
from tests.monitoring.test_dashboards import BOARDS, panels
from tests.slice.people import People
from tools.programs import prometheus_package

PROGRAM = prometheus_package.find("prometheus")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.more("a real Prometheus over a cluster"),
    pytest.mark.skipif(PROGRAM is None, reason=prometheus_package.MISSING),
]
EVERY, RATE = 2.0, "2m"  # seconds, as a duration
POOL, TEAM = "seen", "seen"
ALL = 3
"""Cards of the pool, all of one node: who asks for so many waits while another has one."""


class Seen(NamedTuple):
    """Prometheus over a cluster in which something happens."""

    prometheus: Prometheus
    since: float


async def play(plane: ControlPlane, scraper: Prometheus) -> None:
    """A pool of a node's cards; a pod out of its queue, one that has a card, one that waits, one that is refused."""

    def scraped() -> bool:
        """Whether the pool's counters were read while they are 0, without which none of them has risen."""
        return bool(scraper.samples(f'gpupool_queue_released_total{{pool="{POOL}"}} == 0', time.time() - EVERY))

    async with View(plane.kubeconfig) as view:
        people = People(plane, view)
        await people.ready_nodes()
        await people.namespace(TEAM)
        cards = sorted(d.name for d in view.devices if d.status.node_name == "gpu-1")[:ALL]
        # Nobody's namespace: it is RBAC that lets the administrator use it, so RBAC is asked.
        await people.pool(POOL, access={"namespaces": ["nobody"]}, queue={"onShortage": "Queue"})
        for card in cards:
            await people.annotate(card, POOL)
        await people.offered(POOL, len(cards))
        await until(scraped, "Prometheus to read the counters of the pool", every=0.2)
        await people.pod("early", TEAM, POOL)
        await people.running(TEAM, 1)
        await people.pod("queued", TEAM, POOL, ALL)
        await people.remove(POD, "early", TEAM)  # so that a pod gets its cards out of the queue
        await view.until(lambda: "queued" in ready(people), PATIENCE, lambda: str(people.pods(TEAM)))
        await people.remove(POD, "queued", TEAM)
        await people.settled(POOL, (3, 0, 0, 3))
        await people.pod("first", TEAM, POOL)
        await people.pod("waiting", TEAM, POOL, ALL)
        await people.refused("greedy", TEAM, POOL, 64, nodeName="gpu-1")  # so it cannot wait
        await people.running(TEAM, 1)
        await people.settled(POOL, (3, 1, 0, 2))


def ready(people: People) -> set[str]:
    return {pod.name for pod in people.pods(TEAM) if pod.ready}


async def clear(plane: ControlPlane) -> None:
    async with View(plane.kubeconfig) as view:
        people = People(plane, view)
        pods = [(POD, name, TEAM) for name in ("early", "queued", "first", "waiting")]
        for resource, name, namespace in (*pods, (GPUPOOL, POOL, None)):
            with contextlib.suppress(NotFound):  # it was not made, since something before it failed
                await people.remove(resource, name, namespace)
        # Cleaning up is not what this is about: a machine that is busy gets its time.
        await view.until(lambda: not people.cards(POOL) and view.pools.get(POOL) is None, PATIENCE, lambda: "it stays")
        for device in list(view.devices):
            if device.metadata.annotations.get(names.ASSIGNMENT) == POOL:
                await people.annotate(device.name, None)


async def nodes_of(plane: ControlPlane) -> list[str]:
    async with View(plane.kubeconfig) as view:
        await People(plane, view).ready_nodes()
        return sorted(inventory.name for inventory in view.inventories)


@pytest.fixture(scope="module")
def seen(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("prometheus")
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": list(groups())}))
    settings = prometheus.config(cluster, asyncio.run(nodes_of(cluster)), rules, EVERY)
    assert PROGRAM is not None
    with prometheus.running(PROGRAM, folder, settings) as made:
        since = time.time()
        eventually(lambda: not made.unreached, lambda: str(made.unreached))
        try:
            asyncio.run(play(cluster, made))
            yield Seen(made, since)
        finally:
            asyncio.run(clear(cluster))


FALLBACK = re.compile(r" or (vector\(0\)|0 \* max by \(pool\) \(gpupool_assignments(\{[^{}]*\})?\))$")
"""What queries.or_zero and or_none add: with it a panel has data whatever is asked for."""
NOTHING_FAULTED = "no card is faulted"
EMPTY = {
    "control-plane: Held by fuses A": "a fuse blows where many cards or nodes fail",
    "control-plane: Events not sent A": "the API server takes them all",
    "control-plane: Unreadable objects A": "all objects are as their CRDs want them",
    "control-plane: Failed scrapes A": "every exporter answers",
    "control-plane: Watches that ended A": "the API server ends a watch after minutes",
    "node: Faulted cards A": NOTHING_FAULTED,
    "overview: Faulted cards A": NOTHING_FAULTED,
    "overview: Alerts A": "an alert waits for minutes before it fires",
    "pool: Age of the oldest reservation A": "the pod is bound at once",
    "pool: Faulted cards A": NOTHING_FAULTED,
}
"""Panels that rightly show their fallback in a healthy cluster, and why."""


def filled(expr: str, *, bare: bool = True) -> str:
    """An expression as Grafana sends it where every value of each variable is chosen; `bare`: without its fallback."""
    expr = FALLBACK.sub("", expr) if bare else expr
    return re.sub(r"\$(?!__)\w+", ".*", expr.replace("$__rate_interval", RATE))


ALWAYS = {name: board for name, board in BOARDS.items() if name != "driver"}
"""Dashboards that show something in every cluster: this one has no GPUDriver, as most have none."""
QUERIES = {
    f"{name}: {panel['title']} {target['refId']}": target["expr"]
    for name, board in ALWAYS.items()
    for panel in panels(board)
    for target in panel["targets"]
}


@pytest.mark.parametrize("where", QUERIES)
def test_a_panel_has_data(seen: Seen, where: str) -> None:
    expr = filled(QUERIES[where], bare=where not in EMPTY)

    def has_data() -> bool:
        return any(not math.isnan(value) for _, found in seen.prometheus.samples(expr, seen.since) for value in found)

    eventually(has_data, lambda: f"no data for {expr}")


@pytest.mark.parametrize(
    "name", [n for n, b in ALWAYS.items() for v in b["templating"]["list"] if v["type"] == "query"]
)
def test_a_variable_has_values(seen: Seen, name: str) -> None:
    for variable in BOARDS[name]["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
            assert found is not None
            values = seen.prometheus.ask(f"label/{found[2]}/values", **{"match[]": found[1]})
            assert values, variable["definition"]


def test_every_alert_can_be_judged(seen: Seen) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in seen.prometheus.ask("rules")["groups"] for rule in group["rules"]]

    eventually(lambda: all(rule["health"] != "unknown" for rule in rules()), lambda: "rules are not evaluated")
    assert {rule["name"]: rule.get("lastError", "") for rule in rules()} == {alert.name: "" for alert in alerts()}
    assert {rule["health"] for rule in rules()} == {"ok"}
    # Nothing is wrong with this cluster that an alert about the module itself would tell.
    processes = {"GPUProcessAbsent", "GPUProcessDown", "GPUControllerWithoutLeader", "GPUSettingsInvalid"}
    active = {rule["name"] for rule in rules() if rule["alerts"]}
    assert not active & (processes | {"GPUDriverMissing", "GPUNodeFeatureMissing", "GPUPoolNotOffered", "GPUFuseHeld"})


def test_the_metrics_of_the_alerts_are_there(seen: Seen) -> None:
    """But for those that exist only while something is wrong."""
    rare = {"gpu_device_faulted", "gpu_fuse_held", "gpu_software_skew"}
    rare |= {name for name in ours() if name.startswith("gpu_driver_") and name != "gpu_driver_version_info"}
    read = {name for alert in alerts() for name in metrics_in(alert.expr)} - rare
    there = set(seen.prometheus.ask("label/__name__/values"))
    assert read - there == set()


def test_what_is_told_of_the_cluster_is_told_once(seen: Seen) -> None:
    """A standby's word would count twice."""
    for metric in (
        "gpu_bootstrap_ready",
        "gpu_node_inventory_condition",
        "gpupool_devices",
        "gpu_device_unassigned_total",
    ):
        by = {"gpu_bootstrap_ready": "node", "gpu_node_inventory_condition": "node, condition"}.get(
            metric, "node, pool, state"
        )
        counts = {
            value for _, found in seen.prometheus.samples(f"count by ({by}) ({metric})", time.time()) for value in found
        }
        assert counts == {1.0}, metric


def test_the_use_of_a_card_is_told_by_the_namespace_and_the_pod_that_has_it(seen: Seen) -> None:
    def users(expr: str) -> set[tuple[str | None, ...]]:
        found = [labels for labels, _ in seen.prometheus.samples(expr, time.time() - EVERY)]
        return {tuple(labels.get(key) for key in ("namespace", "pod", "container")) for labels in found}

    eventually(
        lambda: users(f'DCGM_FI_DEV_GPU_UTIL{{namespace="{TEAM}"}}') == {(TEAM, "first", "main")},
        lambda: f"named are {users('DCGM_FI_DEV_GPU_UTIL')}",
    )
    # The exporter's own pod has no card.
    assert users(f'DCGM_FI_DEV_GPU_UTIL{{namespace="{names.NAMESPACE}"}}') == set()
    assert (None, None, None) in users("DCGM_FI_DEV_GPU_UTIL")


def test_the_pool_is_told_as_it_is(seen: Seen) -> None:
    def now(expr: str) -> list[float]:
        return [found[-1] for _, found in seen.prometheus.samples(expr, time.time() - EVERY)]

    resource = names.resource_name(POOL).replace(".", "_").replace("/", "_").replace("-", "_")
    eventually(lambda: now(f'gpupool_capacity_used{{pool="{POOL}"}}') == [1], lambda: "used is not 1")
    assert now(f'sum(kube_node_status_allocatable{{resource="{resource}"}})') == [3]
    assert now(f'sum(gpupool_node_slots{{pool="{POOL}"}})') == [3]
    assert now(f'gpupool_assignments{{pool="{POOL}"}}') == [3]
