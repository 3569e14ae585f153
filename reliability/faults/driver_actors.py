"""Administrators of drivers in a workload: bare nodes, GPUDrivers, and what is waited for of both."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.api.conditions import find
from reliability.faults.actors import Actors
from reliability.faults.environment import MANAGER
from reliability.faults.processes import CONTROLLERS
from sim.nodes.names import NFD_LABELS
from sim.workload import gpudriver

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork

BARE = "l40s-4@ubuntu24.04+bare"
"""Shape of nodes without a driver."""
TAKES = {"pull": 0, "look": 0, "prepare": 0, "install": 1, "back_off": 1}
"""Seconds that the steps of an installation take."""
CARDS = 4


class DriverActors(Actors):
    """Acts and expectations about drivers, beside all others."""

    async def join_bare(self, node: str) -> None:
        """Add a node whose host has no driver."""
        await self._act(lambda: self._environment.join(node, BARE, TAKES))

    async def driver(self, name: str, version: str, **spec: Any) -> None:
        """Create a GPUDriver."""
        body = gpudriver(name, version, **spec)
        await self._act(lambda: self._once(self._client.create(resources.GPUDRIVER, body, manager=MANAGER)))

    async def version(self, name: str, version: str) -> None:
        """Ask for another version."""
        body = {"spec": {"version": version}}
        await self._act(lambda: self._client.merge(resources.GPUDRIVER, name, body, manager=MANAGER))

    async def paused(self, name: str, *, paused: bool) -> None:
        """Pause a rollout, or let it go on."""
        body = {"spec": {"rollout": {"paused": paused}}}
        await self._act(lambda: self._client.merge(resources.GPUDRIVER, name, body, manager=MANAGER))

    async def hand_over(self, node: str, who: str | None) -> None:
        """Ask for a node, or give it back."""
        body = {"metadata": {"annotations": {names.HAND_OVER: who}}}
        await self._act(lambda: self._client.merge(resources.NODE, node, body, manager=MANAGER))

    async def delete_driver(self, name: str) -> None:
        """Delete a GPUDriver."""
        await self._act(lambda: self._environment.delete(resources.GPUDRIVER, name))

    async def delete_driver_pod(self, node: str) -> None:
        """Delete the pod that brings a driver onto a node, by hand, as the policy lets people who mean it."""
        uids = set(self.driver_pods(node))
        pods = self._environment.recorder.of("Pod")
        for key in [name for name, pod in pods.items() if pod["metadata"]["uid"] in uids]:
            namespace, _, name = key.partition("/")
            body = {"metadata": {"annotations": {names.FORCE: "true"}}}
            await self._act(
                partial(self._client.merge, resources.POD, name, body, manager=MANAGER, namespace=namespace)
            )
            await self._act(partial(self._environment.delete, resources.POD, name, namespace))

    async def without_features(self, node: str) -> None:
        """Take every label that Node Feature Discovery gave a node off it."""
        labels = self._environment.recorder.now["Node", node]["metadata"]["labels"]
        body = {"metadata": {"labels": {key: None for key in labels if key.startswith(NFD_LABELS)}}}
        await self._act(lambda: self._client.merge(resources.NODE, node, body, manager=MANAGER))

    async def controllers(self, *, stopped: bool) -> None:
        """Kubernetes' own controllers stand still, or go on."""
        number = signal.SIGSTOP if stopped else signal.SIGCONT

        async def send() -> None:
            self._environment.signal(CONTROLLERS, number)

        await self._act(send)

    # --- expectations ---------------------------------------------------------------------

    async def serves(self, node: str, version: str) -> None:
        """A node is in service with a version, and nothing is done to it any more."""

        def told() -> tuple[bool, str, DriverWork | None]:
            found = self._view.inventories.get(node)
            facts = found.status.driver if found is not None else None
            work = found.status.driver_work if found is not None else None
            return self._environment.ready(node), (facts.version or "") if facts is not None else "", work

        await self.until(lambda: told() == (True, version, None), lambda: (node, told(), self._view.unready()))

    async def works(self, node: str, phase: str, reason: str = "") -> None:
        """What is done to a node for its driver's sake is so far."""

        def told() -> tuple[str, str]:
            found = self._view.inventories.get(node)
            work = found.status.driver_work if found is not None else None
            return (work.phase, work.reason or "") if work is not None else ("", "")

        await self.until(
            lambda: told()[0] == phase and reason in ("", told()[1]), lambda: (node, told(), self._view.unready())
        )

    async def out(self, driver: str, nodes: int) -> None:
        """So many nodes of a GPUDriver are out of service for its sake; none: all are in service again."""

        def told() -> tuple[int, bool]:
            works = {one.name: one.status.driver_work for one in self._view.inventories}
            mine = [name for name, work in works.items() if work is not None and work.driver == driver]
            there = [name for name in mine if (work := works[name]) is not None and work.out_since is not None]
            return len(there), bool(nodes) or self._environment.ready(*works)

        await self.until(lambda: told() == (nodes, True), lambda: (driver, told(), self._view.unready()))

    async def halted(self, driver: str, reason: str) -> None:
        """A GPUDriver's rollout has halted, for this reason."""

        def told() -> tuple[str, str]:
            found = self._view.drivers.get(driver)
            said = find(found.status.conditions, "Halted") if found is not None else None
            return (said.status, said.reason) if said is not None else ("", "")

        await self.until(lambda: told() == ("True", reason), lambda: (driver, told(), self._view.unready()))

    async def one_works(self, phase: str, reason: str = "") -> None:
        """What is done to one node, whichever, is so far."""

        def told() -> list[tuple[str, str]]:
            works = [one.status.driver_work for one in self._view.inventories]
            return [(work.phase, work.reason or "") for work in works if work is not None]

        def there() -> bool:
            return any(found == phase and reason in ("", why) for found, why in told())

        await self.until(there, lambda: (told(), self._view.unready()))

    async def none_works(self, phase: str) -> None:
        """No node is in that phase of what is done to it."""

        def there() -> list[str]:
            works = ((one.name, one.status.driver_work) for one in self._view.inventories)
            return [name for name, work in works if work is not None and work.phase == phase]

        await self.until(lambda: not there(), lambda: (phase, there()))

    async def installed(self, driver: str, current: int) -> None:
        """A GPUDriver counts so many nodes that have what it wants, and all of its nodes."""

        def told() -> tuple[int, int]:
            found = self._view.drivers.get(driver)
            counts = found.status.counts if found is not None else None
            return (counts.nodes - counts.host, counts.current) if counts is not None else (-1, -1)

        await self.until(lambda: told() == (current, current), lambda: (driver, told(), self._view.unready()))

    async def remembers(self, driver: str, count: int) -> None:
        """A GPUDriver has so many revisions on record."""

        def told() -> list[str]:
            found = self._view.drivers.get(driver)
            return [revision.version for revision in found.status.revisions] if found is not None else []

        await self.until(lambda: len(told()) == count, lambda: (driver, told()))

    async def no_driver(self, name: str) -> None:
        """A GPUDriver is gone."""
        await self.until(lambda: self._view.drivers.get(name) is None, lambda: self._view.drivers.get(name))

    def driver_pods(self, node: str) -> list[str]:
        """Uids of the pods that bring a driver onto a node."""
        return sorted(
            pod["metadata"]["uid"]
            for pod in self._environment.recorder.of("Pod").values()
            if pod["spec"].get("nodeName") == node
            and names.DRIVER_VARIANT in pod["metadata"].get("labels", {})
            and any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))
        )
