"""A cluster in memory on which a roll-out starts nodes itself, beside what their own plans do."""

from __future__ import annotations

from controllers.api import names, resources
from controllers.driver.rollout.plan import RolloutPlan, plan_rollout
from controllers.runtime.plan import Plan
from tests.driver.rolling import Rolling


class RolledOut(Rolling):
    """Nodes with cards in a pool, and the roll-out of GPUDriver `main`."""

    def all_keys(self) -> list[tuple[str, str]]:
        """The keys of all loops."""
        rollouts = [("Rollout", name) for kind, name in self.objects if kind == "GPUDriver"]
        return [*super().all_keys(), *sorted(rollouts)]

    def planned(self, kind: str, name: str) -> Plan:
        """What a loop wants of a key now."""
        return self.rollout(name).plan if kind == "Rollout" else super().planned(kind, name)

    def rollout(self, name: str = "main") -> RolloutPlan:
        """A roll-out's plan."""
        observed = self.process().rollout(name)
        return plan_rollout(observed, self.now) if observed is not None else RolloutPlan()

    def pool(self, name: str = "a", **spec: object) -> None:
        """A pool, as its owner makes it."""
        meta = {"name": name, "labels": {}, "annotations": {}}
        self.put(resources.GPUPOOL, {"metadata": meta, "spec": spec, "status": {"phase": "Serving"}})

    def fleet(self, number: int, **rollout: object) -> None:
        """So many nodes that serve with the first version."""
        for at in range(number):
            self.node(f"n{at}")
        self.driver(rollout={"canary": {"soak": "1m", "evidence": "None"}, "waveSoak": "30s", **rollout})
        self.settle()
        assert all(self.in_service(name) for name in self.nodes())

    def retarget(self, version: str) -> None:
        """Another version is wanted."""
        self.now += 60
        self.merge("GPUDriver", "main", {"spec": {"version": version}})

    def out(self) -> list[str]:
        """Nodes out of service for their driver's sake."""
        works = {name: self.work(name) for name in self.nodes()}
        return [name for name, work in works.items() if work is not None and work.get("outSince")]

    def version(self, node: str) -> str:
        """The driver that a node's agent reports; empty without one."""
        report = self.objects["NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(node)}"]
        found = report["spec"]["features"]["attributes"].get(names.FEATURE_DRIVER)
        return str(found["elements"]["version"]) if found is not None else ""
