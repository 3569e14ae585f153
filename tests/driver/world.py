"""A cluster in memory for the planners of drivers; kubelet, DaemonSet controller, agents and bootstrap are played."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controllers.api import names, resources, system_facts
from controllers.api.agent_report import Report
from controllers.api.driver_look import Holder, Look, Prepared
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import ConfigMap, DaemonSet, Node
from controllers.api.record import to_json
from controllers.api.settings import DriverSettings
from controllers.api.system_facts import SystemFacts
from controllers.api.user_pod import ResourceClaim, UserPod, may_use_cards
from controllers.driver.caches import Caches
from controllers.driver.drivers.plan import plan_driver
from controllers.driver.missing import Missing
from controllers.driver.node.draft import NodePlan
from controllers.driver.node.plan import plan_node
from controllers.driver.records import Pod, Pool
from controllers.driver.variants import plan_variant
from controllers.driver.world import World
from controllers.runtime.plan import Plan, Refusal
from controllers.runtime.store import Store
from tests.kit import cluster, conditions, objects, reports
from tests.kit.cluster import ConflictError
from tests.kit.objects import LONG_AGO, condition
from tests.kit.storage import Key, cache, decoded

KINDS: dict[str, tuple[resources.Resource, type[Any]]] = {
    "drivers": (resources.GPUDRIVER, GPUDriver),
    "nodes": (resources.NODE, Node),
    "reports": (resources.NODEFEATURE, Report),
    "inventories": (resources.GPUNODEINVENTORY, GPUNodeInventory),
    "devices": (resources.GPUDEVICE, GPUDevice),
    "pods": (resources.POD, Pod),
    "daemonsets": (resources.DAEMONSET, DaemonSet),
    "configmaps": (resources.CONFIGMAP, ConfigMap),
    "users": (resources.POD, UserPod),
    "claims": (resources.RESOURCECLAIM, ResourceClaim),
    "pools": (resources.GPUPOOL, Pool),
    "adopted": (resources.POD, Pod),
}
SCOPES: dict[str, Callable[[Any], bool]] = {
    "pods": lambda pod: pod.metadata.namespace == names.NAMESPACE,
    "adopted": lambda pod: names.DRIVER_ADOPTED in pod.metadata.labels,
    "users": lambda pod: pod.metadata.namespace != names.NAMESPACE and may_use_cards(pod),
}
"""Which pods a cache has."""
STORES: dict[str, list[tuple[str, type[Any]]]] = defaultdict(list)
"""By kind, the caches of the process, and as which record."""
for _name, (_kind, _record) in KINDS.items():
    STORES[_kind.kind].append((_name, _record))
Told = dict[Key, str]
"""By object, its version of which the watches told last."""
VERSION, NEXT = "580.178.04", "610.57.04"
KERNEL = "6.8.0-71-generic"
SAID = ("ManagedDisabled", "ManagedElsewhere", "ReadyForPooling")
"""Conditions by which inventory and bootstrap have looked at a node."""
LOOK = Look(system="ubuntu24.04", kernel=KERNEL, free_mib=50_000, gpus=1)


class Cluster(cluster.Cluster):
    """Bare nodes and GPUDrivers, and words for what happens to them."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = DriverSettings(enabled=True)
        self.enabled = True
        self.looks: dict[str, Look | Prepared | str] = {}
        """What a look finds on a node; a text is kubelet's word about the image."""
        self.breaks: dict[str, tuple[int, str] | str] = {}
        """How a driver ends on a node, by node or by version: an exit code with a message, or `hangs`, `unfit`."""
        self.silent: set[str] = set()
        """Nodes on which kubelet does nothing."""
        self.refusals: dict[str, Refusal] = {}
        """Evictions that were refused."""
        self.missing = Missing()
        self.absent = ""
        """What images have in their name that the registry does not have; empty where it has all."""
        self._process: tuple[World, Told] | None = None
        """The process that runs, and what it was told last of each object; None before it has started."""
        self.began: dict[str, list[str]] = {}
        """Nodes that were labelled, by variant, in that order."""

    # --- what there is ----------------------------------------------------------------------

    def node(
        self, name: str = "n1", *, ready: bool = True, boot: str = objects.BOOT, kernel: str = KERNEL, **spec: Any
    ) -> None:
        """A node without a driver, with a card, as its agents tell it."""
        self.add(objects.node(name, ready=ready, boot=boot, **spec))
        with self.edit("Node", name) as node:
            node["status"]["nodeInfo"] = {"bootID": boot, "kernelVersion": kernel}
            node["status"]["conditions"] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": LONG_AGO}]
        card = objects.card(name)
        self.add(card, objects.inventory(name, [card], conditions=[condition(kind, False) for kind in SAID]))
        self.report(name, boot=boot, kernel=kernel)

    def report(
        self, name: str, *, driver: str = "", boot: str = objects.BOOT, kernel: str = KERNEL, **facts: Any
    ) -> None:
        """What the node's agent says."""
        made = reports.report(name, [], driver=driver, boot=boot)
        source = "container" if driver else ""
        told = {"os_id": "ubuntu", "os_version": "24.04", "system": "ubuntu24.04", "kernel": kernel}
        seen = SystemFacts(**{**told, "driver_source": source, **facts})
        attributes = made["spec"]["features"]["attributes"]
        attributes[names.FEATURE_SYSTEM] = {"elements": system_facts.write(seen)}
        self.put(resources.NODEFEATURE, made)

    def driver(self, name: str = "main", *, version: str = VERSION, **spec: Any) -> None:
        """A GPUDriver that compiles on every node."""
        made = {"version": version, "mode": "Compiled", **spec}
        meta = {"name": name, "creationTimestamp": LONG_AGO, "generation": 1, "labels": {}, "annotations": {}}
        self.put(resources.GPUDRIVER, {"metadata": meta, "spec": made, "status": {}})

    def delete_driver(self, name: str = "main") -> None:
        """Somebody deletes a GPUDriver; it goes once its last finalizer does."""
        if ("GPUDriver", name) in self.objects:
            self.merge("GPUDriver", name, {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})
            self.collect()

    def reboot(self, name: str, boot: str) -> None:
        """The node starts anew: no driver is loaded, and kubelet starts its pods again."""
        with self.edit("Node", name) as node:
            node["status"]["nodeInfo"]["bootID"] = boot
        self.report(name, boot=boot)
        self._service(name, False)
        for (kind, key), pod in list(self.objects.items()):
            if kind == "Pod" and pod["spec"].get("nodeName") == name and _daemonset(pod):
                self.merge(kind, key, {"status": {"conditions": None, "containerStatuses": None}})

    # --- who acts beside the process ----------------------------------------------------------

    def outside(self) -> None:
        """The DaemonSet controller, kubelets, agents and bootstrap do what is theirs, once."""
        self._daemonsets()
        for (kind, key), pod in list(self.objects.items()):
            if kind == "Pod" and pod["spec"]["nodeName"] not in self.silent:
                self._kubelet(key, pod)
        self.collect()

    def _daemonsets(self) -> None:
        wanted = {}
        for (kind, _), made in self.objects.items():
            if kind == "DaemonSet":
                for (other, node), obj in self.objects.items():
                    selector = made["spec"]["template"]["spec"]["nodeSelector"]
                    if other == "Node" and selector.items() <= obj["metadata"]["labels"].items():
                        wanted[f"{names.NAMESPACE}/{made['metadata']['name']}-{node}"] = (made, node)
        for (kind, key), pod in list(self.objects.items()):
            if kind == "Pod" and key.startswith(names.NAMESPACE) and _daemonset(pod) and key not in wanted:
                self.drop(resources.POD, key)
                self._unloaded(pod["spec"]["nodeName"])
                self._service(pod["spec"]["nodeName"], False)
        for key, (made, node) in wanted.items():
            if ("Pod", key) not in self.objects:
                owner = {"kind": "DaemonSet", "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
                meta = {"name": key.partition("/")[2], "namespace": names.NAMESPACE, "ownerReferences": [owner]}
                meta["labels"] = made["spec"]["template"]["metadata"]["labels"]
                spec = {"nodeName": node, **made["spec"]["template"]["spec"]}
                self.put(resources.POD, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def _unloaded(self, node: str) -> None:
        """The agent of a node whose driver's pod has gone."""
        if ("Node", node) in self.objects:
            info = self.objects["Node", node]["status"]["nodeInfo"]
            self.report(node, boot=info["bootID"], kernel=info["kernelVersion"])

    def _kubelet(self, key: str, pod: dict[str, Any]) -> None:
        node = pod["spec"]["nodeName"]
        if ("Node", node) not in self.objects:
            self.drop(resources.POD, key)
        elif key.partition("/")[0] != names.NAMESPACE:
            return  # it runs
        elif _daemonset(pod):
            self._installs(key, pod, node)
        else:
            self._looks(key, node)

    def _looks(self, key: str, node: str) -> None:
        found = self.looks.get(node, LOOK)
        images = [one["image"] for one in self.objects["Pod", key]["spec"]["containers"]]
        images += [one["image"] for one in self.objects["Pod", key]["spec"].get("initContainers", ())]
        if self.absent and any(self.absent in image for image in images):
            found = "manifest unknown"
        if isinstance(found, str):
            said = {"name": "image", "state": {"waiting": {"reason": "ErrImagePull", "message": found}}}
            self._say(key, {"phase": "Pending", "containerStatuses": [said]})
            return
        says, code = json.dumps(to_json(found)), 30 if isinstance(found, Prepared) else 0
        image = {"name": "image", "state": {"terminated": {"exitCode": code, "message": says if code else ""}}}
        look = to_json(found if isinstance(found, Look) else LOOK)
        looked = {"name": "look", "state": {"terminated": {"exitCode": 0, "message": json.dumps(look)}}}
        self._say(key, {"phase": "Failed" if code else "Succeeded", "containerStatuses": [image, looked]})

    def _installs(self, key: str, pod: dict[str, Any], node: str) -> None:
        container = pod["spec"]["containers"][0]
        version = container["image"].rpartition(":")[2].partition("-")[0]
        how = self.breaks.get(node, self.breaks.get(version, ""))
        kernel = self.objects["Node", node]["status"]["nodeInfo"]["kernelVersion"]
        if how == "hangs" or ("generic" in container["image"] and kernel not in container["image"]):
            return  # the modules of another kernel do not load
        if isinstance(how, tuple):
            code, said = how
            ended = {"terminated": {"exitCode": code, "message": said}}
            name = "prepare" if code in (20, 30) else container["name"]
            status = {"name": name, "restartCount": 3, "state": {}, "lastState": ended}
            place = "initContainerStatuses" if name == "prepare" else "containerStatuses"
            self._say(key, {"phase": "Pending", place: [status]})
            return
        self._say(key, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        with_driver = self.objects["NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(node)}"]
        if names.FEATURE_DRIVER not in with_driver["spec"]["features"]["attributes"]:
            boot = self.objects["Node", node]["status"]["nodeInfo"]["bootID"]
            self.report(node, driver=version, boot=boot, kernel=kernel)
        self._service(node, how != "unfit")

    def _say(self, key: str, status: dict[str, Any]) -> None:
        if self.objects["Pod", key].get("status") != status:
            with self.edit("Pod", key) as pod:
                pod["status"] = status

    def _service(self, node: str, ready: bool) -> None:
        """Bootstrap's word."""
        if ("GPUNodeInventory", node) in self.objects:
            found = self.objects["GPUNodeInventory", node]
            if conditions.holds(found, "ReadyForPooling") != ready:
                with self.edit("GPUNodeInventory", node) as inventory:
                    conditions.put(inventory, condition("ReadyForPooling", ready))

    def collect(self) -> None:
        """What is deleted goes when its last finalizer does."""
        for (kind, name), obj in list(self.objects.items()):
            if (
                kind == "GPUDriver"
                and obj["metadata"].get("deletionTimestamp")
                and not obj["metadata"].get("finalizers")
            ):
                self.drop(resources.GPUDRIVER, name)

    # --- the process ----------------------------------------------------------------------------

    def view(self) -> World:
        """A process that has just started."""
        stores = self.stores(KINDS)
        for name, keeps in SCOPES.items():
            stores[name] = cache("Pod", filter(keeps, stores[name]))
        return self._set(World(Caches(**stores), clock=lambda: self.now, refusals=self.refusals))

    def process(self) -> World:
        """The process that runs: it has lived since its last start, and was told of every change since."""
        if self._process is None:
            self._process = (self.view(), self._versions())
            self._process[0].note_changes()
        self._tell_news(*self._process)
        return self._set(self._process[0])

    def restart(self) -> None:
        """The process dies, and a new one reads everything anew."""
        self._process = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the cluster has a process of its own."""
        return self.__dict__ | {"_process": None}

    def _set(self, world: World) -> World:
        world.settings, world.enabled, world.missing = self.settings, self.enabled, self.missing
        return world

    def _versions(self) -> Told:
        return {key: obj["metadata"]["resourceVersion"] for key, obj in self.objects.items()}

    def _tell_news(self, world: World, told: Told) -> None:
        """What the watches tell of the objects that have changed; `told` is what they have told before."""
        found = self._versions()
        for key in [*(told.keys() - found.keys()), *(at for at, version in found.items() if told.get(at) != version)]:
            for name, record in STORES.get(key[0], ()):
                self._show(getattr(world.caches, name), name, record, key)
        told.clear()
        told.update(found)

    def _show(self, store: Store[Any], name: str, record: type[Any], key: Key) -> None:
        """One watch tells of an object, or that it is gone."""
        obj, keeps = self.objects.get(key), SCOPES.get(name)
        made = decoded(record, obj) if obj is not None else None
        if made is not None and (keeps is None or keeps(made)):
            store.on_watch_event(made)
        elif (gone := store.get(key[1])) is not None:
            store.on_watch_event(gone, deleted=True)

    def check_process(self) -> None:
        """What the process that runs sees of each key is what one sees that has just started."""
        running, fresh = self.process(), self.view()
        for kind, name in self.all_keys():
            if kind == "GPUDriver":
                assert running.driver(name) == fresh.driver(name), name
                assert running.rollout(name) == fresh.rollout(name), name
            elif kind == "GPUNodeInventory":
                assert running.node(name) == fresh.node(name), name
            elif kind == "Variant":
                assert running.variant(name) == replace(fresh.variant(name), deleted_at=running.deleted_at), name
            if kind in ("GPUDriver", "GPUNodeInventory"):
                assert self._plan(running, kind, name) == self._plan(fresh, kind, name), name

    def all_keys(self) -> list[tuple[str, str]]:
        """The keys of all loops."""
        found = [key for key in self.objects if key[0] in ("GPUNodeInventory", "GPUDriver")]
        return sorted([*found, *(("Variant", value) for value in self.process().caches.variants())])

    def planned(self, kind: str, name: str) -> Plan:
        """What a loop wants of a key now."""
        return self.of_node(name).plan if kind == "GPUNodeInventory" else self._plan(self.process(), kind, name)

    def _plan(self, world: World, kind: str, name: str) -> Plan:
        """What a loop of a process wants of a key now."""
        if kind == "GPUDriver":
            seen = world.driver(name)
            return plan_driver(seen, self.now) if seen is not None else Plan()
        if kind == "Variant":
            return plan_variant(world.variant(name), self.now)
        return plan_node(world.node(name), self.now).plan

    def of_node(self, name: str) -> NodePlan:
        """A node's plan."""
        made = plan_node(self.process().node(name), self.now)
        if made.missing is not None:
            self.missing.note_missed(made.missing, self.now)
        if made.found is not None:
            self.missing.note_found(made.found, self.now)
        return made

    def reconcile(self, kind: str, name: str, stop_after: int | None = None) -> None:
        """One pass of a loop over a key, or a process that dies in it."""
        before = self.label(name) if kind == "GPUNodeInventory" else None
        self.execute(self.planned(kind, name).actions, names.MANAGER_DRIVER, stop_after)
        after = self.label(name) if kind == "GPUNodeInventory" else None
        if after is not None and after != before:
            self.began.setdefault(after, []).append(name)
        self.collect()

    def settle(self, rounds: int = 60) -> None:
        """Let all work until nobody wants anything."""
        for _ in range(rounds):
            before = json.dumps(sorted(map(repr, self.objects.values())))
            for key in self.all_keys():
                try:
                    self.reconcile(*key)
                except ConflictError:
                    self.writes += 1  # comes again, as in the process
                self.check()
            self.outside()
            if before == json.dumps(sorted(map(repr, self.objects.values()))):
                self.check_process()
                if (left := self._put_off()) <= 0:
                    return
                self.now += left
        raise AssertionError(
            f"it does not settle; still wanted: {[self.planned(*key).actions for key in self.all_keys()]}"
        )

    def _put_off(self) -> float:
        """Seconds for which the process makes no DaemonSet whose name came free a moment ago; 0 where it wants none."""
        variants = (self.planned(*key).requeue_after for key in self.all_keys() if key[0] == "Variant")
        return max((left for left in variants if left is not None), default=0.0)

    def check(self) -> None:
        """What must hold after every plan."""
        works = {name: work for name in self.nodes() if (work := self.work(name)) is not None}
        phases = [work["phase"] for name, work in works.items() if self._is_ready(name)]
        assert phases.count("Installing") <= self.settings.install_parallel
        assert phases.count("Preflight") <= self.settings.prefetch_parallel

    def _is_ready(self, node: str) -> bool:
        return str(self.objects["Node", node]["status"]["conditions"][0]["status"]) == "True"

    # --- what came of it --------------------------------------------------------------------------

    def nodes(self) -> list[str]:
        """The nodes."""
        return [name for kind, name in self.objects if kind == "Node"]

    def work(self, node: str = "n1") -> dict[str, Any] | None:
        """What is done to a node."""
        found: dict[str, Any] | None = self.objects["GPUNodeInventory", node]["status"].get("driverWork")
        return found

    def phase(self, node: str = "n1") -> str | None:
        """Its phase."""
        work = self.work(node)
        return work["phase"] if work is not None else None

    def last(self, node: str = "n1") -> str | None:
        """How the last work on a node ended."""
        found = self.objects["GPUNodeInventory", node]["status"].get("lastDriverWork")
        return found["result"] if found else None

    def label(self, node: str = "n1") -> str | None:
        """The node's variant."""
        found: str | None = self.objects.get(("Node", node), {"metadata": {"labels": {}}})["metadata"]["labels"].get(
            names.DRIVER_VARIANT
        )
        return found

    def status(self, driver: str = "main") -> dict[str, Any]:
        """What a GPUDriver says of itself."""
        found: dict[str, Any] = self.objects["GPUDriver", driver]["status"]
        return found

    def told(self, kind: str, driver: str = "main") -> tuple[str, str]:
        """Status and reason of a GPUDriver's condition."""
        return conditions.state_of(self.objects["GPUDriver", driver], kind)

    def checks(self) -> list[str]:
        """Check pods that are there."""
        return [key for (kind, key), pod in self.objects.items() if kind == "Pod" and not _daemonset(pod)]


def held_by(command: str) -> Look:
    """A look at a node on which a process holds a card."""
    return replace(LOOK, holders=(Holder(pid=7, command=command),))


def _daemonset(pod: dict[str, Any]) -> bool:
    return any(one["kind"] == "DaemonSet" for one in pod["metadata"].get("ownerReferences", ()))
