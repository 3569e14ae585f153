"""Random nodes and the pods that are on them from the beginning: what a fleet of GPU nodes may look like. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from controllers.api import names
from reliability.agreement import wishes
from reliability.agreement.placement import chance

Json = dict[str, Any]
NAMESPACE: Final = "agreement"
SENTINEL: Final = "sentinel"
"""A node on which nothing but probes comes: its label says which of our writes the scheduler has seen."""
TURN: Final = "agreement/turn"
ZONES: Final = ("a", "b", "c")
PRODUCTS: Final = ("H100", "A100", "L40S")
TAINTS: Final = (
    {"key": "dedicated", "value": "infer", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "train", "effect": "NoSchedule"},
    {"key": "team", "value": "a", "effect": "NoExecute"},
    {"key": "spot", "effect": "PreferNoSchedule"},
    {"key": names.DRIVER_TAINT, "effect": "NoSchedule"},
)
NOT_READY: Final = (
    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
)
CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_CPU: Final = ("4", "7910m", "15.5", "32", "64000m", "1e2")
_MEMORY: Final = ("16Gi", "65842384Ki", "128G", "0.5Ti", "137438953472", "262144000Ki")
_STORAGE: Final = ("10Gi", "100G", "95551679124")
_CARDS: Final = 8


@dataclass(slots=True)
class Fleet:
    """A seed's nodes, residents, and what becomes of both; each call draws on."""

    random: Random
    nodes: int
    pools: int
    _residents: int = field(default=0)

    @property
    def pool_names(self) -> list[str]:
        """The extended resources of the pools."""
        return [names.resource_name(f"pool-{number}") for number in range(self.pools)]

    def make_nodes(self) -> list[Json]:
        """All nodes, the sentinel last."""
        made = [self._node(f"node-{number:02}") for number in range(self.nodes)]
        sentinel: Json = {
            "metadata": {"name": SENTINEL, "labels": {TURN: "0"}},
            "spec": {"taints": [{"key": SENTINEL, "effect": "NoSchedule"}]},
            "status": {"allocatable": {"pods": "1000"}, "capacity": {"pods": "1000"}},
        }
        return [{"apiVersion": "v1", "kind": "Node", **one} for one in (*made, sentinel)]

    def residents(self, node: str) -> list[Json]:
        """Pods that are on a node before the first pod is asked about; some have ended."""
        return [self._resident(node) for _ in range(self.random.choice((0, 1, 2, 2, 3, 6)))]

    def change(self) -> tuple[str, Json]:
        """A node and what becomes of it: a merge patch; that of `status` belongs to the subresource."""
        name = f"node-{self.random.randrange(self.nodes):02}"
        drawn = self.random.randrange(4)
        if drawn == 0:
            return name, {"spec": self._spec()}
        if drawn == 1:
            return name, {"metadata": {"labels": dict.fromkeys(("zone", "product", "cores")) | self._labels()}}
        return name, {"status": {"allocatable": self._room()}}

    def _node(self, name: str) -> Json:
        room = self._room()
        labels = {"kubernetes.io/hostname": name, **self._labels()}
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": self._spec(),
            "status": {"allocatable": room, "capacity": room},
        }

    def _labels(self) -> dict[str, str]:
        draw, found = self.random, {}
        if chance(draw, 0.9):
            found["zone"] = draw.choice(ZONES)
        if chance(draw, 0.8):
            found["product"] = draw.choice(PRODUCTS)
        if chance(draw, 0.8):
            found["cores"] = draw.choice(("8", "32", "96", "many", "007"))
        return found

    def _spec(self) -> Json:
        draw = self.random
        cordoned = chance(draw, 0.1)
        drawn = [dict(one) for one in draw.sample(TAINTS, len(TAINTS)) if chance(draw, 0.08)]
        taints = list({(one["key"], one["effect"]): one for one in drawn}.values())  # a node has one of each
        if chance(draw, 0.05):
            taints += [dict(one) for one in NOT_READY]
        if cordoned and chance(draw, 0.7):
            taints.append(dict(CORDON))
        return {"unschedulable": cordoned, "taints": taints}

    def _room(self) -> dict[str, str]:
        """What a node has, with faults: of some pools fewer cards than there were, or none of a resource at all."""
        draw = self.random
        room = {
            "cpu": draw.choice(_CPU),
            "memory": draw.choice(_MEMORY),
            "ephemeral-storage": draw.choice(_STORAGE),
            "pods": draw.choice(("3", "6", "20", "110")),
            "hugepages-2Mi": draw.choice(("0", "1Gi")),
        }
        for pool in draw.sample(self.pool_names, min(self.pools, draw.choice((1, 1, 2)))):
            room[pool] = str(draw.choice((_CARDS, _CARDS, _CARDS - 1, 4, 2, 0)))
        return room

    def _resident(self, node: str) -> Json:
        self._residents += 1
        made = wishes.pod(self.random, f"resident-{self._residents}", self.pool_names, node=node)
        draw = self.random
        if chance(draw, 0.15):
            made["status"] = {"phase": draw.choice(("Succeeded", "Failed"))}
            # The scheduler keeps ports as a set: of two pods with one, the first that ends takes it from both.
            for container in (*made["spec"].get("initContainers", ()), *made["spec"]["containers"]):
                container.pop("ports", None)
        elif chance(draw, 0.1):
            made["status"] = wishes.resized(draw, made)
        return made
