"""kube-state-metrics' series of the simulated cluster, as far as the module's dashboards and alerts use them. Pure.

Names, labels and spelling are those of kube-state-metrics 2.x: a resource is written with every character that is
no letter or digit replaced by `_`, and a quantity as a plain number of its unit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controllers.api.quantity import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.kube import Node
    from sim.nodes.pods import Pod

UNITS: Final = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte"}
"""Units of kubelet's own resources; hugepages are bytes, all else is counted."""
PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def text(nodes: Iterable[Node], pods: Iterable[Pod]) -> str:
    """The page of metrics."""
    return "".join((_allocatable(nodes), *_pods(list(pods))))


def _allocatable(nodes: Iterable[Node]) -> str:
    return _family(
        "kube_node_status_allocatable",
        "The allocatable for different resources of a node that are available for scheduling.",
        (
            ({"node": node.name, **_named(resource)}, amount(found))
            for node in nodes
            for resource, found in node.status.allocatable.items()
        ),
    )


def _pods(pods: list[Pod]) -> tuple[str, ...]:
    phases = _family(
        "kube_pod_status_phase",
        "The pods current phase.",
        (({**_pod(pod), "phase": phase}, int(pod.status.phase == phase)) for pod in pods for phase in PHASES),
    )
    info = _family("kube_pod_info", "Information about pod.", ((_pod(pod) | _place(pod), 1) for pod in pods))
    limits = _family(
        "kube_pod_container_resource_limits",
        "The number of requested limit resource by a container.",
        (
            (_pod(pod) | {"container": container.name} | _place(pod) | _named(resource), amount(str(found)))
            for pod in pods
            for container in pod.spec.containers
            for resource, found in container.resources.limits.items()
        ),
    )
    return info, phases, limits


def _pod(pod: Pod) -> dict[str, str]:
    meta = pod.metadata
    return {"namespace": meta.namespace or "", "pod": meta.name, "uid": meta.uid}


def _place(pod: Pod) -> dict[str, str]:
    return {"node": pod.spec.node_name or ""}


def _named(resource: str) -> dict[str, str]:
    unit = "byte" if resource.startswith("hugepages-") else UNITS.get(resource, "integer")
    return {"resource": re.sub(r"[^a-zA-Z0-9_]", "_", resource), "unit": unit}


def _family(name: str, title: str, samples: Iterable[tuple[Mapping[str, str], object]]) -> str:
    lines = [f"# HELP {name} {title}\n# TYPE {name} gauge\n"]
    for labels, value in samples:
        pairs = ",".join(f'{key}="{text}"' for key, text in labels.items())
        lines.append(f"{name}{{{pairs}}} {value}\n")
    return "".join(lines)
