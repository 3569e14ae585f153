"""Random pods: what people ask for, and the odd ways in which it can be written. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reliability.agreement import placement
from reliability.agreement.placement import chance

if TYPE_CHECKING:
    from random import Random

Json = dict[str, Any]
HEAVY: Final = "heavy"
"""A RuntimeClass whose pods have overhead."""
OVERHEAD: Final = {"cpu": "250m", "memory": "160Mi"}
_CPU: Final = ("100m", "0.5", "1", "1.5", "2", "4", "6", "12", "30", "1e1", "2500u", "7910m")
_MEMORY: Final = (
    "64Mi",
    "1Gi",
    "1500M",
    "3.5Gi",
    "8Gi",
    "24Gi",
    "60G",
    "129e6",
    "0.1Ti",
    "900Gi",
    "12345678901",
    "1.5",
)
_ABSURD: Final = ("9Ei", "16Ei", "10E")
"""More than 64 bits hold, or nearly. In a sum such a quantity overflows, and nobody could say what comes of it."""
_STORAGE: Final = ("1Gi", "9Gi", "20Gi", "50G")
_PORTS: Final = (8080, 9400, 30000)
_ALWAYS: Final = "Always"


def pod(draw: Random, name: str, pools: list[str], node: str | None = None) -> Json:
    """A pod as somebody would send it; on a node, it is bound from the beginning and demands nothing of nodes."""
    spec: Json = {"containers": [_container(draw, f"c{number}", pools) for number in range(draw.choice((1, 1, 1, 2)))]}
    if chance(draw, 0.25):
        spec["initContainers"] = [_init(draw, f"i{number}", pools) for number in range(draw.choice((1, 2)))]
    _part_ports(spec)
    if chance(draw, 0.1):
        spec["runtimeClassName"] = HEAVY
    if chance(draw, 0.1):
        _ask_together(draw, spec)
    if node is None and chance(draw, 0.01):
        spec = {"containers": [{**spec["containers"][0], "resources": {"requests": {"memory": draw.choice(_ABSURD)}}}]}
    spec |= {"nodeName": node} if node is not None else placement.demands(draw)
    meta = {"name": name, "labels": {"app": draw.choice(("web", "train", "train", "train", "lonely"))}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def resized(draw: Random, made: Json) -> Json:
    """The status of a pod whose containers are being resized: kubelet has given what the spec no longer says."""
    given = {"cpu": draw.choice(_CPU), "memory": draw.choice(_MEMORY)}
    statuses = [
        {
            "name": one["name"],
            "image": "i",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "resources": {"requests": given},
            "allocatedResources": {"cpu": draw.choice(_CPU)},
        }
        for one in made["spec"]["containers"]
    ]
    pending = {"type": "PodResizePending", "status": "True", "reason": draw.choice(("Infeasible", "Deferred"))}
    return {"phase": "Running", "containerStatuses": statuses, "conditions": [pending] if chance(draw, 0.5) else []}


def _container(draw: Random, name: str, pools: list[str]) -> Json:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if chance(draw, 0.8):
        requests["cpu"] = draw.choice(_CPU)
    if chance(draw, 0.8):
        requests["memory"] = draw.choice(_MEMORY)
    if chance(draw, 0.1):
        requests["ephemeral-storage"] = draw.choice(_STORAGE)
    if chance(draw, 0.8):
        limits[draw.choice(pools)] = str(draw.choice((0, 1, 1, 1, 2, 2, 4, 8)))
    if chance(draw, 0.03):
        limits |= {"hugepages-2Mi": "512Mi", "memory": "1Gi"}
        requests["memory"] = "1Gi"
    made: Json = {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}}
    if chance(draw, 0.15):
        made["ports"] = [_port(draw)]
    return made


def _init(draw: Random, name: str, pools: list[str]) -> Json:
    made = _container(draw, name, pools)
    return made | {"restartPolicy": _ALWAYS} if chance(draw, 0.5) else made


def _port(draw: Random) -> Json:
    port = draw.choice(_PORTS)
    made: Json = {"containerPort": port, "hostPort": port, "protocol": draw.choice(("TCP", "TCP", "TCP", "UDP"))}
    return made | draw.choice(({}, {}, {"hostIP": "0.0.0.0"}, {"hostIP": "127.0.0.1"}, {"hostIP": "10.0.0.1"}))  # noqa: S104


def _part_ports(spec: Json) -> None:
    """No two containers of a pod have one port: the API server refuses that."""
    seen = set[tuple[str, ...]]()
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        for port in container.get("ports", ()):
            if (key := (port["protocol"], str(port["hostPort"]))) in seen:
                del container["ports"]
            seen.add(key)


def _ask_together(draw: Random, spec: Json) -> None:
    """All containers together ask for CPU and memory, and none by itself: the API server compares the two."""
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        for kind in ("requests", "limits"):
            for resource in ("cpu", "memory", "hugepages-2Mi"):
                container["resources"][kind].pop(resource, None)
    spec["resources"] = {"requests": {"cpu": draw.choice(_CPU), "memory": draw.choice(_MEMORY)}}
