"""The fence where a pool goes without its plugins' word: deleted while we are off or away (docs/dev/design.md, Fence).

Here plugins are processes that live and die, and kubelet hands out what they list; what the cluster was told of that
may be stale. Whatever was told: nobody's card goes to another pool, and no card is listed by two plugins.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap, Node, Pod
from controllers.domain import plugin_settings
from controllers.gpupool.operands.device_plugin import cards_in
from controllers.gpupool.pool.plan import plan_orphans
from controllers.install import dismantle
from controllers.runtime.plan import Plan
from tests.gpupool.machine import Controlled
from tests.gpupool.world import Cluster
from tests.kit.cluster import ConflictError
from tests.kit.manifests import body
from tests.kit.objects import allocation

POOLS, NODES = ("a", "b"), ("n1", "n2")
CARDS = [f"{node}-0000-{number:02x}-00-0" for node in NODES for number in (0, 1)]
READY, AWAY = ({"type": "Ready", "status": status} for status in ("True", "Unknown"))


class Living(Cluster):
    """A cluster whose plugins are processes, and whose kubelets know what nobody else does."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: dict[tuple[str, str], set[str]] = {}
        """What each plugin (node, pool) that runs has told kubelet: names of cards."""
        self.held: dict[str, tuple[str, str]] = {}
        """Which pod (key) has a card, and of which pool it was."""

    def devices(self, node: str) -> list[GPUDevice]:
        return [d for d in self.all(resources.GPUDEVICE, GPUDevice) if d.status.node_name == node]

    def is_ready(self, node: str) -> bool:
        return next(n.ready for n in self.all(resources.NODE, Node) if n.name == node)

    def tenants(self) -> list[Pod]:
        return [pod for pod in self.all(resources.POD, Pod) if pod.metadata.namespace != names.NAMESPACE]

    def plugin(self) -> None:
        self.kubelets()
        for node, pool in sorted(self.listed):
            if self.is_ready(node):
                self.sync(node, pool)
        self.kubelets(end=True)

    def kubelets(self, *, end: bool = False) -> None:
        """Plugins begin where they are to run; `end`: those that nobody wants any more end, told or not."""
        for node in self.all(resources.NODE, Node):
            for pool in (*POOLS, "late") if node.ready else ():
                key, pod = (node.name, pool), f"plugin-{node.name}-{pool}"
                made = ("DaemonSet", f"{names.NAMESPACE}/{names.plugin_object(pool)}") in self.objects
                if made and names.pool_node_label(pool) in node.metadata.labels:
                    if key not in self.listed:
                        self.listed[key] = set()
                        meta = {"name": pod, "namespace": names.NAMESPACE, "labels": {names.LABEL_POOL: pool}}
                        self.put(resources.POD, {"metadata": meta, "spec": {"nodeName": node.name}})
                elif end and key in self.listed:
                    del self.listed[key]
                    self.drop(resources.POD, f"{names.NAMESPACE}/{pod}")
        self.hidden = frozenset(key for kind, key in self.objects if kind == "Pod" and key.startswith(names.NAMESPACE))

    def sync(self, node: str, pool: str) -> None:
        """One look of a plugin: what goes falls off its list, then all is told, then what comes is listed."""
        configs = [c for c in self.all(resources.CONFIGMAP, ConfigMap) if c.name == names.plugin_object(pool)]
        allowed = cards_in(configs[0]) if configs else set()
        asked = plugin_settings.read(pool, configs[0].data.get(names.PLUGIN_SETTINGS, "")) if configs else None
        for device in self.devices(node):
            now, card = device.status.published, device.status.inventory_id or ""
            if now is None or now.pool == pool:
                self._publish(device, pool, asked.of(card) if asked is not None and card in allowed else None)
                self._tell(device)
        self.listed[node, pool] = {
            d.name
            for d in self.devices(node)
            if d.status.inventory_id in allowed and d.status.published is not None and d.status.published.pool == pool
        }

    def _tell(self, device: GPUDevice) -> None:
        status = self.objects["GPUDevice", device.name]["status"]
        told: list[dict[str, Any]] = []
        if device.name in self.held:
            namespace, _, pod = self.held[device.name][0].partition("/")
            stored = self.objects.get(("Pod", f"{namespace}/{pod}"))
            uid = stored["metadata"]["uid"] if stored is not None else f"uid-{pod}"
            told = [body(allocation(pod, uid, namespace=namespace))]
        if status.get("allocations", []) != told:
            status["allocations"] = told
            self.touch(("GPUDevice", device.name))

    def ends(self, pod: Pod) -> None:
        self.drop(resources.POD, pod.key)
        self.held = {card: who for card, who in self.held.items() if who[0] != pod.key}

    def admit_bound(self) -> None:
        """Kubelet gives each bound pod a card that is listed, and refuses it where there is none."""
        for pod in self.tenants():
            if pod.node is None or pod.finished or any(who[0] == pod.key for who in self.held.values()):
                continue
            pool = pod.metadata.labels[names.LABEL_POOL]
            free = sorted(self.listed.get((pod.node, pool), set()) - self.held.keys())
            self.objects["Pod", pod.key]["status"]["phase"] = "Running" if free else "Failed"
            self.touch(("Pod", pod.key))
            if free:
                self.held[free[0]] = (pod.key, pool)

    def _collect(self) -> None:
        super()._collect()
        alive = {pool.metadata.uid for pool in self.all(resources.GPUPOOL, GPUPool)}
        for (kind, key), obj in list(self.objects.items()):
            owners = [o["uid"] for o in obj["metadata"].get("ownerReferences", ()) if o["kind"] == "GPUPool"]
            if kind in ("ConfigMap", "DaemonSet") and owners and not alive.intersection(owners):
                del self.objects[kind, key]

    def _gone(self) -> set[str]:
        homes = {d.status.pool_ref.name for d in self.all(resources.GPUDEVICE, GPUDevice) if d.status.pool_ref}
        return homes - self.pools()

    def all_keys(self) -> list[tuple[str, str]]:
        return sorted([*super().all_keys(), *(("GPUPool", name) for name in self._gone())])

    def planned(self, kind: str, name: str) -> Plan:
        if kind == "GPUPool" and name not in self.pools():
            return plan_orphans(self.view().without_pool(name), self.now)
        return super().planned(kind, name)

    def plans(self) -> list[Plan]:
        return [*super().plans(), *(self.planned("GPUPool", name) for name in sorted(self._gone()))]


class Gone(Controlled):
    """Pools come and go while the module is on, off and away; plugins die with or without a word."""

    cluster: Living

    @initialize()
    def start(self) -> None:
        self.cluster = Living()
        for node in NODES:
            self.cluster.node(node, 2)
        for pool in POOLS:
            self.cluster.pool(pool)
        for card, pool in zip(CARDS, ("a", "a", "b", None), strict=True):
            self.cluster.annotate(card, pool)
        self.cluster.settle()
        self.pods = 0

    @rule(card=st.sampled_from(CARDS), pool=st.sampled_from([*POOLS, None]))
    def annotate(self, card: str, pool: str | None) -> None:
        self.cluster.annotate(card, pool)

    @rule(card=st.sampled_from(CARDS), told=st.booleans(), labelled=st.booleans())
    def serve(self, card: str, told: bool, labelled: bool) -> None:
        """A pod is bound, and given a card; whether that was told is another matter, and whether it was admitted."""
        status = self.cluster.objects["GPUDevice", card]["status"]
        node = status["nodeName"]
        pool = (status.get("poolRef") or {}).get("name")
        is_listed = card in self.cluster.listed.get((node, pool), set()) and card not in self.cluster.held
        if not is_listed or pool not in self.cluster.pools() or not self.cluster.is_ready(node):
            return
        self.pods += 1
        self.cluster.pod(f"p{self.pods}", pool, f"r{self.pods}", node=node, phase="Running")
        pod = self.cluster.objects["Pod", f"default/p{self.pods}"]
        self.cluster.held[card] = (f"default/p{self.pods}", pool)
        if not labelled:
            del pod["metadata"]["labels"][names.LABEL_POOL]
        if told:
            self.cluster.sync(node, pool)

    @rule(card=st.sampled_from(CARDS))
    def promise(self, card: str) -> None:
        """The webhook's part; the scheduler and kubelet come later."""
        status = self.cluster.objects["GPUDevice", card]["status"]
        pool, offered = (status.get("poolRef") or {}).get("name"), status.get("published")
        taken = status.get("reservations") or status.get("allocations")
        if pool not in self.cluster.pools() or not offered or taken:
            return
        self.pods += 1
        request = f"r{self.pods}"
        self.cluster.reserve(card, request, pod=f"p{self.pods}")
        self.cluster.pod(f"p{self.pods}", pool, request)

    @rule(data=st.data(), node=st.sampled_from(NODES))
    def bind(self, data: st.DataObject, node: str) -> None:
        if waiting := [pod for pod in self.cluster.tenants() if pod.node is None]:
            key = data.draw(st.sampled_from(waiting)).key
            self.cluster.objects["Pod", key]["spec"]["nodeName"] = node
            self.cluster.touch(("Pod", key))

    @rule()
    def kubelet_admits(self) -> None:
        self.cluster.admit_bound()

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        there = [pod for pod in self.cluster.tenants() if pod.node is None or self.cluster.is_ready(pod.node)]
        if there:
            self.cluster.ends(data.draw(st.sampled_from(there)))

    @rule(node=st.sampled_from(NODES))
    def away(self, node: str) -> None:
        """A node answers no more, and somebody has the cluster forget its pods: they run on."""
        self.cluster.objects["Node", node]["status"]["conditions"] = [AWAY]
        self.cluster.touch(("Node", node))
        for pod in self.cluster.all(resources.POD, Pod):
            if pod.node == node:
                self.cluster.drop(resources.POD, pod.key)

    @rule(node=st.sampled_from(NODES))
    def back(self, node: str) -> None:
        """Kubelet ends what the cluster has forgotten."""
        self.cluster.objects["Node", node]["status"]["conditions"] = [READY]
        self.cluster.touch(("Node", node))
        known = {pod.key for pod in self.cluster.all(resources.POD, Pod)}
        self.cluster.held = {card: who for card, who in self.cluster.held.items() if who[0] in known}
        for at, pool in list(self.cluster.listed):
            if at == node and f"{names.NAMESPACE}/plugin-{at}-{pool}" not in known:
                del self.cluster.listed[at, pool]

    @rule(seconds=st.sampled_from([1.0, 16.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.now += seconds

    @rule()
    def switch(self) -> None:
        self.cluster.enabled = not self.cluster.enabled

    @rule(pool=st.sampled_from(POOLS))
    def delete(self, pool: str) -> None:
        self.cluster.delete_pool(pool)

    @rule(pool=st.sampled_from(POOLS))
    def vanish(self, pool: str) -> None:
        """Somebody takes the finalizer off by hand."""
        self.cluster.drop(resources.GPUPOOL, pool)

    @rule()
    def garbage(self) -> None:
        self.cluster._collect()

    @rule(pool=st.sampled_from(POOLS))
    def create(self, pool: str) -> None:
        if pool not in self.cluster.pools():
            self.cluster.pool(pool)

    @rule(told=st.booleans(), deleted=st.sets(st.sampled_from(POOLS)))
    def uninstall(self, told: bool, deleted: set[str]) -> None:
        """With its records kept, of which somebody deletes some; `told`: whether the plugins could look once more."""
        for kind, key in list(self.cluster.objects):
            if kind in ("ConfigMap", "DaemonSet"):
                del self.cluster.objects[kind, key]
        for pool in self.cluster.pools():
            self.cluster.execute(dismantle.release(self._pool(pool)), names.MANAGER_CLEANUP)
        if told:
            self.cluster.plugin()
        self.cluster.kubelets(end=True)
        for pool in deleted:
            self.cluster.delete_pool(pool)

    @rule()
    def look_at_what_is_gone(self) -> None:
        for name in sorted(self.cluster._gone()):
            with contextlib.suppress(ConflictError):
                self.cluster.execute(self.cluster.planned("GPUPool", name).actions, names.MANAGER_POOL)

    def _pool(self, name: str) -> GPUPool:
        return next(pool for pool in self.cluster.all(resources.GPUPOOL, GPUPool) if pool.name == name)

    @rule()
    def settle(self) -> None:
        """Once no pod is left of which only kubelet knows: for the end of such a one the controller asks again."""
        for pod in self.cluster.tenants():
            if names.LABEL_POOL not in pod.metadata.labels:
                self.cluster.ends(pod)
        for node in NODES:
            self.back(node)
        self.cluster.admit_bound()
        self.cluster.settle()

    @rule()
    def nothing_stays_in_a_pool_that_is_gone(self) -> None:
        """Once all pods have ended, and the module is enabled."""
        whole = self.cluster
        self.cluster = copy.deepcopy(whole)
        try:
            for pod in self.cluster.tenants():
                self.cluster.ends(pod)
            self.cluster.enabled = True
            self.settle()
            self.cluster.now += 1000.0
            self.settle()
            assert self.cluster._gone() == set()
            for device in self.cluster.all(resources.GPUDEVICE, GPUDevice):
                claimed = device.metadata.annotations.get(names.ASSIGNMENT)
                if claimed in self.cluster.pools():
                    assert device.status.published is not None, f"{device.name} serves nobody"
                    assert device.status.published.pool == claimed
        finally:
            self.cluster = whole

    @invariant()
    def nobody_is_overtaken_and_no_card_is_offered_twice(self) -> None:
        for device in self.cluster.all(resources.GPUDEVICE, GPUDevice):
            home = device.status.pool_ref.name if device.status.pool_ref else None
            if device.name in self.cluster.held:
                assert home == self.cluster.held[device.name][1], f"{device.name} was taken from {self.cluster.held}"
            offered = [pool for (_, pool), cards in self.cluster.listed.items() if device.name in cards]
            assert offered in ([], [home]), f"{device.name} is in {home}, and listed for {offered}"


Gone.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGone = Gone.TestCase


def test_a_card_of_a_pool_that_is_gone_leaves_with_its_reservation_that_has_ended() -> None:
    laws = Gone()
    laws.start()
    laws.promise(card="n2-0000-00-00-0")
    laws.vanish(pool="b")
    laws.wait(seconds=16.0)
    laws.uninstall(told=False, deleted=set())
    laws.look_at_what_is_gone()

    assert "reservations" not in laws.cluster.objects["GPUDevice", "n2-0000-00-00-0"]["status"]
    laws.nothing_stays_in_a_pool_that_is_gone()
