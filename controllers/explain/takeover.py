"""How far a cluster is on its way from GPU Operator to this module, and what each step is about. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from controllers.api import foreign, names
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.domain.approval import is_ignored
from controllers.domain.wording import listed
from controllers.explain import manifests
from controllers.explain.table import Column
from controllers.explain.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node

Json = dict[str, Any]
Word = Literal["Theirs", "Busy", "Waiting", "Ready", "Ours"]
"""Of a node: the operator still keeps its pods; pods have cards by its plugin; something of ours is missing; it can go
over now; its cards are offered by the module alone."""
COLUMNS: Final = (Column("NODE"), Column("STATE"), Column("WHAT IS LEFT"))


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What there is of the operator, each as the API server sent it."""

    deployments: Sequence[Json] = ()
    policies: Sequence[Json] = ()
    """ClusterPolicies and NVIDIADrivers."""
    daemonsets: Sequence[Json] = ()
    """Of its programs."""
    pods: Sequence[Json] = ()
    """Of its programs, in whatever namespace."""

    @property
    def is_stopped(self) -> bool:
        """Whether nothing keeps its pods any more, and none of its own pods runs."""
        scaled = (
            one.get("spec", {}).get("replicas", 1) or one.get("status", {}).get("replicas") for one in self.deployments
        )
        return not any(scaled) and not self.policies and not self.daemonsets

    def on(self, node: str) -> list[Json]:
        """Its programs' pods on a node, but for drivers."""
        here = (pod for pod in self.pods if pod["spec"].get("nodeName") == node)
        return [pod for pod in here if foreign.part_of(_labels(pod)) != "driver"]

    def drivers(self) -> list[Json]:
        """Pods of drivers that nothing keeps."""
        return [pod for pod in self.pods if foreign.part_of(_labels(pod)) == "driver" and not _owners(pod)]


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node on its way."""

    name: str
    word: Word
    left: str = ""
    """What keeps it, or what is still to be done there; empty for one that is over."""
    toolkit: tuple[Json, ...] = ()
    """Pods of the operator's toolkit that may go, since the module's is ready."""
    others: tuple[Json, ...] = field(default=())
    """Its other pods there, the device plugin among them, which go together while no pod has a card by it."""


def namespaces(pods: Iterable[Json], policies: Iterable[Json]) -> set[str]:
    """Namespaces of the operator: in which its programs have their privileges, or which its policy's status names."""
    let_in = (
        pod["metadata"]["namespace"]
        for pod in pods
        if foreign.part_of(_labels(pod)) is not None and foreign.has_privileges(pod["spec"].get("containers"))
    )
    named = ((one.get("status") or {}).get("namespace") for one in policies)
    return {name for name in (*let_in, *named) if name}


def within(those: set[str], found: Iterable[Json]) -> list[Json]:
    """What of it is in these namespaces."""
    return [one for one in found if one["metadata"].get("namespace") in those]


def state_of(
    there: OperatorState,
    inventory: GPUNodeInventory,
    devices: Sequence[GPUDevice],
    users: Sequence[str],
) -> NodeState:
    """How far a node is. `users`: pods on it that ask for a resource of the operator's plugin, `<namespace>/<name>`."""
    name, pods = inventory.name, there.on(inventory.name)
    toolkit = tuple(pod for pod in pods if foreign.part_of(_labels(pod)) == "toolkit")
    others = tuple(pod for pod in pods if pod not in toolkit)
    elsewhere = inventory.status.managed_elsewhere
    if not pods and (elsewhere is None or elsewhere.plugin is None):
        return NodeState(name, "Ours")
    if any(_owners(pod) for pod in pods) or not there.is_stopped:
        return NodeState(name, "Theirs", "kubectl gpu takeover begin")
    made = inventory.status.bootstrap
    gone = toolkit if made is not None and made.toolkit_ready else ()
    if (why := _missing(inventory, devices)) or len(gone) < len(toolkit):
        return NodeState(name, "Waiting", why or "the module's toolkit is not ready", gone)
    if users:
        return NodeState(name, "Busy", f"{listed(users)} have cards by the operator's plugin", gone)
    return NodeState(name, "Ready", "kubectl gpu takeover nodes", gone, others)


def _missing(inventory: GPUNodeInventory, devices: Sequence[GPUDevice]) -> str:
    """What of the module is not there yet, so that nobody would offer the cards; empty where nothing is missing."""
    if not is_true(inventory.status.conditions, READY_FOR_POOLING):
        return f"it is not ReadyForPooling: kubectl gpu explain node {inventory.name}"
    outside = sorted(card.name for card in devices if card.status.pool_ref is None and not is_ignored(card.metadata))
    if outside:
        return f"{counted(len(outside), 'card')} in no pool: kubectl gpu assign --node {inventory.name} <pool>"
    return ""


def asks_for_theirs(pod: Json) -> bool:
    """Whether a pod asks for a resource of NVIDIA's device plugin, and has not ended."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"].get("containers", ())]
    asked = (one.get("resources") or {} for one in containers)
    keys = (key for one in asked for part in ("limits", "requests") for key in one.get(part) or {})
    return any(map(foreign.is_plugins, keys))


def saved(there: OperatorState) -> Json:
    """What the way back needs, as a List: the operator's Deployments as they are, its policies without what ages."""
    return manifests.as_list(_bare(one) for one in (*there.deployments, *there.policies))


def has_all(items: Iterable[Json], there: OperatorState) -> bool:
    """Whether a saved List has everything of the operator that is still there: the same objects, as they are now."""
    known = list(items)
    return all(one in known for one in saved(there)["items"])


def replicas_of(deployment: Json) -> int:
    """How many replicas a Deployment of the operator has, or had before a step of ours stopped it."""
    now: int = deployment["spec"].get("replicas", 1)
    noted: str = (deployment["metadata"].get("annotations") or {}).get(names.TAKEOVER_REPLICAS, "")
    return int(noted) if now == 0 and noted.isdecimal() else now


def keeping(nodes: Iterable[Node]) -> set[str]:
    """Nodes that a person has kept from the operator."""
    key, value = foreign.OPERANDS_OFF
    return {node.name for node in nodes if node.metadata.labels.get(key) == value}


def _bare(raw: Json) -> Json:
    kept = ("name", "namespace", "uid", "labels", "annotations")
    meta = {key: raw["metadata"][key] for key in kept if key in raw["metadata"]}
    spec = raw.get("spec", {})
    if raw["kind"] == "Deployment":
        meta.pop("annotations", None)  # its own controller's, and ours: they change while it is stopped
        spec = {"replicas": replicas_of(raw)}
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": meta, "spec": spec}


def marks_of(labels: Mapping[str, str]) -> dict[str, None]:
    """The operator's labels of a node that `finish` removes, as a merge patch has them; a person's stays."""
    theirs = (key for key in labels if key.startswith(foreign.DEPLOY) or key == foreign.UPGRADE_STATE)
    return {key: None for key in theirs if (key, labels[key]) != foreign.OPERANDS_OFF}


def summary(there: OperatorState, nodes: Sequence[NodeState]) -> list[str]:
    """Where the takeover stands as a whole."""
    counts = {word: sum(one.word == word for one in nodes) for word in ("Theirs", "Busy", "Waiting", "Ready", "Ours")}
    said = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    operator = "stopped" if there.is_stopped else "runs"
    adopted = sum(_labels(pod).get(names.DRIVER_ADOPTED) == "true" for pod in there.drivers())
    return [f"GPU Operator {operator}; drivers adopted: {adopted} of {len(there.drivers())}; nodes: {said or 'none'}."]


def _labels(raw: Json) -> dict[str, str]:
    found: dict[str, str] = raw["metadata"].get("labels") or {}
    return found


def _owners(raw: Json) -> list[Json]:
    found: list[Json] = raw["metadata"].get("ownerReferences") or []
    return found
