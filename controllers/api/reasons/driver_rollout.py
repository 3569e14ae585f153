"""Why a node keeps the driver that it has for now, or got it back: reasons of a GPUDriver's roll-out and its nodes."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_DRIVER
from controllers.api.reasons.row import Row

OWNER: Final = MANAGER_DRIVER
_LATER: Final = "it is in service with the driver that it had, and is tried again by itself"
ROWS: Final = (
    Row(
        "Progressing",
        "True",
        "CardsNotWithdrawn",
        f"the node's cards were not withdrawn within 5 minutes: {_LATER}",
        "look at the device plugin's pods of the node: `kubectl -n d8-gpu-operator get pods -o wide "
        "--field-selector spec.nodeName=<node>`",
    ),
    Row(
        "Progressing",
        "True",
        "PodsRemain",
        f"pods went on using the node's cards for longer than `spec.rollout.drain` allows: {_LATER}",
        "wait, or end what `kubectl gpu node <node>` names; strategy `Drain` evicts pods whose owners allow it; "
        "`kubectl gpu driver retry <node>` tries at once",
    ),
    Row(
        "Progressing",
        "True",
        "PodsProtected",
        "pods on the node must not be evicted: by an annotation, for data in an emptyDir, or since no controller, or a "
        "DaemonSet, would create them again: the node waits for them as long as `spec.rollout.drain` allows; then "
        f"{_LATER}",
        "end the pods that `status.driverWork.message` of the node's GPUNodeInventory names, or take the mark off "
        "them; `spec.rollout.drain.localData` and `.bare` say `Evict` where data and bare pods may go",
    ),
    Row(
        "Progressing",
        "True",
        "EvictionRefused",
        "a PodDisruptionBudget, or another program, refuses the eviction of a pod of the node: no pod of the node is "
        "evicted before all may be; the API server is asked again after 5 to 60 s, and after the timeout "
        f"{_LATER}",
        "`kubectl get pdb -A` shows budgets with 0 allowed disruptions: let more pods of them run elsewhere, or widen "
        "the budget",
    ),
    Row(
        "Progressing",
        "True",
        "ClientsRemain",
        f"the module's own pods on the node did not leave the driver within 5 minutes: {_LATER}",
        "`kubectl -n d8-gpu-operator get pods -o wide --field-selector spec.nodeName=<node>`: one that hangs in "
        "Terminating keeps the driver",
    ),
    Row(
        "Failed",
        "True",
        "RollbackFailed",
        "the node got its former driver back after another one failed there, and that failed, too: it is out of "
        "service",
        "`kubectl gpu driver <driver>` says what was found; reboot the node, or mend that and "
        "`kubectl gpu driver retry <node>`",
    ),
)
