"""The pod of a check of a node by the module's own node agent: of the driver, or of a container with cards. Pure.

Ready means that the check of this run passed and is still true; the agent looks again and again, and tells what
it finds in feature `gpu.validation` of the node's NodeFeature.

Neither has a privilege. What therefore is not checked here: that the host's own nvidia-smi runs (it needs the host's
root file system and device nodes), and that the container runtime has loaded the configuration that lies in /etc.
The second shows when the container check's pod starts at all: it names the RuntimeClass. The first shows there too:
the container has the same driver's nodes and libraries, put there by the toolkit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.components import podspec
from controllers.components.agent import node_name, serving
from controllers.domain.agents import LISTENS

if TYPE_CHECKING:
    from controllers.components.podspec import Json

SERVICE_ACCOUNT: Final = "gpu-nodeagent-validate"
USER: Final = 64535
"""Nobody's, as the discovery agent's."""
# Folders that every node has, but for the last: a runtime makes a missing hostPath, or refuses the pod.
HOST: Final = {"sys": "/host/sys", "usr": "/host/root/usr", "etc": "/host/root/etc"}


def check_pod(name: str, check: str, image: str, mounted: dict[str, str], more: list[Json], *, limit: str) -> Json:
    """The pod that runs a check (`driver` or `container`), without a privilege.

    `mounted` are the host's folders, each with its place in the container; `more` is environment; `limit` of memory.
    """
    container = {
        "name": name,
        "image": image,
        "command": ["python3", "-m", "nodeagent.validate"],
        "args": [check, *LISTENS],
        "env": [
            node_name(),
            *podspec.env({"HOST_SYS": HOST["sys"], "HOST_ROOT": "/host/root"}),
            *more,
        ],
        **serving(),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": podspec.resources("10m", "96Mi", limit),
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
