"""From GPU Operator to the module, node after node, on a fleet under load: who is disturbed, and how long it takes.

The cluster of `make up` with the fifth process, and GPU Operator's kinds, Deployment and DaemonSets, whose pods are
played. On half of the nodes a pod has a card by the operator's plugin and stays; others come and go on all of them.
`kubectl gpu takeover` runs as a program of its own: `begin`, then `nodes` until all have gone over but those whose pods
stay; these pods end, `nodes` again, and `finish`. The operator's toolkit is not among the programs: as it goes each
node's runtime restarts, five at a time with 45 s between, which would be most of the time and none of the measure.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import asdict, dataclass
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from controllers.api import foreign, names
from controllers.api.resources import GPUDRIVER, GPUPOOL
from controllers.domain.driver.variant import ADOPTED
from reliability.bench.drivers import SHAPE, TOOK, VERSION
from reliability.bench.environment import MANAGER
from reliability.bench.going_over import POOL, TEAM, Nodes, Pods
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.whole_cluster import brought_up
from reliability.kit import actors
from reliability.kit.progress import for_each, show_progress
from sim import gpu_operator
from sim.cluster import Options
from sim.nodes.manifests import create_nodes, node_manifests
from sim.view import View
from sim.workload import gpudriver, gpupool
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sim.controlplane import ControlPlane
    from tools.programs import Progress

CARDS: Final = 4
"""Cards of a node."""
WITHIN: Final = 1800.0
"""Seconds after which something that does not come true is an error."""
FULL_NODES: Final = 100
"""The size for which the bars hold."""
IDLE_SECONDS: Final = 5.0
PROGRAMS: Final = tuple(app for app, part in gpu_operator.PROGRAMS.items() if part != "container-toolkit")


@dataclass(frozen=True, slots=True)
class Found:
    """All figures; times in seconds."""

    nodes: int
    stay: int
    """Pods that have a card by the operator's plugin and stay until the other nodes have gone over."""
    theirs: int
    ours: int
    ended: int
    gaps: list[float]
    """For each node, how long nobody offered its cards, of which no pod had one."""
    taken: int
    """Nodes that lost the operator's resource while a pod had a card by it."""
    doubled: int
    took: float
    begin: float
    """Of that, until the operator had stopped and its drivers were given over."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with brought_up(folder, Options(nodes=0, driver=True, webhooks=1), progress) as plane:
        return asyncio.run(_measure(plane, sizes, progress))


async def _measure(plane: ControlPlane, sizes: Sizes, progress: Progress) -> Result:
    # What ends the one ends the other.
    async with View(plane.kubeconfig) as view, asyncio.TaskGroup() as group:
        playing = group.create_task(gpu_operator.Plugin(view.client, view).run())
        found = await Bench(view, plane, sizes, progress).run()
        playing.cancel()
    return Result(_rows(found), asdict(found))


class Bench:
    """One fleet, on its way."""

    def __init__(self, view: View, plane: ControlPlane, sizes: Sizes, progress: Progress) -> None:
        """Follow nodes and pods from now on."""
        self._view, self._plane, self._sizes, self._progress = view, plane, sizes, progress
        self._pods = Pods(view, sizes.takeover_stay)
        self._nodes = Nodes(view, self._pods)

    async def run(self) -> Found:
        """The fleet under the operator, the steps, and what became of pods and cards."""
        every = await self._served()
        busy = every[1::2]
        await actors.create_namespace(self._view.client, TEAM, manager=MANAGER)
        await actors.retry(self._account, WITHIN)
        await self._pods.trains(busy)
        await self._ours(len(every))
        self._pods.begin(max(1, len(every) // 4))
        began = time.monotonic()
        try:
            with TemporaryDirectory() as folder:
                await self._step("begin", "-f", f"{folder}/saved.yaml")
            begun = time.monotonic() - began
            await self._all(
                lambda node: node.metadata.labels.get(names.DRIVER_VARIANT) == ADOPTED, "drivers given over"
            )
            await self._over(set(every) - set(busy))
            await self._pods.end(busy)
            await self._over(set(every))
            await self._step("finish")
            took = time.monotonic() - began
        finally:
            await self._pods.stop()
        nodes, pods, gaps = self._nodes, self._pods, sorted(self._nodes.gaps.values())
        counted = (pods.theirs, pods.ours, pods.ended, gaps, len(nodes.taken), nodes.doubled)
        return Found(len(every), len(busy), *counted, took, begun)

    async def _account(self) -> None:
        await self._view.client.request("GET", f"/api/v1/namespaces/{TEAM}/serviceaccounts/default")

    async def _served(self) -> list[str]:
        """The operator's fleet; returns the nodes' names."""
        client, view = self._view.client, self._view
        await actors.retry(lambda: gpu_operator.install(client, manager=MANAGER, programs=PROGRAMS), WITHIN)
        made = node_manifests([SHAPE] * self._sizes.takeover_nodes, prefix="over", annotations=TOOK)
        for one in made:
            one["metadata"]["labels"] |= gpu_operator.LABELS
        await create_nodes(client, made)
        count = len(made)

        def drivers() -> dict[str, str]:
            found = (pod for pod in view.pods if pod.metadata.namespace == gpu_operator.NAMESPACE and pod.node)
            return {
                pod.node or "": pod.metadata.uid for pod in found if foreign.part_of(pod.metadata.labels) == "driver"
            }

        async with show_progress(self._progress, f"{count} nodes of GPU Operator", lambda: len(drivers()), count):
            await view.until(lambda: len(drivers()) == count, WITHIN, lambda: f"{len(drivers())} of {count} drivers")
        by = drivers()
        await for_each(
            list(view.nodes),
            lambda node: gpu_operator.load(client, node, by[node.name], VERSION, manager=MANAGER),
        )
        theirs = str(CARDS)
        await self._all(lambda node: node.status.allocatable.get(gpu_operator.RESOURCE) == theirs, "offered by it")
        return [one["metadata"]["name"] for one in made]

    async def _ours(self, count: int) -> None:
        """What a person prepares: a GPUDriver that is paused, and a pool that takes all cards."""
        client, view = self._view.client, self._view
        await client.create(GPUDRIVER, gpudriver("fleet", VERSION, rollout={"paused": True}), manager=MANAGER)
        pool = gpupool(POOL, deviceAssignment={"requireAnnotation": False})
        await client.create(GPUPOOL, pool, manager=MANAGER)

        def pooled() -> int:
            return sum(one.status.pool_ref is not None for one in view.devices)

        async with show_progress(self._progress, "their cards go into a pool", pooled, CARDS * count):
            await view.until(
                lambda: (pooled(), view.ready()) == (CARDS * count, count),
                WITHIN,
                lambda: f"{pooled()}; {view.unready()}",
            )

    async def _over(self, wanted: set[str]) -> None:
        """Have these nodes go over: as often as pods come between."""
        deadline = time.monotonic() + WITHIN

        def left() -> int:
            return len(wanted) - len(wanted & self._nodes.gaps.keys())

        async with show_progress(self._progress, f"{left()} nodes go over", lambda: len(wanted) - left(), len(wanted)):
            while left():
                heard = await self._step("nodes", ok=(0, 1))
                if left() and time.monotonic() > deadline:
                    raise UserError(f"{left()} nodes have not gone over in {WITHIN:.0f} s: {heard}")

    async def _all(self, is_so: Callable[[Any], bool], title: str) -> None:
        def there() -> int:
            return sum(map(is_so, self._view.nodes))

        count = self._sizes.takeover_nodes
        async with show_progress(self._progress, f"{count} nodes: {title}", there, count):
            await self._view.until(lambda: there() == count, WITHIN, lambda: f"{there()} of {count} nodes: {title}")

    async def _step(self, *words: str, ok: tuple[int, ...] = (0,)) -> str:
        """One step as a person does it; returns what it says, raises UserError."""
        program = (sys.executable, "-m", "kubectl_gpu", "takeover", *words)
        env = {**os.environ, "KUBECONFIG": str(self._plane.kubeconfig)}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*program, env=env, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
        try:
            heard, _ = await asyncio.wait_for(process.communicate(), WITHIN)
        except BaseException:
            process.kill()
            raise
        if process.returncode not in ok:
            raise UserError(f"kubectl gpu takeover {' '.join(words)} ended with {process.returncode}: {heard.decode()}")
        return heard.decode()


def _rows(found: Found) -> tuple[Row, ...]:
    full = found.nodes >= FULL_NODES
    return (
        Row(
            f"takeover: {found.nodes} nodes × {CARDS} cards from GPU Operator, all over",
            found.took,
            "s",
            1,
            note=f"{found.theirs} pods by its plugin meanwhile, {found.ours} by the module's",
        ),
        Row("  until the operator has stopped", found.begin, "s", 1),
        Row("  pods that it ended or restarted", found.ended, "", 0, exactly=0.0),
        Row("  idle cards without a resource, the longest", max(found.gaps), "s", at_most=IDLE_SECONDS, judged=full),
        Row("    the median", median(found.gaps), "s"),
        Row("  nodes that lost it while a pod had a card", found.taken, "", 0, exactly=0.0),
        Row("  times that two plugins offered a card", found.doubled, "", 0, exactly=0.0),
    )
