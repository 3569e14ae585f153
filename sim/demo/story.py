"""The story of one card, from a bare node to a running pod, and of a pod too many, which waits.

Every line is told when it has come true in the cluster, with the time that it took. Whoever
is named for a write owns the field by the API server's own record (managedFields): where it
is somebody else, as where a step does not come true in its time, the story ends with a
status other than 0. What is played by the simulation is called simulated.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, find, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Pod
from controllers.api.resources import Resource
from controllers.runtime.errors import RuntimeFault
from sim import controlplane
from sim.cluster import Options, bring_up
from sim.controlplane import ControlPlane
from sim.demo import manifests
from sim.demo.manifests import PERSON, POOL, STRANGER, TEAM
from sim.demo.tell import Teller
from sim.nodes.manifests import create_nodes, node_manifests, parse_profile
from sim.nodes.names import KUBELET
from sim.view import LateError, View
from tools import programs
from tools.errors import UserError

NODES = 4
CARDS = 3
"""Cards that the administrator confirms: one for the pod, two for the Deployment."""
PATIENCE = 2.0
"""Seconds after which a person is told what is waited for, again and again."""
KUBECTL_SECONDS = 60
END = 120.0
"""Seconds until a step that takes one or two, and that is told of while it takes longer, is given up."""
INTERRUPTED = 130
WEBHOOK = "pods.gpu.deckhouse.io"
LATE = "one-too-many"
PAUSE = 0.1
"""Seconds between two questions for an Event, which no cache follows."""
MESSAGES = 'jsonpath={range .items[*]}{.message}{"\\n"}{end}'
DEVICES = f"{{.metadata.annotations.{names.DEVICES.replace('.', chr(92) + '.')}}}"
"""The cards that a pod has been promised, as kubectl's jsonpath."""


TRIES = (
    "kubectl get gpudevices -o wide",
    "kubectl get gpunodeinventory gpu-1 -o yaml",
    f"kubectl -n {TEAM} scale deployment second --replicas={CARDS}; kubectl -n {TEAM} get pods",
    f"kubectl get gpupool {POOL} -o jsonpath='{{.status.queue}}'   # who waits",
    f"kubectl -n {TEAM} delete pod {LATE}   # a card is free again, and the pod that waits gets it",
)
DRIVER_TRIES = (
    "kubectl get gpudrivers -o wide",
    "kubectl get gpunodeinventory bare-1 -o yaml   # status.lastDriverWork, status.software",
    f"kubectl -n {names.NAMESPACE} get daemonsets,pods -l {names.LABEL_DRIVER}",
    "kubectl delete gpudriver main   # the driver stays under the node's pods",
)


def play(folder: Path, *, keep: bool, driver: bool = False) -> int:
    """Play the story in a cluster of its own, `driver`: that of a bare node; returns the exit status."""
    if controlplane.status(folder).up:
        raise UserError(
            f"a cluster is up in {folder.resolve()}",
            expected="none: the story begins with an empty one",
            do="`make down` ends it; or look at it with kubectl",
        )
    teller, status = Teller(), 1
    try:
        teller.chapter(
            "A control plane comes up: etcd, API server, scheduler, controllers, and"
            f" {'five' if driver else 'four'} processes of ours, the webhook twice"
        )
        plane = bring_up(folder, Options(nodes=0, driver=driver), programs.for_stream())
        asyncio.run(_story(plane, teller, driver=driver).tell())
        status = 0
    except (LateError, UserError, RuntimeFault) as error:
        teller.failed(str(error))
    except KeyboardInterrupt:
        teller.failed("interrupted")
        status = INTERRUPTED
    finally:
        if not keep:
            if status == 1:
                teller.failed(f"the logs are kept in {_save_logs(folder)}")
            controlplane.down(folder)
            teller.chapter("Everything that was started has ended, and its data is removed")
        elif status == 0:
            _keep(folder, DRIVER_TRIES if driver else TRIES)
        else:
            teller.failed(f"what there is stays up: logs are in {folder.resolve()}/logs, and `make down` ends it")
    teller.end()
    return status


def _save_logs(folder: Path) -> Path:
    """Keep the logs of a story that failed: taking the cluster down removes them."""
    target = folder.resolve() / "failed-demo-logs"
    if (folder / "logs").is_dir():
        shutil.copytree(folder / "logs", target, dirs_exist_ok=True)
    return target


def _story(plane: ControlPlane, teller: Teller, *, driver: bool) -> Chapters:
    from sim.demo.driver_story import DriverStory  # which stands on this module

    return DriverStory(plane, teller) if driver else Story(plane, teller)


def _keep(folder: Path, tries: Iterable[str]) -> None:
    here = folder.resolve()
    print(f"\nIt is left up. Try:\n  export KUBECONFIG={here}/kubeconfig PATH={here}/bin:$PATH")
    print("\n".join(f"  {line}" for line in tries))
    print("  make down")


class Chapters(ABC):
    """What stories have in common: a cluster, somebody who tells, and how it is waited for what is told."""

    def __init__(self, plane: ControlPlane, teller: Teller) -> None:
        """Prepare; `tell` plays it."""
        self._plane, self._teller = plane, teller
        self._view = View(plane.kubeconfig)

    @abstractmethod
    async def tell(self) -> None:
        """Play every chapter; raises LateError."""

    def _pods(self) -> str:
        return str({p.name: p.status.phase for p in self._view.pods if p.metadata.namespace == TEAM})

    async def _apply(self, *objects: dict[str, object]) -> None:
        text = "\n---\n".join(json.dumps(obj) for obj in objects)
        await self._kubectl("apply", "-f", "-", stdin=text)

    async def _kubectl(self, *argv: str, stdin: str | None = None, fails: bool = False) -> str:
        """What a person would type; returns what kubectl printed."""

        def run() -> subprocess.CompletedProcess[str]:
            command = [str(self._plane.kubectl), f"--kubeconfig={self._plane.kubeconfig}", *argv]
            return subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=KUBECTL_SECONDS, check=False
            )

        try:
            done = await asyncio.to_thread(run)
        except subprocess.TimeoutExpired:
            raise LateError(f"kubectl {' '.join(argv)} did not end in {KUBECTL_SECONDS} s") from None
        if (done.returncode != 0) is not fails:
            expected = "a refusal" if fails else "success"
            raise LateError(f"kubectl {' '.join(argv)}: expected {expected}, found: {done.stdout}{done.stderr}")
        return (done.stdout + done.stderr).strip()

    async def _until(self, goal: str, true: Callable[[], bool], seconds: float, found: Callable[[], str]) -> float:
        """Wait until it is true, and tell what is waited for where that takes a while."""

        async def tell() -> None:
            waited = 0.0
            while True:
                await asyncio.sleep(PATIENCE)
                waited += PATIENCE
                self._teller.waits(goal, waited, found())

        telling = asyncio.create_task(tell())
        try:
            return await self._view.until(true, seconds, found)
        except LateError as late:
            raise LateError(f"{goal}: {late}") from None
        finally:
            telling.cancel()

    async def _owner(
        self, expected: str, resource: Resource, name: str, *path: str, namespace: str | None = None
    ) -> None:
        """Raise LateError where somebody else wrote a field."""
        found = await self._view.owners(resource, name, *path, namespace=namespace)
        if expected not in found:
            where = f"{resource.kind} {name}: {'.'.join(path)}"
            raise LateError(f"{where} is written by {', '.join(found) or 'nobody'}; expected: {expected}")

    async def _owners_of_cards(self, expected: str, cards: Iterable[str], field: str) -> None:
        for card in cards:
            await self._owner(expected, resources.GPUDEVICE, card, "status", field)


class Story(Chapters):
    """The chapters, in order; each waits for what it tells."""

    async def tell(self) -> None:
        """Play every chapter; raises LateError."""
        async with self._view:
            await self._nodes_become_ready()
            await self._pool_takes_cards()
            await self._pods_get_cards()
            await self._pod_too_many()
            await self._stranger()
            self._teller.chapter("At the end")
            self._teller.cards(self._view)
            self._teller.pools(self._view)

    async def _nodes_become_ready(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter(f"{NODES} nodes with GPU cards join")
        await create_nodes(view.client, node_manifests(parse_profile("", NODES)))
        took = await self._until(
            "every node's cards are reported",
            lambda: sum(feature.is_agent_report for feature in view.features) == NODES,
            END,
            lambda: f"{len(view.features)} NodeFeatures of {NODES} nodes",
        )
        reports = [feature for feature in view.features if feature.is_agent_report]
        total = sum(len(f.spec.features.instances.cards.elements) for f in reports if f.spec.features.instances.cards)
        for report in reports:
            space = report.metadata.namespace
            await self._owner(names.MANAGER_DISCOVER, resources.NODEFEATURE, report.name, "spec", namespace=space)
        teller.did(names.MANAGER_DISCOVER, f"(simulated) reports {total} cards in NodeFeatures gpu-<node>", took)
        took = await self._until(
            "every card is a GPUDevice",
            lambda: sum(device.status.hardware is not None for device in view.devices) == total,
            END,
            lambda: f"{len(view.devices)} GPUDevices of {total}",
        )
        device = next(iter(view.devices))
        await self._owner(names.MANAGER_INVENTORY, resources.GPUDEVICE, device.name, "status", "hardware")
        what = f"makes {total} GPUDevices and {len(view.inventories)} GPUNodeInventories"
        teller.did(names.MANAGER_INVENTORY, what, took)
        took = await self._until("every node is ready for pooling", self._all_ready, END, self._why_not_ready)
        inventory = min(view.inventories, key=lambda i: i.name)
        where = ("status", "conditions", f"type={READY_FOR_POOLING}")
        await self._owner(names.MANAGER_BOOTSTRAP, resources.GPUNODEINVENTORY, inventory.name, *where)
        what = "opens each node's gates one by one: driver, toolkit, GFD, DCGM, exporter, validator"
        teller.did(names.MANAGER_BOOTSTRAP, what, took)
        ready = find(inventory.status.conditions, READY_FOR_POOLING)
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
        await self._apply(manifests.member(PERSON, STRANGER))
        teller.typed(f"kubectl apply -f pool.yaml      # GPUPool {POOL}: whole cards, {product}, for namespace {TEAM}")

        def waiting() -> list[tuple[str, str]]:
            return [
                (entry.inventory_id, entry.annotation_hint or "")
                for inventory in view.inventories
                if inventory.status.pools is not None
                for entry in inventory.status.pools.pending
                if entry.pool == POOL and entry.annotation_hint
            ]

        took = await self._until(
            f"{CARDS} cards wait for a confirmation",
            lambda: len(waiting()) >= CARDS,
            END,
            lambda: f"{len(waiting())} cards in pending[]",
        )
        inventory_id, hint = waiting()[0]
        node = next(d.status.node_name or "" for d in view.devices if d.status.inventory_id == inventory_id)
        await self._owner(names.MANAGER_POOL, resources.GPUNODEINVENTORY, node, "status", "pools", "pending")
        what = f"lists {len(waiting())} cards in pending[], each with the exact annotation"
        teller.did(names.MANAGER_POOL, what, took)
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

        took = await self._until(
            f"{CARDS} cards are Assigned",
            lambda: all(d.status.pool_ref for d in cards()),
            END,
            lambda: str([d.status.state for d in cards()]),
        )
        await self._owners_of_cards(names.MANAGER_POOL, chosen, "poolRef")
        teller.did(names.MANAGER_POOL, f"{CARDS} cards are Assigned", took)
        took = await self._until(
            "the node's plugin offers them",
            lambda: all(d.status.published for d in cards()),
            END,
            lambda: f"published: {sum(d.status.published is not None for d in cards())} of {CARDS}",
        )
        plugin = names.plugin_object(POOL)
        for resource, field in ((resources.CONFIGMAP, "data"), (resources.DAEMONSET, "spec")):
            await self._owner(names.MANAGER_POOL, resource, plugin, field, namespace=names.NAMESPACE)
        teller.did(names.MANAGER_POOL, f"ConfigMap and DaemonSet {plugin} say which cards to offer")
        await self._owners_of_cards(names.MANAGER_PLUGIN, chosen, "published")
        teller.did(
            names.MANAGER_PLUGIN, "(simulated) follows them, and acknowledges each card in status.published", took
        )
        key = names.resource_name(POOL)
        took = await self._until(
            f"{key} is in the nodes' allocatable",
            lambda: sum(int(n.status.allocatable.get(key, 0)) for n in view.nodes) == CARDS,
            END,
            lambda: str({n.name: n.status.allocatable.get(key) for n in view.nodes}),
        )
        for node in {d.status.node_name or "" for d in cards()}:
            await self._owner(KUBELET, resources.NODE, node, "status", "allocatable", key)
        teller.did(KUBELET, f"(simulated) {key} is in the nodes' allocatable: {CARDS}", took)

    async def _pods_get_cards(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter("A developer asks for cards")
        teller.typed(f"kubectl -n {TEAM} apply -f pod.yaml deployment.yaml    # limits: {names.resource_name(POOL)}: 1")
        before = view.devices.observed
        await self._apply(manifests.pod("first"), manifests.deployment("second", CARDS - 1))

        def ours() -> list[Pod]:
            return [pod for pod in view.pods if pod.metadata.namespace == TEAM]

        def marked() -> list[Pod]:
            return [pod for pod in ours() if names.REQUEST_ID in pod.metadata.annotations]

        took = await self._until(
            f"{CARDS} pods are admitted", lambda: len(marked()) == CARDS, END, lambda: f"{len(marked())} admitted pods"
        )
        # A reservation ends as soon as kubelet has allocated: look for it in what was.
        where = ("status", "reservations")
        await view.wrote(names.MANAGER_ADMISSION, resources.GPUDEVICE, *where, since=before, objects=CARDS, seconds=END)
        teller.did(names.MANAGER_ADMISSION, f"admits {CARDS} pods, a card reserved for each", took)
        for pod in sorted(marked(), key=lambda p: p.name):
            teller.quoted(f"{pod.name}: {pod.metadata.annotations[names.DEVICES]}")
        took = await self._until(
            "the pods are bound", lambda: all(p.node for p in ours()), END, lambda: str([p.node for p in ours()])
        )
        nodes = sorted({pod.node or "" for pod in ours()})
        teller.did("kube-scheduler", f"(the real one) binds them to {', '.join(nodes)}", took)
        took = await self._until(
            "the pods run", lambda: all(p.ready for p in ours()), END, lambda: str([p.status.phase for p in ours()])
        )
        teller.did(KUBELET, f"(simulated by KWOK) {CARDS} pods are Running", took)
        took = await self._until(
            "the pool counts its cards", self._settled, END, lambda: str([p.status.capacity for p in view.pools])
        )
        cards = [d.name for d in view.devices if d.status.pool_ref]
        await self._owners_of_cards(names.MANAGER_PLUGIN, cards, "allocations")
        await self._owner(names.MANAGER_POOL, resources.GPUPOOL, POOL, "status", "capacity")
        teller.did(names.MANAGER_PLUGIN, "(simulated) reports what kubelet has allocated")
        teller.did(names.MANAGER_POOL, "ends the reservations, and counts the cards as used", took)

    def _settled(self) -> bool:
        """Used by allocations to the team's pods alone, nothing reserved, and the pool says so."""
        cards = [d for d in self._view.devices if d.status.pool_ref]
        serves = {allocation.pod for card in cards for allocation in card.status.allocations}
        capacity = next((pool.status.capacity for pool in self._view.pools if pool.name == POOL), None)
        return (
            capacity is not None
            and (capacity.total, capacity.used, capacity.reserved, capacity.available) == (CARDS, CARDS, 0, 0)
            and serves == {pod.name for pod in self._view.pods if pod.metadata.namespace == TEAM}
            and all(len(card.status.allocations) == 1 and not card.status.reservations for card in cards)
        )

    async def _pod_too_many(self) -> None:
        """The pod waits behind our scheduling gate until another ends."""
        view, teller = self._view, self._teller
        teller.chapter("A pod too many, and a stranger")
        teller.typed(f"kubectl -n {TEAM} apply -f {LATE}.yaml")
        await self._apply(manifests.pod(LATE))
        gates = await self._pod_says("{.spec.schedulingGates[*].name}")
        if gates != names.CARDS_GATE:
            raise LateError(f"the pod should wait behind scheduling gate {names.CARDS_GATE}; found: {gates or 'none'}")
        teller.did(names.MANAGER_ADMISSION, f"finds no free card, and lets the pod wait: scheduling gate {gates}")
        took = await self._until("the pod says why it waits", lambda: self._queued("True"), END, self._pods)
        where = ("status", "conditions", f"type={names.QUEUED}")
        await self._owner(names.MANAGER_POOL, resources.POD, LATE, *where, namespace=TEAM)
        teller.did(names.MANAGER_POOL, f"says why in condition {names.QUEUED} and event {names.EVENT_QUEUED}", took)
        teller.quoted(await self._event(names.EVENT_QUEUED))
        await self._gets_the_card_of("first")
        took = await self._until("the pool counts its cards", self._settled, END, lambda: str([*view.pools]))
        teller.did(names.MANAGER_POOL, "ends the reservation, and counts the card as used", took)

    async def _gets_the_card_of(self, other: str) -> None:
        view, teller = self._view, self._teller
        card = await self._pod_says(DEVICES, other)
        teller.typed(f"kubectl -n {TEAM} delete pod {other}")
        await self._kubectl("-n", TEAM, "delete", "pod", other)
        took = await self._until("the pod is let go on", lambda: self._queued("False"), END, self._pods)
        await self._owner(
            names.MANAGER_POOL, resources.POD, LATE, "metadata", "annotations", names.DEVICES, namespace=TEAM
        )
        given = await self._pod_says(DEVICES)
        if given != card:
            raise LateError(f"the pod should have got card {card}, which {other} had; found: {given or 'none'}")
        teller.did(names.MANAGER_POOL, "reserves the card that is free now, and takes the gate off", took)
        teller.quoted(f"{LATE}: {given}")
        took = await self._until(
            "the pod runs", lambda: any(p.name == LATE and p.ready for p in view.pods), END, self._pods
        )
        teller.did(KUBELET, f"(simulated by KWOK) {LATE} is Running", took)

    async def _stranger(self) -> None:
        """Who may not use the pool is refused, whatever is free."""
        teller, word = self._teller, names.ACCESS_DENIED
        teller.typed(f"kubectl --as={PERSON} -n {STRANGER} apply -f stranger.yaml")
        body = json.dumps(manifests.pod("stranger", STRANGER))
        answer = await self._kubectl(f"--as={PERSON}", "create", "-f", "-", stdin=body, fails=True)
        teller.quoted(answer)
        if word not in answer or WEBHOOK not in answer:
            raise LateError(f"the pod should have been refused by {WEBHOOK} with {word}")
        teller.did(names.MANAGER_ADMISSION, f"refuses with {word} and says what to do")

    def _queued(self, status: str) -> bool:
        """Whether the late pod's condition has this status."""
        conditions = [c for pod in self._view.pods if pod.name == LATE for c in pod.status.conditions]
        return any(c.type == names.QUEUED and c.status == status for c in conditions)

    async def _pod_says(self, path: str, name: str = LATE) -> str:
        return await self._kubectl("-n", TEAM, "get", "pod", name, "-o", f"jsonpath={path}")

    async def _event(self, reason: str) -> str:
        """What an Event about the late pod says: it is sent after what it tells of is done."""
        about = f"--field-selector=involvedObject.name={LATE},reason={reason}"
        try:
            async with asyncio.timeout(END):
                while True:
                    if told := await self._kubectl("-n", TEAM, "get", "events", about, "-o", MESSAGES):
                        return told.splitlines()[0]
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            raise LateError(f"no event {reason} tells of pod {LATE}") from None
