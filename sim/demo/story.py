"""The story of one card, from a bare node to a running pod, and of a pod too many.

Every line is told when it has come true in the cluster, with the time that it took and the
process that did it, as the API server recorded it. A step that does not come true in its
time ends the story with a status other than 0.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, find, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Pod
from sim import controlplane, programs
from sim.cluster import Options, bring_up
from sim.controlplane import ControlPlane
from sim.demo import manifests
from sim.demo.manifests import POOL, STRANGER, TEAM
from sim.demo.tell import Teller
from sim.errors import UserError
from sim.nodes.manifests import create_nodes, node_manifests, parse_profile
from sim.view import LateError, View

NODES = 4
CARDS = 3
"""Cards that the administrator confirms: one for the pod, two for the Deployment."""


def play(folder: Path, *, keep: bool) -> int:
    """Play the story in a cluster of its own; returns the exit status."""
    if controlplane.status(folder).up:
        raise UserError(
            f"a cluster is up in {folder.resolve()}",
            expected="none: the story begins with an empty one",
            do="`make down` ends it; or look at it with kubectl",
        )
    teller, status = Teller(), 1
    try:
        teller.chapter("A control plane comes up: etcd, API server, scheduler, controllers, and four processes of ours")
        plane = bring_up(folder, Options(nodes=0), programs.for_stream())
        asyncio.run(Story(plane, teller).tell())
        status = 0
    except LateError as late:
        teller.failed(str(late))
    finally:
        if status != 0 and not keep:
            teller.failed(f"the logs are kept in {_save_logs(folder)}")
        if not keep:
            controlplane.down(folder)
            teller.chapter("Everything that was started has ended, and its data is removed")
        elif status == 0:
            _keep(folder)
    teller.end()
    return status


def _save_logs(folder: Path) -> Path:
    """Keep the logs of a story that failed: taking the cluster down removes them."""
    target = folder.resolve() / "failed-demo-logs"
    if (folder / "logs").is_dir():
        shutil.copytree(folder / "logs", target, dirs_exist_ok=True)
    return target


def _keep(folder: Path) -> None:
    here = folder.resolve()
    print(
        f"\nIt is left up. Try:\n"
        f"  export KUBECONFIG={here}/kubeconfig PATH={here}/bin:$PATH\n"
        f"  kubectl get gpudevices -o wide\n"
        f"  kubectl get gpunodeinventory gpu-1 -o yaml\n"
        f"  kubectl -n {TEAM} scale deployment second --replicas={CARDS}; kubectl -n {TEAM} get events\n"
        f"  kubectl -n {TEAM} delete pod first   # a card is free again, and the ReplicaSet takes it\n"
        f"  kubectl get gpupool {POOL} -w\n"
        f"  make down"
    )


class Story:
    """The chapters, in order; each waits for what it tells."""

    def __init__(self, plane: ControlPlane, teller: Teller) -> None:
        """Prepare; `tell` plays it."""
        self._plane, self._teller = plane, teller
        self._view = View(plane.kubeconfig)

    async def tell(self) -> None:
        """Play every chapter; raises LateError."""
        async with self._view:
            await self._nodes_become_ready()
            await self._pool_takes_cards()
            await self._pods_get_cards()
            await self._refusals()
            self._teller.chapter("At the end")
            self._teller.cards(self._view)
            self._teller.pools(self._view)

    async def _nodes_become_ready(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter(f"{NODES} nodes with GPU cards join")
        await create_nodes(view.client, node_manifests(parse_profile("", NODES)))
        took = await view.until(
            lambda: sum(feature.is_agent_report for feature in view.features) == NODES,
            30,
            lambda: f"{len(view.features)} NodeFeatures of {NODES} nodes",
        )
        reports = [feature for feature in view.features if feature.is_agent_report]
        total = sum(len(f.spec.features.instances.cards.elements) for f in reports if f.spec.features.instances.cards)
        teller.did("nodeagent discover", f"reports {total} cards in NodeFeatures gpu-<node>", took)
        took = await view.until(
            lambda: sum(device.status.hardware is not None for device in view.devices) == total,
            30,
            lambda: f"{len(view.devices)} GPUDevices of {total}",
        )
        device = next(iter(view.devices))
        who = await view.writers(resources.GPUDEVICE, device.name)
        teller.did(who[0], f"makes {total} GPUDevices and {len(view.inventories)} GPUNodeInventories", took)
        took = await view.until(self._all_ready, 45, self._why_not_ready)
        inventory = next(iter(view.inventories))
        who = await view.writers(resources.GPUNODEINVENTORY, inventory.name)
        ready = find(inventory.status.conditions, READY_FOR_POOLING)
        what = "opens each node's gates one by one: driver, toolkit, GFD, DCGM, exporter, validator"
        teller.did(names.MANAGER_BOOTSTRAP if names.MANAGER_BOOTSTRAP in who else "?", what, took)
        teller.quoted(f"{inventory.name}: {ready.message if ready else ''}")

    def _all_ready(self) -> bool:
        ready = [i for i in self._view.inventories if is_true(i.status.conditions, READY_FOR_POOLING)]
        return len(ready) == NODES

    def _why_not_ready(self) -> str:
        said = []
        for inventory in self._view.inventories:
            condition = find(inventory.status.conditions, READY_FOR_POOLING)
            said.append(f"{inventory.name}: {condition.message if condition else 'says nothing yet'}")
        return "; ".join(said)

    async def _pool_takes_cards(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter("The administrator makes a pool and confirms cards")
        first = min(view.devices, key=lambda d: d.name)
        product = (first.status.hardware.product if first.status.hardware else None) or ""
        await self._apply(manifests.namespace(TEAM), manifests.namespace(STRANGER), manifests.pool(product))
        teller.typed(f"kubectl apply -f pool.yaml      # GPUPool {POOL}: whole cards, {product}, for namespace {TEAM}")

        def waiting() -> list[tuple[str, str]]:
            return [
                (entry.inventory_id, entry.annotation_hint or "")
                for inventory in view.inventories
                if inventory.status.pools is not None
                for entry in inventory.status.pools.pending
                if entry.pool == POOL and entry.annotation_hint
            ]

        took = await view.until(lambda: len(waiting()) >= CARDS, 15, lambda: f"{len(waiting())} cards in pending[]")
        inventory_id, hint = waiting()[0]
        teller.did(
            names.MANAGER_POOL, f"lists {len(waiting())} cards in pending[], each with the exact annotation", took
        )
        teller.quoted(f"{inventory_id}: {hint}")
        by_id = {device.status.inventory_id: device.name for device in view.devices}
        chosen = [by_id[card] for card, _ in waiting()[:CARDS]]
        teller.typed(f"kubectl annotate gpudevice {' '.join(chosen)} {hint}")
        await self._kubectl("annotate", "gpudevice", *chosen, hint)
        await self._cards_are_offered(chosen)

    async def _cards_are_offered(self, chosen: list[str]) -> None:
        view, teller = self._view, self._teller

        def cards() -> list[GPUDevice]:
            return [device for device in view.devices if device.name in chosen]

        took = await view.until(
            lambda: all(d.status.pool_ref for d in cards()), 10, lambda: str([d.status.state for d in cards()])
        )
        teller.did(names.MANAGER_POOL, f"{CARDS} cards are Assigned; ConfigMap and DaemonSet of the pool follow", took)
        took = await view.until(
            lambda: all(d.status.published for d in cards()),
            20,
            lambda: f"published: {sum(d.status.published is not None for d in cards())} of {CARDS}",
        )
        teller.did("nodeagent device-plugin", "acknowledges each card in status.published", took)
        key = names.resource_name(POOL)
        took = await view.until(
            lambda: sum(int(n.status.allocatable.get(key, 0)) for n in view.nodes) == CARDS,
            15,
            lambda: str({n.name: n.status.allocatable.get(key) for n in view.nodes}),
        )
        teller.did("kubelet (simulated)", f"{key} is in the nodes' allocatable: {CARDS}", took)

    async def _pods_get_cards(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter("A developer asks for cards")
        teller.typed(f"kubectl -n {TEAM} apply -f pod.yaml deployment.yaml    # limits: {names.resource_name(POOL)}: 1")
        await self._apply(manifests.pod("first"), manifests.deployment("second", CARDS - 1))

        def ours() -> list[Pod]:
            return [pod for pod in view.pods if pod.metadata.namespace == TEAM]

        def marked() -> list[Pod]:
            return [pod for pod in ours() if names.REQUEST_ID in pod.metadata.annotations]

        took = await view.until(lambda: len(marked()) == CARDS, 15, lambda: f"{len(marked())} admitted pods")
        teller.did(names.MANAGER_ADMISSION, f"admits {CARDS} pods, a card reserved for each", took)
        for pod in sorted(marked(), key=lambda p: p.name):
            teller.quoted(f"{pod.name}: {pod.metadata.annotations[names.DEVICES]}")
        took = await view.until(lambda: all(p.node for p in ours()), 15, lambda: str([p.node for p in ours()]))
        where = sorted({pod.node or "" for pod in ours()})
        teller.did("kube-scheduler", f"binds them to {', '.join(where)}", took)
        took = await view.until(
            lambda: all(pod.ready for pod in ours()), 15, lambda: str([p.status.phase for p in ours()])
        )
        teller.did("kubelet (KWOK)", f"{CARDS} pods are Running", took)
        took = await view.until(self._settled, 15, lambda: str([p.status.capacity for p in view.pools]))
        teller.did(names.MANAGER_POOL, "kubelet's allocations are reported, the reservations have ended", took)

    def _settled(self) -> bool:
        """Used by allocations alone, nothing reserved, and the pool says so."""
        cards = [d for d in self._view.devices if d.status.pool_ref]
        capacity = next((pool.status.capacity for pool in self._view.pools if pool.name == POOL), None)
        return (
            capacity is not None
            and (capacity.total, capacity.used, capacity.reserved, capacity.available) == (CARDS, CARDS, 0, 0)
            and all(len(card.status.allocations) == 1 and not card.status.reservations for card in cards)
        )

    async def _refusals(self) -> None:
        teller = self._teller
        teller.chapter("A pod too many, and a stranger")
        for name, team, word in (
            ("one-too-many", TEAM, names.INSUFFICIENT_CAPACITY),
            ("stranger", STRANGER, names.ACCESS_DENIED),
        ):
            teller.typed(f"kubectl -n {team} apply -f {name}.yaml")
            answer = await self._kubectl("create", "-f", "-", stdin=json.dumps(manifests.pod(name, team)), fails=True)
            teller.quoted(answer)
            if word not in answer:
                raise LateError(f"the pod should have been refused with {word}")
            teller.did(names.MANAGER_ADMISSION, f"refuses with {word} and says what to do")

    async def _apply(self, *objects: dict[str, object]) -> None:
        text = "\n---\n".join(json.dumps(obj) for obj in objects)
        await self._kubectl("apply", "-f", "-", stdin=text)

    async def _kubectl(self, *argv: str, stdin: str | None = None, fails: bool = False) -> str:
        """What a person would type; returns what kubectl printed."""

        def run() -> subprocess.CompletedProcess[str]:
            command = [str(self._plane.kubectl), f"--kubeconfig={self._plane.kubeconfig}", *argv]
            return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30, check=False)

        done = await asyncio.to_thread(run)
        if (done.returncode != 0) is not fails:
            expected = "a refusal" if fails else "success"
            raise LateError(f"kubectl {' '.join(argv)}: expected {expected}, found: {done.stdout}{done.stderr}")
        return (done.stdout + done.stderr).strip()
