"""Programs of others on a node: `status.managedElsewhere` and the condition ManagedElsewhere. Pure.

A pod of such a program on the node is proof, and so is a resource of NVIDIA's plugin in the Node's `allocatable`, where
only a plugin that is there brings a number above 0. The operator's labels are its word on which of its programs belong
on the node; it puts them there whether or not that program is enabled, and they stay when it goes. So they are told,
and nothing follows from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.api.foreign import DEPLOY, OPERANDS_OFF, is_plugins
from controllers.api.gpunodeinventory import WHO_MAX, ManagedElsewhere
from controllers.domain.request import whole
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.foreign import Part
    from controllers.api.kube import Node
    from controllers.api.reasons.typed import Reason
    from controllers.bootstrap.readiness.node_state import NodeState
    from controllers.bootstrap.views import ObservedNode

OPERANDS: Final = ("driver", "container-toolkit", "device-plugin", "mig-manager")
"""Programs of the operator that would do on the node what the module, or who installed its driver, does."""
OFF: Final = "=".join(OPERANDS_OFF)
"""The label by which a node is taken from the operator: it then takes away all those of its programs."""
WORDS: Final[dict[Part, str]] = {
    "driver": "the driver",
    "toolkit": "the container toolkit",
    "plugin": "a device plugin",
    "mig": "a MIG manager",
}


def elsewhere_of(seen: ObservedNode) -> ManagedElsewhere | None:
    """Who else does on the node what the module does; None for nobody."""
    found: dict[Part, str] = {}
    for pod in seen.foreign:
        if (part := pod.part) is not None:
            found.setdefault(part, pod.who[:WHO_MAX])
    if seen.driver_elsewhere is not None:
        found.setdefault("driver", seen.driver_elsewhere[:WHO_MAX])
    if seen.node is not None and (offered := _offered_resources(seen.node)):
        found.setdefault("plugin", offered[0][0][:WHO_MAX])
    return ManagedElsewhere(**found) if found else None


def managed_elsewhere(state: NodeState) -> Finding:
    """Whether others serve the node's cards, too, and what to do about it."""
    node, found = state.observed.node, elsewhere_of(state.observed)
    offered, parts = (_offered_resources(node), _labelled_operands(node)) if node is not None else ((), ())
    told = [f"kubelet offers {listed(_counted(offered))}, so another device plugin serves its cards"] if offered else []
    if found is not None and (running := listed(_running(found))):
        told.append(f"programs of others run there: {running}")
    if parts:
        labels = listed(f"{DEPLOY}{part}" for part in parts)
        told.append(f"NVIDIA's GPU operator is told to run its {listed(parts)} there (labels {labels})")
    if not told:
        return Finding(False, "NothingFound", f"nothing on node {state.name} shows that others serve its cards")
    do = (
        f"Leave the node to one manager: kubectl label node {state.name} {OFF} takes it from the operator,"
        f" kubectl label node {state.name} {names.LABEL_ENABLED}=false from this module; docs/coexistence.md"
    )
    return Finding(True, _reason(found), f"on node {state.name} {'; '.join(told)}. {do}")


def _reason(found: ManagedElsewhere | None) -> Reason:
    if found is None:
        return "OperatorLabelled"
    return "DevicePluginFound" if found.plugin is not None else "ProgramsFound"


def _running(found: ManagedElsewhere) -> Iterable[str]:
    """What others run there, each with who does; a plugin of which only the resource is known is told by that."""
    for part, words in WORDS.items():
        who = getattr(found, part)
        if who is not None and not is_plugins(who):
            yield f"{words} ({who})"


def _counted(offered: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{name} ({count})" for name, count in offered]


def _offered_resources(node: Node) -> tuple[tuple[str, int], ...]:
    """Resources of NVIDIA's plugin that kubelet offers; 0 stays of one that is gone, until the node starts anew."""
    found = ((name, _count(amount)) for name, amount in sorted(node.status.allocatable.items()) if is_plugins(name))
    return tuple((name, count) for name, count in found if count > 0)


def _count(amount: str) -> int:
    try:
        return whole(amount)
    except ValueError:
        return 0


def _labelled_operands(node: Node) -> tuple[str, ...]:
    """The operator's programs that belong on the node: `true`, or paused for a moment by the operator itself."""
    values = {part: node.metadata.labels.get(DEPLOY + part, "") for part in OPERANDS}
    return tuple(part for part, value in values.items() if value == "true" or value.startswith("paused"))
