"""The versions of what runs on a node: `status.software` of its GPUNodeInventory. Pure.

What serves is told, not what has started: a pod that becomes ready changes the status anyway, and an image that cannot
be pulled, or that crashes, runs nothing. While no pod of a component is ready, the version that served last stays; it
goes when the component is no longer to run there. So a roll-out costs one write a node, for the version that is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import software
from controllers.api.components import COMPONENTS, TOOLKIT
from controllers.api.image_reference import split_reference
from controllers.api.software import SEPARATOR, VERSION_MAX, SoftwareVersion
from controllers.bootstrap.views import OperandVersions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpunodeinventory import DriverInfo
    from controllers.api.kube import Node
    from controllers.bootstrap.readiness.assess import Assessment
    from controllers.bootstrap.records import Operand, Pod

UNTAGGED: Final = "latest"
"""What a reference without a tag means."""
GATED: Final = frozenset(component.name for component in COMPONENTS)
LABELLED: Final = {software.DISCOVER: software.AGENT}
"""Components whose label is not their name in the list."""


def software_of(known: Assessment, driver: DriverInfo | None) -> tuple[SoftwareVersion, ...]:
    """Everything with a version on a node; `driver` as its status has it."""
    found = {one.component: one for one in (*_of_host(known.node, driver), *_of_operands(known))}
    return tuple(sorted(found.values(), key=lambda one: software.place(one.component)))


def _of_host(node: Node, driver: DriverInfo | None) -> Iterable[SoftwareVersion]:
    """What nobody of ours brings: its version is told, and none is wanted."""
    told = node.status.node_info
    facts = {
        software.KERNEL: told.kernel_version,
        software.OS: told.os_image,
        software.RUNTIME: told.container_runtime_version,
        software.KUBELET: told.kubelet_version,
        software.DRIVER: driver.version if driver else None,
        software.CUDA: driver.cuda_version if driver else None,
        # One that somebody installed by hand; that of the module's own pod stands in its place.
        TOOLKIT: driver.toolkit_version if driver else None,
    }
    return (SoftwareVersion(component=what, running=one[:VERSION_MAX]) for what, one in facts.items() if one)


def _of_operands(known: Assessment) -> Iterable[SoftwareVersion]:
    before = {one.component: one for one in known.inventory.status.software}
    there: dict[str, list[OperandVersions]] = {}
    for one in known.state.observed.operands:
        # A gate that this pass closes ends the pods behind it.
        if one.component not in GATED or one.component in known.progress.gates:
            there.setdefault(LABELLED.get(one.component, one.component), []).append(one)
    for component, found in there.items():
        old = before.get(component)
        running = _listed(one.running for one in found) or (old.running if old else None)
        if running:
            wanted = _listed(one.wanted for one in found)
            yield SoftwareVersion(component=component, running=running, wanted=wanted)
    # Away for MIG work or for the driver's, or until its DaemonSet that somebody deleted is back.
    for component in known.progress.gates | known.state.closed:
        if component in before and component not in there:
            yield before[component]


def _listed(versions: Iterable[str | None]) -> str | None:
    """The versions, each once and always in the same order: pools' programs may differ on one node."""
    return SEPARATOR.join(sorted({one for one in versions if one}))[:VERSION_MAX] or None


def operand_versions(component: str, made: Operand | None, pod: Pod | None) -> OperandVersions:
    """The versions of one DaemonSet on a node: of its ready pod, and of its template."""
    wanted = _first_container(made)
    return OperandVersions(
        component,
        running=_version(_image(pod, wanted.get("name"))) if pod is not None else None,
        wanted=_version(wanted.get("image", "")),
    )


def template_version(made: Operand) -> str | None:
    """The version that a DaemonSet's template asks for."""
    return operand_versions("", made, None).wanted


def _first_container(made: Operand | None) -> dict[str, Any]:
    """The container whose image the settings choose; what stands beside it is the agent's."""
    containers: list[dict[str, Any]] = (made.pod if made is not None else {}).get("containers") or [{}]
    return containers[0]


def _image(pod: Pod, container: str | None) -> str:
    """The image of that container, or of the first where the DaemonSet is gone; somebody may add others before it."""
    images = [one.image for one in pod.spec.containers if container in (None, one.name)]
    return images[0] if images else ""


def _version(reference: str) -> str | None:
    return (split_reference(reference)[1] or UNTAGGED) if reference else None
