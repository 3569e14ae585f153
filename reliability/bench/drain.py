"""A new version of a driver by strategy Drain, under PodDisruptionBudgets: nobody is ended otherwise than they allow.

The cluster of `make up` with the fifth process. Deployments fill most cards of each pool, each under a budget of its
own; their controller makes what was evicted anew, and the budgets' counts what is healthy. Whatever ends is looked at
as a watch shows it: an evicted pod bears the condition that the API server gives it, one that was plainly deleted does
not. No node is lost here and no pod preempted, which would give them the same condition.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api.resources import DEPLOYMENT, Resource
from reliability.bench.drivers import VERSION, WITHIN
from reliability.bench.environment import MANAGER
from reliability.bench.rolled import BETTER, TEAM, Fleet
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.whole_cluster import brought_up
from reliability.kit.progress import for_each, show_progress
from sim.cluster import Options
from sim.view import View
from sim.workload import pod_spec

if TYPE_CHECKING:
    from pathlib import Path

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Pod
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

SHAPE: Final = "h100-sxm-8@ubuntu24.04+bare"
BUDGET: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
APP: Final = "app"
EVICTED: Final = "DisruptionTarget"
"""The condition that the API server gives a pod when it is evicted."""
BEFORE_REMOVAL: Final = ("Draining", "Clearing", "Removing")
PATIENT: Final = ("--node-monitor-grace-period=15m",)
"""Simulated kubelets of so many nodes are late with their heartbeats on a small machine. After the usual time pods
of such a node are told to be not ready, which KWOK does not take back: they would be missing for ever."""


@dataclass(frozen=True, slots=True)
class Found:
    """All figures; times in seconds."""

    nodes: int
    pods: int
    budgets: int
    took: float
    evicted: int
    deleted: int
    """Pods that went without having been evicted."""
    beyond: int
    """Changes after which fewer pods of a budget served than it wants."""
    half_drained: int
    """Nodes that were given back with their old driver after some of their pods had been evicted."""
    most: int


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    options = Options(nodes=0, driver=True, webhooks=1, controller_manager_flags=PATIENT)
    with brought_up(folder, options, progress) as plane:
        return asyncio.run(_measure(plane, sizes, progress))


async def _measure(plane: ControlPlane, sizes: Sizes, progress: Progress) -> Result:
    async with View(plane.kubeconfig) as view:
        found = await Bench(view, sizes, progress).run()
    return Result(_rows(sizes, found), asdict(found))


def rollout(sizes: Sizes) -> dict[str, Any]:
    """How the fleet is rolled."""
    share = f"{sizes.drain_percent}%"
    return {
        "strategy": "Drain",
        "drain": {"waitFor": "1s", "timeout": f"{sizes.drain_timeout:g}s"},
        "canary": {"soak": "1s", "evidence": "None"},
        "waveSoak": "1s",
        "waves": [100],
        "maxUnavailable": {"nodes": share, "perPool": share, "cards": 0},
    }


class Bench:
    """One fleet and what runs on it."""

    def __init__(self, view: View, sizes: Sizes, progress: Progress) -> None:
        """Follow pods and work from now on."""
        self._view, self._sizes, self._progress = view, sizes, progress
        self._fleet = Fleet(view, progress, sizes.drain_pools)
        self._is_on = False
        self._serving: Counter[str] = Counter()
        self._least: dict[str, int] = {}
        self._evicted_of: Counter[str] = Counter()
        self._evicted = self._deleted = self._beyond = self._half = 0
        view.pods.subscribe(self._pod)
        view.inventories.subscribe(self._node)

    async def run(self) -> Found:
        """The fleet, its Deployments, and the new version."""
        sizes = self._sizes
        await self._fleet.serve([SHAPE] * sizes.drain_nodes, rollout(sizes), sizes.batch)
        apps = sizes.drain_pods // sizes.drain_replicas
        await self._deploy(apps)
        self._is_on = True
        self._fleet.seen.begin()
        began = time.monotonic()
        await self._fleet.change(version=BETTER)
        await self._fleet.all_have(BETTER, f"{sizes.drain_nodes} nodes are drained and get another version")
        return Found(
            sizes.drain_nodes,
            apps * sizes.drain_replicas,
            apps,
            time.monotonic() - began,
            self._evicted,
            self._deleted,
            self._beyond,
            self._half,
            self._fleet.seen.most,
        )

    async def _deploy(self, apps: int) -> None:
        client, replicas = self._view.client, self._sizes.drain_replicas

        async def deploy(number: int) -> None:
            name, labels = f"app-{number}", {APP: f"app-{number}"}
            self._least[name] = replicas - self._sizes.drain_allowed
            spec = {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod_spec(f"roll-{number % self._fleet.pools}")},
            }
            kind = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
            budget = {"maxUnavailable": self._sizes.drain_allowed, "selector": {"matchLabels": labels}}
            limit = {"apiVersion": "policy/v1", "kind": BUDGET.kind, "metadata": {"name": name}, "spec": budget}
            await client.create(BUDGET, limit, TEAM, manager=MANAGER)
            await client.create(DEPLOYMENT, kind, TEAM, manager=MANAGER)

        await for_each(range(apps), deploy)
        wanted = apps * replicas

        def serving() -> int:
            return sum(self._serving.values())

        async with show_progress(self._progress, f"{wanted} pods begin", serving, wanted):
            await self._view.until(lambda: serving() == wanted, WITHIN, lambda: f"{serving()} of {wanted} pods serve")

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        meta = next(pod.metadata for pod in (new, old) if pod is not None)
        if meta.namespace != TEAM:
            return
        app = meta.labels[APP]
        self._serving[app] += (new is not None and new.ready) - (old is not None and old.ready)
        if not self._is_on:
            return
        self._beyond += self._serving[app] < self._least[app]
        if new is None and old is not None:
            is_evicted = any(condition.type == EVICTED for condition in old.status.conditions)
            self._evicted += is_evicted
            self._deleted += not is_evicted
            self._evicted_of[old.node or ""] += is_evicted

    def _node(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        was = old.status.driver_work if old is not None else None
        if new is None or was is None or was.phase not in BEFORE_REMOVAL:
            return
        work = new.status.driver_work
        is_given_back = work is None or work.phase in {"Deferred", "Preflight", "Queued"}
        self._half += is_given_back and self._evicted_of[new.name] > 0
        if is_given_back or (work is not None and work.phase not in BEFORE_REMOVAL):
            del self._evicted_of[new.name]


def _rows(sizes: Sizes, found: Found) -> tuple[Row, ...]:
    title = f"drain: {found.nodes} nodes, {found.pods} pods under {found.budgets} budgets, all have the version"
    return (
        Row(title, found.took, "s", 1, note=f"installation played 10 s, from {VERSION}"),
        Row(
            "  nodes out of service at once",
            found.most,
            "",
            0,
            at_most=max(1, found.nodes * sizes.drain_percent // 100),
        ),
        Row("  pods that were evicted", found.evicted, "", 0),
        Row("  times that a budget had fewer than it wants", found.beyond, "", 0, exactly=0.0),
        Row("  pods that ended otherwise", found.deleted, "", 0, exactly=0.0),
        Row("  nodes given back half drained", found.half_drained, "", 0, exactly=0.0),
    )
