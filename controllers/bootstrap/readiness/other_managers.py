"""The condition ManagedElsewhere: what GPU Operator, or another device plugin, shows on the Node. Pure.

A resource of NVIDIA's plugin in the Node's `allocatable` is proof that one offers its cards to kubelet: only one that
is there brings a number above 0. The operator's labels are its word on which of its programs belong on the node; it
puts them there whether or not that program is enabled, so the sentence says no more. Neither keeps cards out of pools:
one that a pod has is known by itself (`foreignAllocations`), and who moves from one to the other has both for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.domain.request import whole
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.api.reasons.typed import Reason
    from controllers.bootstrap.readiness.node_state import NodeState

RESOURCES: Final = ("nvidia.com/gpu", "nvidia.com/mig-")
"""How the resources of NVIDIA's device plugin begin: cards, shared cards (`nvidia.com/gpu.shared`), MIG instances."""
DEPLOY: Final = "nvidia.com/gpu.deploy."
"""Before the operator's label for each of its programs."""
OPERANDS: Final = ("driver", "container-toolkit", "device-plugin", "mig-manager")
"""Those of them that would do on the node what the module, or who installed its driver, does."""
OFF: Final = "nvidia.com/gpu.deploy.operands=false"
"""The label by which a node is taken from the operator: it then takes away all those of its programs."""


def managed_elsewhere(state: NodeState) -> Finding:
    """Whether the Node shows that others serve its cards, and what to do about it."""
    node = state.observed.node
    offered, parts = (_offered_resources(node), _labelled_operands(node)) if node is not None else ((), ())
    told = [f"kubelet offers {listed(offered)}, so another device plugin serves its cards"] if offered else []
    if parts:
        labels = listed(f"{DEPLOY}{part}" for part in parts)
        told.append(f"NVIDIA's GPU operator is told to run its {listed(parts)} there (labels {labels})")
    if not told:
        return Finding(False, "NothingFound", f"nothing on node {state.name} shows that others serve its cards")
    do = (
        f"Leave the node to one manager: kubectl label node {state.name} {OFF} takes it from the operator,"
        f" kubectl label node {state.name} {names.LABEL_ENABLED}=false from this module; docs/coexistence.md"
    )
    reason: Reason = "DevicePluginFound" if offered else "OperatorLabelled"
    return Finding(True, reason, f"on node {state.name} {'; '.join(told)}. {do}")


def _offered_resources(node: Node) -> tuple[str, ...]:
    """Resources of NVIDIA's plugin that kubelet offers; 0 stays of one that is gone, until the node starts anew."""
    found = ((name, _count(amount)) for name, amount in sorted(node.status.allocatable.items()) if _is_theirs(name))
    return tuple(f"{name} ({count})" for name, count in found if count > 0)


def _is_theirs(resource: str) -> bool:
    cards, instances = RESOURCES
    return resource == cards or resource.startswith((f"{cards}.", instances))


def _count(amount: str) -> int:
    try:
        return whole(amount)
    except ValueError:
        return 0


def _labelled_operands(node: Node) -> tuple[str, ...]:
    """The operator's programs that belong on the node: `true`, or paused for a moment by the operator itself."""
    values = {part: node.metadata.labels.get(DEPLOY + part, "") for part in OPERANDS}
    return tuple(part for part, value in values.items() if value == "true" or value.startswith("paused"))
