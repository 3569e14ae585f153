"""What is worked out for a node, and when what was worked out before is forgotten."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.kube import ConfigMap
from controllers.api.meta import ObjectMeta
from controllers.api.record import adapter
from controllers.driver.loops.reconciler import Reconciler
from controllers.driver.pods import build, checks
from controllers.driver.records import Pool
from tests.driver.rolling import Rolling
from tests.driver.world import Cluster
from tests.kit import objects

PHASES = ("Serving", "Draining")


def test_no_pods_are_made_up_for_nodes_that_are_in_service(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cluster()
    made.node()
    made.driver()
    made.settle()
    calls = []
    monkeypatch.setattr(checks, "check_pod", lambda *args, **_: calls.append(args))
    made.drop(resources.DAEMONSET, next(key for kind, key in made.objects if kind == "DaemonSet"))
    monkeypatch.setattr(build, "daemonset", lambda *args, **_: calls.append(args))

    seen = made.view().node("n1")
    assert seen.target is not None
    assert calls == []
    assert names.DRIVER_VARIANT in (seen.node.metadata.labels if seen.node is not None else {})


async def loops(made: Cluster) -> Reconciler:
    process: Any = SimpleNamespace(executor=SimpleNamespace(execute=None))
    return Reconciler(process, made.view())


async def test_a_configmap_that_no_driver_names_wakes_nobody() -> None:
    made = Cluster()
    made.node()
    made.driver(build={"repositories": {"configMap": "named"}})
    found = await loops(made)
    for name, idle in (("other", True), ("named", False)):
        changed = ConfigMap(metadata=ObjectMeta(name=name, namespace=names.NAMESPACE))
        found._configmap_changed(None, changed)
        assert found.nodes.controller.idle is idle


async def test_what_is_known_of_a_driver_wakes_its_own_nodes_and_another_spec_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of hundreds of GPUDrivers has a status: that all nodes are looked at for each would be the product."""
    made = Cluster()
    for name in ("n1", "n2"):
        made.node(name)
        with made.edit("Node", name) as node:
            node["metadata"]["labels"]["group"] = name
        made.driver(name, target={"nodeSelector": {"matchLabels": {"group": name}}})
    found = await loops(made)
    woken: dict[str, set[str]] = {}
    for loop in found.controllers:
        keys = woken[loop.name] = set()
        monkeypatch.setattr(loop, "add", lambda *names, keys=keys: keys.update(names))
        monkeypatch.setattr(loop, "add_all", keys.update)
        monkeypatch.setattr(loop, "add_after", lambda name, _, keys=keys: keys.add(name))
    was = found._world.caches.drivers.get("n1")
    assert was is not None
    found._driver_changed(was, replace(was, status=replace(was.status, observed_generation=2)))
    assert woken == {"driver-nodes": set(), "driver-rollouts": {"n1"}, "drivers": {"n1"}, "driver-variants": set()}
    now = replace(was, status=replace(was.status, current="other"))
    found._driver_changed(was, now)
    assert woken["driver-nodes"] == {"n1"}
    assert woken["driver-rollouts"] == {"n1"}
    found._driver_changed(now, replace(now, spec=replace(now.spec, priority=7)))
    assert woken["driver-nodes"] == woken["driver-rollouts"] == woken["drivers"] == {"n1", "n2"}
    gone = replace(was, metadata=replace(was.metadata, name="gone"))
    found._driver_changed(gone, None)
    assert woken["drivers"] == {"n1", "n2", "gone"}, "what is kept of it stays for ever"


async def test_what_is_known_of_a_revision_is_worked_out_anew_only_for_another_proof() -> None:
    made = Cluster()
    made.node()
    made.driver()
    made.settle()
    world = made.process()
    driver, inventory = world.caches.drivers.get("main"), world.caches.inventories.get("n1")
    assert driver is not None
    assert inventory is not None
    known = world.proofs.results(driver)
    other = replace(inventory, status=replace(inventory.status, conditions=()))
    world.caches.inventories.on_watch_event(other)
    assert world.proofs.results(driver) is known
    gone = replace(inventory, status=replace(inventory.status, last_driver_work=None))
    world.caches.inventories.on_watch_event(gone)
    assert world.proofs.results(driver) is not known


async def test_a_node_that_is_back_is_looked_at_once_its_pool_offers_no_cards_any_more() -> None:
    made = Rolling()
    made.node()
    made.driver()
    made.settle()
    with made.edit("GPUNodeInventory", "n1") as inventory:
        work = {"driver": "main", "phase": "Returning", "since": objects.LONG_AGO, "nodeUID": "uid-1"}
        inventory["status"]["driverWork"] = work
    found = await loops(made)
    before, after = (adapter(Pool).validate_python({"metadata": {"name": "a"}, "status": {"phase": p}}) for p in PHASES)
    found._pool_changed(before, before)
    assert found.nodes.controller.idle
    found._pool_changed(before, after)
    assert not found.nodes.controller.idle
