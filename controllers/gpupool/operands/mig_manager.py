"""A pool's MIG manager: its DaemonSet, as a whole object. Pure.

It runs where the pool has cards. A card that leaves stays in its pool until it has been turned back, so the manager
stays for that too. It reads the layout of its node by watch: a change of cards restarts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.agents import LISTENS, reaching
from controllers.domain.allocation import applied, wanted
from controllers.domain.eligibility import part_of
from controllers.domain.mig.configmap import COMPONENT
from controllers.gpupool.operands.device_plugin import around, labels
from controllers.gpupool.operands.device_plugin_pod import SERVES

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.domain.agents import Variables
    from controllers.gpupool.observe import ObservedPool


def is_needed(seen: ObservedPool) -> bool:
    """Whether cards of the pool are to be divided, are divided, or have to be turned back."""
    modes = {applied(seen.pool).mode, wanted(seen.pool).mode}
    parts = (part_of(seen.facts(device.status.node_name).layout, device) for device in seen.members)
    return "MIG" in modes or any(part is not None for part in parts)


def daemonset(pool: GPUPool, image: str, *, env: Variables = ()) -> dict[str, Any]:
    """The pool's MIG manager on every node that has a card of it."""
    own = labels(pool.name) | {names.LABEL_COMPONENT: COMPONENT}
    return around(pool, names.mig_manager(pool.name), own, reaching(_pod(pool.name, image), env))


def _pod(pool: str, image: str) -> dict[str, Any]:
    return {
        "nodeSelector": {names.pool_node_label(pool): "true"},
        "serviceAccountName": "gpu-nodeagent-mig",
        "automountServiceAccountToken": True,  # its ServiceAccount says no by default
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 60,  # an apply that has begun is finished first
        # The runtime brings the driver's library and nvidia-smi.
        "runtimeClassName": names.RUNTIME_CLASS,
        "containers": [
            {
                "name": "mig-manager",
                "image": image,
                "args": ["mig-manager", "--pool", pool, *LISTENS],
                "env": [
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": names.VISIBLE_DEVICES, "value": "all"},
                    {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"},
                    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
                ],
                **SERVES,
                # The reader of the driver and nvidia-mig-parted have their memory beside the manager's own.
                "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
                # Dividing a card is the driver's own business with its device nodes, which only root may open.
                "securityContext": {"privileged": True, "readOnlyRootFilesystem": True, "runAsUser": 0},
                "volumeMounts": [
                    {"name": "dev", "mountPath": "/dev"},
                    {"name": "sys", "mountPath": "/sys"},
                    {"name": "lock", "mountPath": "/run/gpu-mig-manager"},
                ],
            }
        ],
        "volumes": [
            {"name": "dev", "hostPath": {"path": "/dev"}},
            {"name": "sys", "hostPath": {"path": "/sys"}},
            # One lock for a node: the managers of its pools share it.
            {"name": "lock", "hostPath": {"path": "/run/gpu-mig-manager", "type": "DirectoryOrCreate"}},
        ],
    }
