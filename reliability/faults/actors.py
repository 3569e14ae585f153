"""Users and administrators of a workload: their requests, and what they wait for.

Each act is a step, before which a fault can strike, and is tried again until it is taken: people and Deployments come
again, whatever an API server or a webhook says in the meantime.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names, resources
from controllers.api.conditions import MAINTENANCE, MISCONFIGURED, find
from controllers.runtime.errors import AlreadyExists, Invalid, NotFound, RuntimeFault
from reliability.faults.environment import MANAGER, PACE, SETTINGS, TEAM
from reliability.kit.actors import retry
from sim.nodes.names import FAULT
from sim.workload import gpu_pod, gpupool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controllers.api.gpudevice import GPUDevice
    from reliability.faults.environment import Environment

PATIENCE = 45.0 * PACE
"""Seconds for what must come true after all, fault or no fault."""


class Actors:
    """Acts and expectations in an environment; an expectation raises LateError with what was found instead."""

    def __init__(self, environment: Environment) -> None:
        self._environment, self._view, self._client = environment, environment.view, environment.client

    async def _act(self, call: Callable[[], Awaitable[Any]]) -> None:
        environment = self._environment
        environment.step += 1
        step = environment.step
        if environment.before_step is not None:
            await environment.before_step(step)
        before = await environment.reviews() if environment.counts_reviews else 0.0
        try:
            await retry(lambda: self._told(call), PATIENCE)
            environment.taken.append(time.monotonic())
        except (AlreadyExists, NotFound):
            return
        finally:
            if environment.counts_reviews and await environment.reviews() > before:
                environment.reviewed.add(step)

    async def _told(self, call: Callable[[], Awaitable[Any]]) -> None:
        """One try; a refusal is noted."""
        try:
            await call()
        except RuntimeFault as error:
            self._environment.refused.append((time.monotonic(), str(error)))
            raise

    async def _once(self, call: Awaitable[Any]) -> None:
        """One try; what is there already, or gone already, is well."""
        try:
            await call
        except (AlreadyExists, NotFound):
            return

    # --- acts ---------------------------------------------------------------------------

    async def pool(self, name: str, **spec: Any) -> None:
        """Create a pool."""
        body = gpupool(name, **spec)
        await self._act(lambda: self._once(self._client.create(resources.GPUPOOL, body, manager=MANAGER)))

    async def allocation(self, pool: str, **allocation: Any) -> None:
        """Ask for another way to give a pool's cards."""
        empty = {"timeSlice": None, "mps": None, "migProfile": None, "maxDevicesPerNode": None}
        body = {"spec": {"allocation": empty | allocation}}
        await self._act(lambda: self._client.merge(resources.GPUPOOL, pool, body, manager=MANAGER))

    async def resume(self, pool: str) -> None:
        """Confirm that a pool may go on."""
        body = {"metadata": {"annotations": {names.RESUME: "true"}}}
        await self._act(lambda: self._client.merge(resources.GPUPOOL, pool, body, manager=MANAGER))

    async def delete_pool(self, name: str) -> None:
        """Delete a pool."""
        await self._act(lambda: self._environment.delete(resources.GPUPOOL, name))

    async def assign(self, card: str, pool: str | None) -> None:
        """Confirm a card for a pool, or take that back."""
        body = {"metadata": {"annotations": {names.ASSIGNMENT: pool}}}
        await self._act(lambda: self._client.merge(resources.GPUDEVICE, card, body, manager=MANAGER))

    async def assigned(self, card: str, pool: str) -> None:
        """Confirm a card for a pool until it is there, however often the card is another object by then."""

        async def confirm() -> None:
            body = {"metadata": {"annotations": {names.ASSIGNMENT: pool}}}
            await self._client.merge(resources.GPUDEVICE, card, body, manager=MANAGER)
            if self._pool_of(card) != pool:
                raise RuntimeFault(f"{card} is not in {pool} yet")

        await self._act(confirm)

    async def mark(self, card: str, mark: str, value: str | None) -> None:
        """Annotate a card, or take that back."""
        body = {"metadata": {"annotations": {mark: value}}}
        await self._act(lambda: self._client.merge(resources.GPUDEVICE, card, body, manager=MANAGER))

    async def pool_anew(self, name: str) -> None:
        """Delete a pool, and make it again as soon as its name is free."""
        old = self._view.pools.get(name)
        await self.delete_pool(name)

        async def make() -> None:
            try:
                await self._client.create(resources.GPUPOOL, gpupool(name), manager=MANAGER)
            except AlreadyExists:
                there = orjson.loads(await self._client.get(resources.GPUPOOL, name))["metadata"]
                if old is None or there["uid"] == old.metadata.uid:
                    raise

        await self._act(make)

    async def pod(
        self, name: str, pool: str, units: int = 1, metadata: dict[str, Any] | None = None, **spec: Any
    ) -> None:
        """Create a pod that asks for cards."""
        body = gpu_pod(name, pool, units, **spec)
        body["metadata"] |= metadata or {}
        await self._act(lambda: self._once(self._client.create(resources.POD, body, TEAM, manager=MANAGER)))

    async def ungate(self, pod: str, gate: str) -> None:
        """Take a scheduling gate off a pod, as whoever set it does, and leave the others."""

        async def take() -> None:
            there = orjson.loads(await self._client.get(resources.POD, pod, TEAM))
            meta, gates = there["metadata"], there["spec"].get("schedulingGates", ())
            left = [each for each in gates if each["name"] != gate]
            body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": {"schedulingGates": left or None}}
            await self._client.merge(resources.POD, pod, body, manager=MANAGER, namespace=TEAM)

        await self._act(take)

    async def ghost(self, name: str, pool: str) -> None:
        """A card is reserved for a pod that the API server then refuses, as a quota does: nobody ever sees it."""
        body = gpu_pod(name, pool, 1, restartPolicy="Sometimes")

        async def refused() -> None:
            with suppress(Invalid):
                await self._client.create(resources.POD, body, TEAM, manager=MANAGER)

        await self._act(refused)

    async def end_pods(self, *pods: str) -> None:
        """Pods end well, as kubelet says of those of Jobs; they stay on record."""
        body = {"status": {"phase": "Succeeded"}}
        for pod in pods:
            await self._act(
                partial(
                    self._client.merge, resources.POD, pod, body, manager=MANAGER, namespace=TEAM, subresource="status"
                )
            )

    async def delete_pods(self, *pods: str) -> None:
        """Delete pods."""
        for name in pods:
            await self._act(partial(self._environment.delete, resources.POD, name, TEAM))

    async def join(self, node: str) -> None:
        """Add a node."""
        await self._act(lambda: self._environment.join(node))

    async def leave(self, node: str) -> None:
        """Delete a node."""
        await self._act(lambda: self._environment.delete(resources.NODE, node))

    async def breaks(self, node: str, fault: str | None) -> None:
        """Something of a node breaks, or is mended."""
        body = {"metadata": {"annotations": {FAULT: fault}}}
        await self._act(lambda: self._client.merge(resources.NODE, node, body, manager=MANAGER))

    async def settings(self, *, enabled: bool = True, **settings: Any) -> None:
        """Change the module's settings."""
        await self._act(lambda: self._environment.configure(SETTINGS | settings, enabled=enabled))

    # --- expectations ---------------------------------------------------------------------

    async def until(self, true: Callable[[], bool], found: Callable[[], Any]) -> None:
        """Wait for something."""
        await self._environment.until(true, PATIENCE, lambda: str(found()))

    def cards(self, node: str) -> list[str]:
        """The names of a node's cards: the one that can be divided is the last."""
        return sorted(d.name for d in self._view.devices if d.status.node_name == node)

    def card(self, name: str) -> GPUDevice | None:
        """A card."""
        return self._view.devices.get(name)

    async def offered(self, pool: str, count: int) -> None:
        """The nodes have so many slots of a pool, and the pool knows."""
        key = names.resource_name(pool)

        def allocatable() -> int:
            return sum(int(node.status.allocatable.get(key, 0)) for node in self._view.nodes)

        def counted() -> int | None:
            found = self._view.pools.get(pool)
            return found.status.capacity.total if found and found.status.capacity else None

        await self.until(
            lambda: (allocatable(), counted()) == (count, count),
            lambda: (pool, allocatable(), counted(), self._summary()),
        )

    async def runs(self, *pods: str) -> None:
        """Pods are ready, and their cards are known."""

        def ready() -> set[str]:
            return {p.name for p in self._view.pods if p.metadata.namespace == TEAM and p.ready}

        def served() -> set[str]:
            return {a.pod for d in self._view.devices for a in d.status.allocations}

        await self.until(lambda: set(pods) <= ready() & served(), lambda: (pods, ready(), served(), self._summary()))

    async def lives(self, pod: str) -> None:
        """A pod is ready, whoever gave it its cards."""

        def ready() -> bool:
            return any(p.name == pod and p.metadata.namespace == TEAM and p.ready for p in self._view.pods)

        await self.until(ready, lambda: (pod, self._summary()))

    async def waits(self, pod: str, reason: str) -> None:
        """A pod waits in its pool's queue, and says for this reason."""

        def told() -> tuple[bool, str]:
            found = self._environment.recorder.now.get(("Pod", f"{TEAM}/{pod}"), {})
            gates = [gate["name"] for gate in found.get("spec", {}).get("schedulingGates", ())]
            said = [c for c in found.get("status", {}).get("conditions", ()) if c["type"] == names.QUEUED]
            return names.CARDS_GATE in gates, said[0]["reason"] if said else ""

        await self.until(lambda: told() == (True, reason), lambda: (pod, told(), self._summary()))

    async def capacity(self, pool: str, total: int, used: int, reserved: int) -> None:
        """What the pool's status counts."""

        def counted() -> tuple[int, int, int] | None:
            found = self._view.pools.get(pool)
            c = found.status.capacity if found else None
            return (c.total, c.used, c.reserved) if c else None

        await self.until(lambda: counted() == (total, used, reserved), lambda: (pool, counted(), self._summary()))

    async def released(self, card: str) -> None:
        """A card was reserved once, and is not any more."""

        def promises() -> list[int]:
            seen = [r.object for r in self._environment.recorder.history if r.key == ("GPUDevice", card)]
            return [len(obj.get("status", {}).get("reservations", ())) for obj in seen]

        await self.until(lambda: any(promises()) and not promises()[-1], lambda: (card, promises(), self._summary()))

    async def unreserved(self, card: str) -> None:
        """A card is reserved for nobody, as the API server says: a cache may not have seen the reservation yet."""

        async def free() -> None:
            found = orjson.loads(await self._client.get(resources.GPUDEVICE, card))
            if reservations := found["status"].get("reservations"):
                raise RuntimeFault(f"{card} is still reserved: {reservations}; {self._summary()}")

        await retry(free, PATIENCE)

    async def in_pool(self, card: str, pool: str | None) -> None:
        """A card is in a pool, or in none and at rest."""
        await self.until(lambda: self._pool_of(card) == pool, lambda: (card, self._pool_of(card), self._summary()))

    def _pool_of(self, card: str) -> str | None:
        device = self.card(card)
        return device.status.pool_ref.name if device and device.status.pool_ref else None

    async def ready(self, *nodes: str) -> None:
        """Nodes' cards may be pooled."""
        await self.until(lambda: self._environment.ready(*nodes), self._view.unready)

    async def unready(self, node: str) -> None:
        """They may not."""
        await self.until(lambda: not self._environment.ready(node), self._view.unready)

    async def recorded(self, node: str, count: int) -> None:
        """So many cards of a node are on record."""
        await self.until(lambda: len(self.cards(node)) == count, lambda: self.cards(node))

    async def forgotten(self, node: str, *, kept: int = 0) -> None:
        """Nothing of a node is on record but so many cards of which a person said something."""

        def is_so() -> bool:
            return len(self.cards(node)) == kept and self._view.inventories.get(node) is None

        await self.until(is_so, lambda: (self.cards(node), self._view.inventories.get(node)))

    async def undeployed(self) -> None:
        """Nothing of ours is there for nodes but the agent that tells of cards; no pool has a list of its own."""

        def there() -> list[str]:
            recorder = self._environment.recorder
            lists = [name for name in recorder.of("ConfigMap") if names.plugin_object("") in name]
            found = [*recorder.of("DaemonSet"), *recorder.of("RuntimeClass"), *lists]
            return [name for name in found if names.DISCOVER_DAEMONSET not in name]

        await self.until(lambda: not there(), there)

    async def no_pool(self, name: str) -> None:
        """A pool is gone, and no card is in it."""
        await self.until(
            lambda: (
                self._view.pools.get(name) is None
                and not any(d.status.pool_ref and d.status.pool_ref.name == name for d in self._view.devices)
            ),
            self._summary,
        )

    async def maintenance(self, pool: str, status: str, reason: str = "", kind: str = MAINTENANCE) -> None:
        """A pool's condition Maintenance (or another)."""

        def found() -> tuple[str, str]:
            seen = self._view.pools.get(pool)
            made = find(seen.status.conditions, kind) if seen else None
            return (made.status, made.reason) if made else ("", "")

        await self.until(
            lambda: found()[0] == status and reason in ("", found()[1]), lambda: (pool, kind, found(), self._summary())
        )

    async def misconfigured(self, pool: str, status: str) -> None:
        """A pool's condition Misconfigured."""
        await self.maintenance(pool, status, kind=MISCONFIGURED)

    def _summary(self) -> str:
        """Pools and cards in short."""
        pools = {p.name: [f"{c.type}={c.status} {c.reason}" for c in p.status.conditions] for p in self._view.pools}
        cards = {
            d.name: (
                d.status.state,
                d.status.pool_ref and d.status.pool_ref.name,
                d.status.published and d.status.published.slots,
                [(r.pod, r.expires_at) for r in d.status.reservations],
                [a.pod for a in d.status.allocations],
            )
            for d in self._view.devices
        }
        return f"{pools}; {cards}; {time.strftime('%H:%M:%S', time.gmtime())}"
