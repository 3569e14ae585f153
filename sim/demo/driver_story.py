"""The story of a bare node: it has an operating system and cards, and gets its driver from the module.

Told and checked as the other story (`sim.demo.story`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, find
from controllers.domain.driver.variant import revision_of
from sim.demo import manifests
from sim.demo.manifests import POOL, TEAM
from sim.demo.story import END, Chapters
from sim.nodes.manifests import create_nodes, node_manifests
from sim.nodes.names import KUBELET, TAKES
from sim.workload import gpudriver

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpunodeinventory import GPUNodeInventory

BARE: Final = "l40s-4@ubuntu24.04+bare"
NODE: Final = "bare-1"
SECONDS: Final = {"pull": 2, "look": 1, "prepare": 1, "install": 8}
"""What the steps of the installation take here; a real one compiles for minutes."""
DRIVER: Final = "main"
WRONG: Final = "599.99.99"
WANTED: Final = "580.178.04"


class DriverStory(Chapters):
    """The chapters, in order; each waits for what it tells."""

    async def tell(self) -> None:
        """Play every chapter; raises LateError."""
        async with self._view:
            await self._bare_node_joins()
            await self._version_that_is_not_there()
            await self._driver_is_installed()
            await self._pod_gets_a_card()
            self._teller.chapter("At the end")
            for line in (await self._kubectl("get", "gpudrivers")).splitlines():
                self._teller.quoted(line)
            self._teller.cards(self._view)

    @property
    def _inventory(self) -> GPUNodeInventory | None:
        return self._view.inventories.get(NODE)

    @property
    def _work(self) -> DriverWork | None:
        found = self._inventory
        return found.status.driver_work if found is not None else None

    def _why(self) -> str:
        """What is done to the node, or keeps it out of service."""
        work, found = self._work, self._inventory
        told = find(found.status.conditions, READY_FOR_POOLING) if found is not None else None
        doing = f"{work.phase} {work.reason or ''}: {work.message or ''}" if work is not None else "no work"
        return f"{doing}; {told.message if told is not None else 'nothing is said yet'}"

    async def _bare_node_joins(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter("A node joins: Ubuntu 24.04 and four cards, and no driver")
        marks = {TAKES: ",".join(f"{step}={seconds}" for step, seconds in SECONDS.items())}
        await create_nodes(view.client, node_manifests([BARE], prefix="bare", annotations=marks))
        took = await self._until(
            "the node's cards and its system are reported",
            lambda: any(feature.is_agent_report for feature in view.features),
            END,
            lambda: f"{len(view.features)} NodeFeatures",
        )
        report = next(feature for feature in view.features if feature.is_agent_report)
        system = report.spec.features.attributes.system
        told = system.elements if system is not None else {}
        teller.did(names.MANAGER_DISCOVER, "(simulated) tells of the cards, and what the node is", took)
        teller.quoted(", ".join(f"{key} {told[key]}" for key in ("system", "kernel", "secure-boot") if key in told))

        def missing() -> str:
            found = self._inventory
            said = find(found.status.conditions, READY_FOR_POOLING) if found is not None else None
            return said.message if said is not None and said.reason == "DriverNotFound" else ""

        took = await self._until("the node says what it lacks", lambda: bool(missing()), END, self._why)
        teller.did(names.MANAGER_BOOTSTRAP, "says why the node's cards cannot be pooled", took)
        teller.quoted(missing())

    async def _version_that_is_not_there(self) -> None:
        teller = self._teller
        teller.chapter("The administrator asks for a driver, and mistypes its version")
        teller.typed(f"kubectl apply -f driver.yaml      # GPUDriver {DRIVER}: version {WRONG}")
        await self._apply(gpudriver(DRIVER, WRONG))
        took = await self._until("a pod looks at the node", lambda: self._work is not None, END, self._why)
        await self._owner(names.MANAGER_DRIVER, resources.GPUNODEINVENTORY, NODE, "status", "driverWork")
        teller.did(names.MANAGER_DRIVER, "has a pod pull the image on the node and look at it, before anything", took)
        took = await self._until("the node is blocked", lambda: self._is("Blocked"), END, self._why)
        teller.did(names.MANAGER_DRIVER, "touches nothing, and says why on the node and on the GPUDriver", took)
        teller.quoted((self._work.message or "") if self._work is not None else "")

    async def _driver_is_installed(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter("The version is put right")
        patch = f'{{"spec":{{"version":"{WANTED}"}}}}'
        teller.typed(f"kubectl patch gpudriver {DRIVER} --type=merge -p '{patch}'")
        await self._kubectl("patch", "gpudriver", DRIVER, "--type=merge", "-p", patch)
        took = await self._until("the node is fit", lambda: self._is("Installing", "Validating"), END, self._why)
        node = view.nodes.get(NODE)
        variant = node.metadata.labels.get(names.DRIVER_VARIANT, "") if node is not None else ""
        teller.did(names.MANAGER_DRIVER, "finds the image there and the node fit", took)
        took = await self._until("the node has its label", lambda: bool(self._variant()), END, self._why)
        variant = self._variant()
        await self._owner(names.MANAGER_DRIVER, resources.NODE, NODE, "metadata", "labels", names.DRIVER_VARIANT)
        daemonset = f"gpu-driver-{variant}"
        await self._owner(
            names.MANAGER_DRIVER, resources.DAEMONSET, daemonset, "spec", "template", namespace=names.NAMESPACE
        )
        teller.did(names.MANAGER_DRIVER, f"makes DaemonSet {daemonset}, and labels the node for it", took)
        took = await self._until("the driver's pod is ready", self._is_loaded, END, self._why)
        teller.did(KUBELET, f"(simulated) the driver's container has compiled and loaded {WANTED}", took)
        took = await self._until("the node is in service", self._is_in_service, END, self._why)
        where = (resources.GPUNODEINVENTORY, NODE, "status", "conditions", f"type={READY_FOR_POOLING}")
        await self._owner(names.MANAGER_BOOTSTRAP, *where)
        teller.did(names.MANAGER_BOOTSTRAP, "validates it as every day: driver, toolkit, CUDA on each card", took)
        await self._owner(names.MANAGER_DRIVER, resources.GPUNODEINVENTORY, NODE, "status", "lastDriverWork")
        last = self._inventory.status.last_driver_work if self._inventory is not None else None
        seconds = last.took if last is not None else 0
        what = f"has revision {revision_of(variant)} on record as Good; it took {seconds} s"
        teller.did(names.MANAGER_DRIVER, what)

    async def _pod_gets_a_card(self) -> None:
        view, teller = self._view, self._teller
        teller.chapter("A card of it goes into a pool, and a pod gets it")
        card = min(view.devices, key=lambda device: device.name)
        product = (card.status.hardware.product if card.status.hardware is not None else None) or ""
        await self._apply(manifests.namespace(TEAM), manifests.pool(product))
        hint = f"{names.ASSIGNMENT}={POOL}"
        await self._until("the card may be pooled", self._is_pending, END, self._why)
        teller.typed(f"kubectl annotate gpudevice {card.name} {hint}")
        await self._kubectl("annotate", "gpudevice", card.name, hint)
        took = await self._until(
            "the card is offered", lambda: view.available(POOL) == 1, END, lambda: "the node does not offer it yet"
        )
        teller.did(names.MANAGER_POOL, "the card is in the pool, and its node offers it", took)
        teller.typed(f"kubectl -n {TEAM} apply -f pod.yaml    # limits: {names.resource_name(POOL)}: 1")
        await self._apply(manifests.pod("first"))
        took = await self._until(
            "the pod runs", lambda: any(p.name == "first" and p.ready for p in view.pods), END, self._pods
        )
        teller.did(KUBELET, "(simulated by KWOK) the pod is Running", took)

    def _is(self, *phases: str) -> bool:
        return self._work is not None and self._work.phase in phases

    def _is_pending(self) -> bool:
        found = self._inventory
        pools = found.status.pools if found is not None else None
        return pools is not None and any(entry.pool == POOL for entry in pools.pending)

    def _variant(self) -> str:
        node = self._view.nodes.get(NODE)
        return node.metadata.labels.get(names.DRIVER_VARIANT, "") if node is not None else ""

    def _is_loaded(self) -> bool:
        here = (pod for pod in self._view.pods if pod.node == NODE and pod.ready)
        return any(pod.metadata.labels.get(names.DRIVER_VARIANT) == self._variant() for pod in here)

    def _is_in_service(self) -> bool:
        return self._view.ready() == 1 and self._work is None
