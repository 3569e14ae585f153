"""A pool's MIG manager: its DaemonSet, as a whole object. Pure.

It runs where the pool has cards. A card that leaves stays in its pool until it has been turned back, so the manager
stays for that too. It reads the layout of its node by watch: a change of cards restarts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.components import podspec
from controllers.components.agent import node_name, serving_after_start
from controllers.components.daemonset import ON_EVERY_NODE, build_daemonset
from controllers.domain.agents import LISTENS, reaching
from controllers.domain.allocation import applied, wanted
from controllers.domain.eligibility import part_of
from controllers.domain.mig.configmap import COMPONENT
from controllers.gpupool.operands.device_plugin import labels, owner

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.domain.agents import Variables
    from controllers.gpupool.views import ObservedPool

LOCK_DIR: Final = "/run/gpu-mig-manager"
"""One lock for a node: the managers of its pools share it."""


def is_needed(seen: ObservedPool) -> bool:
    """Whether cards of the pool are to be divided, are divided, or have to be turned back."""
    modes = {applied(seen.pool).mode, wanted(seen.pool).mode}
    parts = (part_of(seen.facts(device.status.node_name).layout, device) for device in seen.members)
    return "MIG" in modes or any(part is not None for part in parts)


def daemonset(pool: GPUPool, image: str, *, env: Variables = ()) -> dict[str, Any]:
    """The pool's MIG manager on every node that has a card of it."""
    own = labels(pool.name) | {names.LABEL_COMPONENT: COMPONENT}
    made = reaching(_pod(pool.name, image), env)
    return build_daemonset(names.mig_manager(pool.name), own, made, owners=owner(pool))


def _pod(pool: str, image: str) -> dict[str, Any]:
    return {
        "nodeSelector": {names.pool_node_label(pool): "true"},
        "serviceAccountName": "gpu-nodeagent-mig",
        "automountServiceAccountToken": True,  # its ServiceAccount says no by default
        **ON_EVERY_NODE,
        "terminationGracePeriodSeconds": 60,  # an apply that has begun is finished first
        # The runtime brings the driver's library and nvidia-smi.
        "runtimeClassName": names.RUNTIME_CLASS,
        "containers": [
            {
                "name": "mig-manager",
                "image": image,
                "args": ["mig-manager", "--pool", pool, *LISTENS],
                "env": [
                    node_name(),
                    *podspec.env(
                        {
                            names.VISIBLE_DEVICES: "all",
                            "NVIDIA_MIG_CONFIG_DEVICES": "all",
                            "NVIDIA_DRIVER_CAPABILITIES": "utility",
                        }
                    ),
                ],
                **serving_after_start(),
                # The reader of the driver and nvidia-mig-parted have their memory beside the manager's own.
                "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
                # Dividing a card is the driver's own business with its device nodes, which only root may open.
                "securityContext": {"privileged": True, "readOnlyRootFilesystem": True, "runAsUser": 0},
                "volumeMounts": [
                    podspec.mount("dev", "/dev"),
                    podspec.mount("sys", "/sys"),
                    podspec.mount("lock", LOCK_DIR),
                ],
            }
        ],
        "volumes": [
            podspec.host_volume("dev", "/dev"),
            podspec.host_volume("sys", "/sys"),
            podspec.host_volume("lock", LOCK_DIR, "DirectoryOrCreate"),
        ],
    }
