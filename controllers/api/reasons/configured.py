"""Reasons of a card's condition Configured."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_POOL
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_POOL
ROWS: Final = (
    Row(
        "Configured",
        "True",
        "Published",
        "the node's plugin offers the card as wanted",
        NOTHING,
    ),
    Row(
        "Configured",
        "True",
        "Withdrawn",
        "it is not to be offered, and is not; a card that is leaving waits for its pods alone",
        "nothing; where its node is away, the message says what",
    ),
    Row(
        "Configured",
        "False",
        "AwaitingPlugin",
        "the plugin has yet to offer it",
        "`kubectl -n d8-gpu-operator get pods -o wide | grep gpu-device-plugin-<pool>`",
    ),
    Row(
        "Configured",
        "False",
        "AwaitingWithdrawal",
        "the plugin has yet to withdraw it; pods on it keep it, and new ones do not get it. Where the node is away,"
        " the message says since when",
        "`kubectl -n d8-gpu-operator get pods -o wide | grep gpu-device-plugin-<pool>`; where the machine is off "
        "for good, `kubectl delete node <node>`",
    ),
    Row(
        "Configured",
        "False",
        "PodsUnknown",
        "the card is kept off the lists: kubelet tells of a pod on it that the cluster does not have on that node, "
        "or that has ended",
        "it goes on by itself once kubelet tells of it no more; where there is no such pod the node is not to be "
        "believed: replace it",
    ),
    Row(
        "Configured",
        "False",
        "MpsDown",
        "the card is shared by MPS, and its control daemon does not serve: pods on it fail, and new ones do not get it",
        "`status.mps` of the card; `kubectl -n d8-gpu-operator get pods -o wide | grep gpu-mps-<pool>`, and that pod's "
        "log; it is started again by itself",
    ),
    Row(
        "Configured",
        "False",
        "AwaitingDaemonEnd",
        "the card is leaving, or is offered anew by other settings, and its MPS control daemon has yet to end, or "
        "compute mode to be put back; it stays in the pool until then",
        "`status.mps` of the card; `kubectl -n d8-gpu-operator get pods -o wide | grep gpu-mps-<pool>`; by hand, on "
        "the node: `nvidia-smi -i <card> -c DEFAULT`",
    ),
    Row(
        "Configured",
        "False",
        "AwaitingLayout",
        "the node has yet to divide the card by MIG, or, in another mode, to undo that",
        "`status.migApply` of the card; `kubectl -n d8-gpu-operator get pods -o wide | grep gpu-mig-manager-<pool>`",
    ),
    Row(
        "Configured",
        "False",
        "LayoutFailed",
        "the card could not be divided, or its MIG mode switched off, or not within `maintenance.deadline`: it is not "
        "offered, and the pool goes on with the others",
        "as the message says ([words](node-agent.md#words-at-the-head-of-a-reason)), then `kubectl annotate gpupool"
        " <pool> gpu.deckhouse.io/resume=true`; a reboot of the node has it tried again, too, and so does the end "
        "of strangers' pods that were on it; or leave it out (`kubectl label gpudevice "
        "<card> gpu.deckhouse.io/ignore=true`)",
    ),
    Row(
        "Configured",
        "False",
        "LayoutDrifted",
        "somebody divided the card differently: it is not offered",
        "as the message says ([words](node-agent.md#words-at-the-head-of-a-reason)), then `kubectl annotate gpupool"
        " <pool> gpu.deckhouse.io/resume=true`; a reboot of the node has it tried again, too, and so does the end "
        "of strangers' pods that were on it; or leave it out (`kubectl label gpudevice "
        "<card> gpu.deckhouse.io/ignore=true`)",
    ),
    Row(
        "Configured",
        "False",
        "AwaitingTurnBack",
        "the card is leaving, and MIG mode has yet to be turned off; it stays in the pool until then",
        "`status.migApply` of the card; `kubectl -n d8-gpu-operator get pods -o wide | grep "
        "gpu-mig-manager-<pool>`; where it failed, mend it and `kubectl annotate gpupool "
        "<pool> gpu.deckhouse.io/resume=true`",
    ),
    Row(
        "Configured",
        "False",
        "MIGEnabled",
        "the pool offers whole cards, and somebody else turned the card's MIG mode on: it is not taken in, or no "
        "longer offered",
        "on the node `nvidia-smi -i <address> -mig 0`, or a pool of mode MIG; it goes on by itself",
    ),
    Row(
        "Configured",
        "False",
        "MIGStateUnknown",
        "the pool divides cards, and the node's validator has not told whether this one is in MIG mode",
        "see whether it runs there (`bootstrap.validator`); it goes on by itself",
    ),
    Row(
        "Configured",
        "False",
        "SettingsDiffer",
        "the plugin offers it with other settings",
        "wait for its ConfigMap; if this lasts, the plugin's log",
    ),
    Row(
        "Configured",
        "Unknown",
        "PoolUnknown",
        "there is no pool of the name in the annotation; since when, `status.missingPool` says",
        "create the pool, name another, or remove the annotation; it goes by itself after `pools.danglingAfter` (10"
        " min)",
    ),
    Row(
        "Configured",
        "False",
        "CardDeleting",
        "the card's GPUDevice is being deleted, and its annotation with it",
        "wait until it is gone: the next report of its node brings a new one if the card is there; assign that",
    ),
    Row(
        "Configured",
        "False",
        "PoolDeleting PoolNotServed",
        "the pool that the annotation names is going, or is not served",
        "name another pool, or remove the annotation",
    ),
    Row(
        "Configured",
        "False",
        "OutOfSelector NodeFull",
        "the pool does not take the card, or has all it may of this node",
        "name another pool, or change that one's selector or `maxDevicesPerNode`",
    ),
    Row(
        "Configured",
        "False",
        "HardwareUnknown NodeNotReady StillInUse",
        "the card waits: for the agent, for its node, for pods of the pool before",
        "wait; the conditions of its node say what it waits for: `kubectl describe gpunode <node>`",
    ),
    Row(
        "Configured",
        "False",
        "HeldElsewhere",
        "containers have the card by a resource that is not the module's, such as `nvidia.com/gpu`: it is offered "
        "to nobody, or not taken in; a pod of the pool that has it, too, keeps it",
        "`status.foreignAllocations` of the card names them; it goes on by itself once they have ended. "
        "[coexistence.md](coexistence.md)",
    ),
    Row(
        "Configured",
        "False",
        "ManagedElsewhere",
        "another device plugin offers the node's cards, or another MIG manager divides them: the card is offered to "
        "nobody by its pool; pods that have it keep it",
        "`status.managedElsewhere` of the node's GPUNodeInventory names it; it goes on by itself once that program has "
        "left the node. [coexistence.md](coexistence.md)",
    ),
    Row(
        "Configured",
        "False",
        "Faulted Ignored ManagedDisabled InventoryIncomplete",
        "that condition of the card keeps it out of the pool that it is assigned to",
        "do as that condition of the card says: `kubectl describe gpudevice <card>`",
    ),
)
