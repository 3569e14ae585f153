"""What the processes and gpu-nfd-coverage are made to do, so that each does everything that it may ever do.

Each paragraph names the verbs that it is there for; those that no paragraph names are met on the way of a first card.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.runtime.connections import ENDING
from controllers.runtime.errors import ApiError, Conflict, NotFound
from sim import controlplane
from sim.module.identities import kubeconfig_for
from sim.module.install import ROOT, Tools
from sim.nodes import names as sim
from sim.nodes.manifests import create_nodes, node_manifests
from sim.view import LateError
from tests.console.clusters import console
from tests.kit.waiting import PATIENCE
from tests.slice.drivers import NEWER, Drivers
from tests.webhook import direct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sim.controlplane import ControlPlane
    from tests.rbac.log import Log, Wanted
    from tests.slice.people import People

COVERAGE = names.COVERAGE
TEAM, NODE, OTHER = "team", "gpu-1", "gpu-2"
WEBHOOKS = (names.WEBHOOK, f"{names.WEBHOOK}-2")
PROCESSES = (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.DRIVER_CONTROLLER, names.WEBHOOK)
QUICK: dict[str, Any] = {
    "admission": {"unseenTTL": "1s", "reservationTTL": "3s"},
    "pools": {"danglingAfter": "1s"},
    "driver": {"enabled": True},
    "bootstrap": {"monitoring": {"scrapePeriod": "1s"}},
}
A_RACE = 15.0
"""Seconds in which who reads an old version comes to read it anew, or has lost so often that it rests for long."""
TAINT = {"key": "example.com/gpu", "value": "train", "effect": "NoSchedule"}


class Story:
    """One cluster, and what people do to it."""

    def __init__(self, people: People, log: Log) -> None:
        self.people, self.view, self.client, self.log = people, people.view, people.client, log
        self._xids = cycle((79, 48))

    # --- what is there -----------------------------------------------------------------------------

    def cards(self, node: str) -> list[str]:
        return sorted(device.name for device in self.view.devices if device.status.node_name == node)

    def condition(self, obj: Any, kind: str) -> str:
        found = kinds.find(obj.status.conditions, kind) if obj is not None else None
        return f"{found.status} {found.reason}" if found else ""

    def of_card(self, name: str, kind: str) -> str:
        return self.condition(self.view.devices.get(name), kind)

    async def until(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        await self.view.until(true, seconds, lambda: what)

    # --- hands -------------------------------------------------------------------------------------

    async def mark(self, resource: resources.Resource, name: str, **metadata: Any) -> None:
        await self.client.merge(resource, name, {"metadata": metadata}, manager="test")

    async def fault(self, node: str, fault: str | None) -> None:
        await self.mark(resources.NODE, node, annotations={sim.FAULT: fault})

    @asynccontextmanager
    async def nudged(self, *objects: tuple[resources.Resource, str], namespace: str = "") -> AsyncIterator[None]:
        """Somebody writes these objects on and on, so that a version that was read is soon an old one."""

        async def write(resource: resources.Resource, name: str) -> None:
            for number in count():
                body = {"metadata": {"annotations": {"example.com/nudge": str(number)}}}
                with suppress(NotFound, Conflict):  # it is made anew; the one that was read has been deleted meanwhile
                    await self.client.merge(resource, name, body, manager="test", namespace=namespace or None)

        async with asyncio.TaskGroup() as group:
            writing = [group.create_task(write(*one)) for one in objects]
            yield
            for task in writing:
                task.cancel()

    # --- paragraphs --------------------------------------------------------------------------------

    async def pools_and_pods(self) -> None:
        """A pool of one card; a pod in, one refused, one whose namespace is not listed; and the pool's end.

        SubjectAccessReview; a tenant's Binding; a taint; the finalizer; operands made and deleted; labels of nodes.
        """
        people, card = self.people, self.cards(NODE)[0]
        await people.namespace(TEAM)
        refuses = {"onShortage": "Refuse"}
        await people.pool("first", access={"namespaces": [TEAM]}, scheduling={"taints": [TAINT]}, queue=refuses)
        await people.annotate(card, "first")
        await people.offered("first", 1)
        await people.pod("runs", TEAM, "first")
        await people.running(TEAM, 1)
        assert "InsufficientCapacity" in await people.refused("late", TEAM, "first")
        # The administrator may use every pool; that is what the webhook asks RBAC, as the namespace is not listed.
        assert "InsufficientCapacity" in await people.refused("stranger", "default", "first")
        with suppress(ApiError):
            await people.annotate(self.cards(NODE)[1], "nowhere")  # refused, once the quorum has been asked
        for namespace in (TEAM, "team-2"):
            await self._binds(namespace)
        await people.remove(resources.POD, "runs", TEAM)
        await people.settled("first", (1, 0, 0, 1))
        await people.retire("first")

    async def queue(self) -> None:
        """Pods of two namespaces wait for one card, read why, and are let go on one after the other."""
        people, teams = self.people, (TEAM, "team-2")
        await people.pool("waited-for", access={"namespaces": list(teams)}, queue={})
        await people.annotate(self.cards(NODE)[0], "waited-for")
        await people.offered("waited-for", 1)
        await people.pod("first", TEAM, "waited-for")
        await people.running(TEAM, 1)
        for team in teams:
            await people.pod("waits", team, "waited-for")
        for team in teams:
            await self.until(partial(self._is_told, team, "waits"), f"the pod of {team} to be told why it waits")
            await self._tells_beside_others(team)
        await people.remove(resources.POD, "first", TEAM)
        left = set(teams)
        while left:
            await self.until(partial(self._one_runs, left), f"a pod of {left} to run")
            team = next(team for team in left if self._runs(team))
            await people.remove(resources.POD, "waits", team)
            left.remove(team)
        await people.retire("waited-for")

    async def _tells_beside_others(self, namespace: str) -> None:
        """Somebody else writes a pod that is to be told why it waits, so that its version is read by quorum."""

        wanted = [(names.POOL_CONTROLLER, "get", "pods")]

        async def tell() -> None:
            await self.people.pod("again", namespace, "waited-for")
            with suppress(LateError):  # who loses this race again and again rests ever longer: another pod begins anew
                await self.until(
                    lambda: self._is_told(namespace, "again") or not self.log.missing(wanted, namespace),
                    f"pod again of {namespace} to be told",
                    A_RACE,
                )
            await self.people.remove(resources.POD, "again", namespace)

        async with self.nudged((resources.POD, "again"), namespace=namespace):
            await self.log.shows(wanted, tell, namespace=namespace)

    def _is_told(self, namespace: str, name: str) -> bool:
        found = [pod for pod in self.people.pods(namespace) if pod.name == name]
        return any(each.type == names.QUEUED for pod in found for each in pod.status.conditions)

    def _one_runs(self, namespaces: set[str]) -> bool:
        return any(map(self._runs, namespaces))

    def _runs(self, namespace: str) -> bool:
        return any(pod.ready for pod in self.people.pods(namespace) if pod.name == "waits")

    async def _binds(self, namespace: str) -> None:
        """A tenant binds a pod, which is read then: does it ask for cards?"""
        with suppress(ApiError):
            await self.people.namespace(namespace)
        async with self.people.tenant(namespace) as tenant:
            await tenant.pod("plain", namespace, None, schedulerName="nobody")
            binding = {"metadata": {"name": "plain"}, "target": {"kind": "Node", "name": NODE}}
            await tenant.client.request("POST", resources.POD.path(namespace, "plain", "binding"), body=binding)
            await tenant.remove(resources.POD, "plain", namespace)

    async def modes(self) -> None:
        """A card is shared, divided, and whole again; an annotation without a pool goes in the end."""
        people, card = self.people, self.cards(NODE)[-1]  # the A100 of the node's two
        await people.pool("second", allocation={"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 2}})
        await people.annotate(card, "second")
        await people.offered("second", 2)
        body = {"spec": {"allocation": {"mode": "MIG", "migProfile": "3g.20gb", "timeSlice": None}}}
        await self.client.merge(resources.GPUPOOL, "second", body, manager="test")
        await people.offered("second", 2)
        await self.until(lambda: self._settled("second", "MIG"), "the pool to be divided")
        for named in (None, "second"):  # whose MIG mode it is, is asked then
            await people.annotate(card, named)
        body = {"spec": {"allocation": {"mode": "Exclusive", "migProfile": None}}}
        await self.client.merge(resources.GPUPOOL, "second", body, manager="test")
        await self.until(lambda: self._settled("second", "Exclusive"), "the pool to be whole")
        await people.remove(resources.GPUPOOL, "second")
        await self.until(lambda: self.view.pools.get("second") is None, "the pool to go")
        await self.until(lambda: names.ASSIGNMENT not in self._annotations(card), "the annotation to go")

    def _settled(self, pool: str, mode: str) -> bool:
        found = self.view.pools.get(pool)
        applied = found.status.applied_allocation if found else None
        return applied is not None and applied.mode == mode and self.condition(found, kinds.MAINTENANCE)[:5] == "False"

    def _annotations(self, card: str) -> Mapping[str, str]:
        found = self.view.devices.get(card)
        return found.metadata.annotations if found is not None else {}

    async def hands(self) -> None:
        """What belongs to a process is edited and deleted: the rule of NFD, the webhook's Secret."""
        rule, secret = resources.NODEFEATURERULE, resources.SECRET
        before = orjson.loads(await self.client.get(rule, names.NODE_FEATURE_RULE))["metadata"]["uid"]
        await self.people.remove(rule, names.NODE_FEATURE_RULE)

        async def back() -> bytes:
            answer = await self.client.get(rule, names.NODE_FEATURE_RULE)
            if orjson.loads(answer)["metadata"]["uid"] == before:
                raise NotFound(0, "", "the old one is still there")
            return answer

        await self.people.eventually(back)
        await self.people.remove(secret, names.WEBHOOK_SECRET, names.NAMESPACE)
        path = secret.path(names.NAMESPACE, names.WEBHOOK_SECRET)
        await self.people.eventually(lambda: self.client.request("GET", path))
        broken = {"data": {"tls.crt": "", "ca.crt": ""}}
        await self.client.merge(secret, names.WEBHOOK_SECRET, broken, manager="test", namespace=names.NAMESPACE)

        async def made_anew() -> bytes:
            answer = await self.client.request("GET", path)
            if not orjson.loads(answer)["data"]["tls.crt"]:
                raise NotFound(0, "", "no certificate yet")
            return answer

        await self.people.eventually(made_anew)

    async def nodes(self) -> None:
        """A node comes and goes: its records go after a quorum read of the Node."""
        await create_nodes(self.client, node_manifests(["t4-4"], prefix="brief"))
        await self.until(lambda: len(self.cards("brief-1")) == 4, "the node's cards")
        await self.people.remove(resources.NODE, "brief-1")
        gone = lambda: not self.cards("brief-1") and self.view.inventories.get("brief-1") is None  # noqa: E731
        await self.until(gone, "the node's records to go")

    async def drivers(self) -> None:
        """A node without a driver gets one, and another version of it, and is deleted; then its GPUDriver is.

        Check pod, ConfigMap with a parameter of a module, DaemonSet, label, finalizer; evictions of pods of several
        namespaces, which nobody makes anew; a status that somebody else wrote meanwhile.
        """
        made = Drivers(self.people, "rights")
        (node,) = await made.nodes()
        parameters = {"nvidia": {"NVreg_RestrictProfilingToAdminUsers": "0"}}
        canary = {"soak": "1s", "evidence": "None"}
        drain = {"strategy": "Drain", "drain": {"waitFor": "1s", "bare": "Evict"}, "canary": canary}
        driver = await made.driver(mode="Compiled", kernelModules=parameters, rollout=drain)
        await made.in_service([node])
        for team in ("drained-a", "drained-b"):
            await self.people.namespace(team)
            await self.client.create(resources.POD, _foreign(node), team, manager="test")
        await made.change(version=NEWER)
        await made.in_service([node], NEWER)
        wanted = [(names.DRIVER_CONTROLLER, "get", "gpudrivers")]
        priority = count(1)
        async with self.nudged((resources.GPUDRIVER, driver)):
            await self.log.shows(wanted, lambda: made.change(priority=next(priority)), 300)
        await self.people.remove(resources.NODE, node)
        await self.people.remove(resources.GPUDRIVER, driver)
        await self._gone({"labelSelector": names.LABEL_DRIVER}, resources.DAEMONSET, resources.CONFIGMAP)

    async def collisions(self) -> None:
        """Writers collide, so that each reads by quorum what it may write now; a faulted card is taken back by hand."""
        people, card = self.people, self.cards(OTHER)[0]
        await people.pool("busy")
        await people.eventually(lambda: people.annotate(card, "busy"))  # no replica may be ready yet
        await people.offered("busy", 1)
        about = ((resources.GPUDEVICE, card), (resources.GPUNODEINVENTORY, OTHER), (resources.GPUPOOL, "busy"))
        nodes = ((resources.NODE, OTHER),)
        wanted = [
            (account, "get", resource.plural)
            for account in (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER)
            for resource, _ in about[:2]
        ]
        wanted += [(names.POOL_CONTROLLER, "get", "gpupools"), (names.WEBHOOK, "get", "gpudevices")]
        wanted += [(names.BOOTSTRAP, "get", "nodes")]
        async with self.nudged(*about, *nodes):
            await self.log.shows(wanted, lambda: self._turn(card, wanted), 900)
        await people.retire("busy")

    async def _turn(self, card: str, wanted: list[Wanted]) -> None:
        """Something to write, and back, for those who have not collided yet."""
        late = set(self.log.missing(wanted))
        if (promises := (names.WEBHOOK, "get", "gpudevices")) in late:
            late.remove(promises)
            # Who asks while the card is not offered again yet is refused, and nobody writes it.
            await self.people.settled("busy", (1, 0, 0, 1))
            await asyncio.gather(*(self._hurry(f"hurried-{number}") for number in range(4)))
        if (names.BOOTSTRAP, "get", "gpudevices") in late:
            await self._faulted_and_returned(card)
        elif late:
            for label, state in (("false", "True"), (None, "False")):
                await self.mark(resources.NODE, OTHER, labels={names.LABEL_ENABLED: label})
                await self._says(card, kinds.MANAGED_DISABLED, state)

    async def _hurry(self, name: str) -> None:
        """A pod that comes with others for the same card, so that their replicas write it at once; it goes again."""
        with suppress(ApiError):
            await self.people.pod(name, TEAM, "busy")
            await self.people.remove(resources.POD, name, TEAM)

    async def _faulted_and_returned(self, card: str) -> None:
        device = self.view.devices.get(card)
        assert device is not None
        assert device.status.hardware is not None
        # Another number each time: the same one has been returned from, and says nothing new.
        await self.fault(OTHER, f"xid:{device.status.hardware.pci.address}={next(self._xids)}")
        await self._says(card, kinds.FAULTED, "True")
        await self.fault(OTHER, None)
        await self.mark(resources.GPUDEVICE, card, annotations={names.RETURN: "true"})
        await self._says(card, kinds.FAULTED, "False")
        await self.until(lambda: names.RETURN not in self._annotations(card), "the command to be removed")

    async def _says(self, card: str, kind: str, state: str) -> None:
        await self.until(lambda: self.of_card(card, kind).startswith(state), f"{kind} of {card} to be {state}")

    async def settings(self) -> None:
        """A component is switched off and on: its DaemonSet and its ConfigMap go."""
        off = {"dcgmExporter": {"enabled": False}}
        await self.people.settings(**QUICK | {"bootstrap": QUICK["bootstrap"] | off})

        exporter = {"labelSelector": f"{names.LABEL_COMPONENT}=dcgm-exporter"}
        await self._gone(exporter, resources.DAEMONSET, resources.CONFIGMAP)
        await self.people.settings(**QUICK)

    async def _gone(self, query: dict[str, str], *of: resources.Resource) -> None:
        """Wait until nothing that the selector means is left."""

        async def gone() -> bytes:
            for resource in of:
                path = resource.path(names.NAMESPACE if resource.namespaced else None)
                if found := orjson.loads(await self.client.request("GET", path, query=query))["items"]:
                    raise ApiError(0, "", f"{resource.kind} {found[0]['metadata']['name']} is there")
            return b""

        await self.people.eventually(gone)

    async def stranger(self) -> None:
        """A review for a namespace that the webhook has not heard of yet: it asks for it."""
        await self.people.pool("chosen", access={"namespaceSelector": {"matchLabels": {"team": "a"}}})
        path = resources.MUTATING_WEBHOOK.path(name=names.WEBHOOK_CONFIGURATION)
        found = orjson.loads(await self.client.request("GET", path))["webhooks"][0]["clientConfig"]
        port = int(found["url"].split("/")[2].rpartition(":")[2])
        context = await direct.trust(_Reader(self.client))  # type: ignore[arg-type]
        wanted = [(names.WEBHOOK, "get", "namespaces")]

        async def ask() -> None:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, **ENDING)) as session:
                body = direct.review("chosen", namespace="not-heard-of")
                assert direct.word(await direct.send(session, port, body)) != "Granted"

        await self.log.shows(wanted, ask, 20)
        await self.people.retire("chosen")

    async def events(self) -> None:
        """The module is disabled with settings that cannot be read, which every process tells, then tells again.

        Events are made, and those that are there are read and counted; leases are taken and taken over.
        """
        body = {"spec": {"enabled": False, "settings": {"admission": {"unseenTTL": "soon"}}}}
        await self.client.merge(resources.MODULECONFIG, names.MODULE, body, manager="test")
        again = [(account, verb, "events") for account in PROCESSES for verb in ("get", "patch")]
        made = [(account, "create", "events") for account in PROCESSES]
        await self.log.shows(again, lambda: self._told_anew(again), 120)

        async def afresh() -> None:
            await self.client.request("DELETE", resources.EVENT.path("default"))
            await self._told_anew(made)

        await self.log.shows(made, afresh, 120)

    async def switched_off(self) -> None:
        """The module has been disabled just before: what it made on nodes and for the cluster goes."""
        await self._gone({"labelSelector": f"{names.LABEL_MODULE}={names.MODULE}"}, resources.RUNTIMECLASS)

    async def _told_anew(self, wanted: list[Wanted]) -> None:
        """Those who are missing are started anew, and get the time to lead: before that they tell nothing."""
        await self._restarted(*{account for account, _, _ in self.log.missing(wanted)})
        await self.log.seen(wanted, 20)

    async def _restarted(self, *accounts: str) -> None:
        """End processes in order, so that their leases are free, and wait until they are back."""
        chosen = [name for account in accounts for name in (WEBHOOKS if account == names.WEBHOOK else (account,))]
        before = controlplane.status(self.people.plane.dir).processes
        for name in chosen:
            pid = before[name].pid
            assert pid is not None
            os.kill(pid, signal.SIGTERM)
        for name in chosen:
            await self.people.back(name, before[name].restarts)


async def coverage(plane: ControlPlane, tools: Tools, *, fails: bool = False) -> None:
    """`gpu-nfd-coverage` under its own token; what it finds is not the matter here."""
    folder = plane.dir / "pki" / "identities"
    config = await asyncio.to_thread(kubeconfig_for, plane, tools, COVERAGE, folder)
    command = [sys.executable, "-m", "controllers.inventory.coverage", f"--kubeconfig={config}"]
    run = partial(subprocess.run, command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    done = await asyncio.to_thread(run)
    assert fails or done.returncode in (0, 1), done.stderr


async def looked_at(plane: ControlPlane, tools: Tools) -> None:
    """`gpu-console` under its own token; who looks is the webhook's account, which is somebody and may list pods."""
    folder = plane.dir / "pki" / "identities"
    config = await asyncio.to_thread(kubeconfig_for, plane, tools, names.CONSOLE, folder)
    token = await asyncio.to_thread(tools.run, "create", "token", names.WEBHOOK, f"--namespace={names.NAMESPACE}")
    async with console(config, own=False) as made:
        status, found = await made.browser(token.strip()).get("/api/rows/fleet")
        assert (status, bool(found["rows"])) == (200, True), found
        assert not made.feed.refused


def _foreign(node: str) -> dict[str, Any]:
    """A pod that is on the node already, and has a card by a resource of others."""
    container = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": "drained"}, "spec": spec}


class _Reader:
    """What `direct.trust` asks of a client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def get(self, path: str) -> Any:
        return orjson.loads(await self._client.request("GET", path))
