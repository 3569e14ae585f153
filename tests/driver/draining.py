"""A cluster in memory on which pods use cards: what they ask for, who protects them, and which budgets refuse."""

from __future__ import annotations

from typing import Any

from controllers.api import names, resources
from controllers.runtime.plan import Evict, Refusal
from tests.driver.rolling import POOL, Rolling
from tests.kit.cluster import RefusedError
from tests.kit.storage import Json

JOB = {"kind": "Job", "name": "job", "uid": "job", "controller": True}
SAID = "it would violate the pod's disruption budget"


class Draining(Rolling):
    """Pods beside the roll; what was asked about them, and what came of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        """Pods whose eviction was tried (dry run), in that order."""
        self.ended: list[str] = []
        """Pods that were evicted, in that order."""
        self.refused: set[str] = set()
        """Pods whose budgets refuse it."""
        self.shared: int | None = None
        """How many pods a budget that all have in common lets go; None without one."""

    def pod(
        self,
        name: str,
        *,
        resource: str = names.resource_name(POOL),
        owner: Json | None = JOB,
        priority: int = 0,
        volumes: tuple[Json, ...] = (),
        node: str = "n1",
        **meta: Any,
    ) -> None:
        """A pod on a node that asks for a card."""
        container = {"name": "main", "resources": {"limits": {resource: "1"}}}
        owners = [owner] if owner is not None else []
        spec = {"nodeName": node, "containers": [container], "priority": priority, "volumes": list(volumes)}
        made = {"name": name, "namespace": "team", "ownerReferences": owners, "labels": {}, "annotations": {}, **meta}
        self.put(resources.POD, {"metadata": made, "spec": spec, "status": {"phase": "Running"}})

    def finish(self, name: str) -> None:
        """A pod ends by itself."""
        self.drop(resources.POD, f"team/{name}")

    def evicted(self, action: Evict, pod: Json) -> None:
        """What the budgets say."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if action.dry_run:
            self.asked.append(name)
        if name in self.refused or self.shared == 0:
            before = self.refusals.get(uid)
            self.refusals[uid] = Refusal(self.now, before.times + 1 if before else 1, SAID)
            raise RefusedError(name)
        if not action.dry_run:
            self.ended.append(name)
            self.refusals.pop(uid, None)
            self.shared = self.shared - 1 if self.shared is not None else None

    def _kubelet(self, key: str, pod: Json) -> None:
        if pod["metadata"]["namespace"] == names.NAMESPACE:
            super()._kubelet(key, pod)
