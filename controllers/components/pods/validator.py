"""The two checks of a node, both the module's own node agent: of the driver, and of a container with cards. Pure.

Ready means that the check of this run passed and is still true; the agent looks again and again, and tells what
it finds in feature `gpu.validation` of the node's NodeFeature.

Neither has a privilege. What therefore is not checked here: that the host's own nvidia-smi runs (it needs the host's
root file system and device nodes), and that the container runtime has loaded the configuration that lies in /etc.
The second shows when the container check's pod starts at all: it names the RuntimeClass. The first shows there too:
the container has the same driver's nodes and libraries, put there by the toolkit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components import podspec
from controllers.domain.agents import LISTENS, PORTS

if TYPE_CHECKING:
    from controllers.api.settings import BootstrapSettings
    from controllers.components.agent import Agent
    from controllers.components.podspec import Json

SERVICE_ACCOUNT: Final = "gpu-nodeagent-validate"
USER: Final = 64535
"""Nobody's, as the discovery agent's."""
# Folders that every node has, but for the last: a runtime makes a missing hostPath, or refuses the pod.
HOST: Final = {"sys": "/host/sys", "usr": "/host/root/usr", "etc": "/host/root/etc"}
CDI: Final = {"cdi": "/host/root/var/run/cdi"}


def driver(image: str, _: BootstrapSettings, agent: Agent) -> Json:
    """Looks at what the driver tells in /proc and /sys, and for its libraries; before any toolkit is there.

    The root of a driver's container is mounted below the host's by itself: beside it, in /run/nvidia, lie pipes and
    sockets, which a read-only mount does not close.

    The host's /dev is not mounted: nobody could open a card's node there without privileges, and below it lies
    /dev/shm, which everybody may write to and which a read-only mount of /dev leaves writable.
    """
    pod = _agent(
        "driver-validator", "driver", image, HOST, podspec.env({"HOST_DRIVER_ROOT": agent.driver_root}), limit="256Mi"
    )
    if agent.driver_root == "/":
        return pod
    (one,) = pod["containers"]
    mount = podspec.later(podspec.mount("driver", f"/host/root{agent.driver_root}", read_only=True))
    volume = {"name": "driver", "hostPath": {"path": agent.driver_root, "type": "DirectoryOrCreate"}}
    made = one | {"volumeMounts": [*one["volumeMounts"], mount]}
    return pod | {"containers": [made], "volumes": [*pod["volumes"], volume]}


def container(image: str, _: BootstrapSettings) -> Json:
    """A container like a workload's: under the runtime class, all cards asked for, nothing mounted by hand.

    The host's folders beside that are for the checks of the runtime's configuration and of the CDI specifications.
    The limit leaves room for one context of CUDA, whose library keeps some hundred MiB on the host, once in a boot.
    """
    cards = podspec.env({names.VISIBLE_DEVICES: "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"})
    pod = _agent("validator", "container", image, HOST | CDI, cards, limit="1Gi")
    return {"runtimeClassName": names.RUNTIME_CLASS} | pod


def _agent(name: str, check: str, image: str, mounted: dict[str, str], more: list[Json], *, limit: str) -> Json:
    container = {
        "name": name,
        "image": image,
        "command": ["python3", "-m", "nodeagent.validate"],
        # The kubelet asks for health at the pod's address.
        "args": [check, *LISTENS],
        "env": [
            podspec.from_field("NODE_NAME", "spec.nodeName"),
            *podspec.env({"HOST_SYS": HOST["sys"], "HOST_ROOT": "/host/root"}),
            *more,
        ],
        "ports": [*PORTS],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": podspec.resources("10m", "96Mi", limit),
        "readinessProbe": podspec.probe({"httpGet": {"path": "/readyz", "port": "health"}}, 5),
        "livenessProbe": podspec.probe({"httpGet": {"path": "/healthz", "port": "health"}}, 10),
        "volumeMounts": [podspec.mount(volume, path, read_only=True) for volume, path in mounted.items()],
    }
    return {
        # The projected token names the pod's node: the policy on node agents reads that claim.
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": podspec.volumes(*mounted),
    }
