"""Reasons of a GPUDriver's conditions but for Blocked and Failed, and of nodes that wait their turn."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_DRIVER
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_DRIVER
_WHO: Final = "`kubectl gpu driver <driver>` names the nodes with their reasons"
READY: Final = (
    Row("Ready", "True", "AllNodesReady", "each node that the driver has is as it was asked for", NOTHING),
    Row(
        "Ready",
        "False",
        "NodesAtWork",
        "nodes are being looked at or installed",
        f"wait; {_WHO}",
    ),
    Row(
        "Ready",
        "False",
        "NodesBlocked NodesFailed",
        "nodes cannot get the driver, or failed with it; the others do not wait for them",
        f"{_WHO}; see `Blocked` and `Failed`",
    ),
    Row(
        "Ready",
        "False",
        "NodesOutdated",
        "nodes serve with another revision of the driver than is wanted, which they get in their turn",
        f"see `Progressing` for what they wait for; {_WHO}",
    ),
    Row(
        "Ready",
        "False",
        "NodesOutOfService",
        "nodes have the driver that is wanted, and are not ready for pooling",
        "see condition `ReadyForPooling` of their GPUNodeInventories: `kubectl get gpunode`",
    ),
    Row(
        "Ready",
        "Unknown",
        "NoNodes",
        "no node with cards is the driver's: none matches `spec.target`, or others have those that do",
        "see `Overlaps`; `kubectl get gpunode --show-labels`, and `spec.target`",
    ),
    Row(
        "Ready",
        "False",
        "BeingDeleted",
        "the driver is being deleted: nodes go to the next driver that matches, those without one keep what is loaded",
        f"wait; {_WHO}",
    ),
)
PROGRESSING: Final = (
    Row("Progressing", "True", "NodesAtWork", "nodes are being looked at or installed", f"wait; {_WHO}"),
    Row("Progressing", "False", "NothingToDo", "no node is at work, and none waits", NOTHING),
    Row(
        "Progressing",
        "False",
        "RolloutPaused",
        "`spec.rollout.paused` is set: nothing is started",
        '`kubectl patch gpudriver <driver> --type=merge -p \'{"spec":{"rollout":{"paused":false}}}\'`',
    ),
    Row(
        "Progressing",
        "True",
        "AwaitingSlot",
        "as many nodes as may are at work: `driver.installParallel`, `driver.prefetchParallel`",
        "wait; or raise the setting, if registry and network bear it",
    ),
    Row(
        "Progressing",
        "True",
        "AwaitingProof",
        "the revision has proved good nowhere yet: one node of each kind tries it first",
        f"wait until that node serves, or see why it does not: {_WHO}",
    ),
    Row(
        "Progressing",
        "False",
        "ConfigMapMissing",
        "a ConfigMap that the driver names is not there: no node is begun",
        "make it in namespace `d8-gpu-operator`, or take its name out of `spec.build`",
    ),
    Row(
        "Progressing",
        "False",
        "RevisionBad",
        "the revision failed, and none has proved good before: no node gets it",
        "see `Halted`; put another version into `spec.version`",
    ),
    Row(
        "Progressing",
        "True",
        "NodeCordoned",
        "a person or an autoscaler has cordoned the node: it is not begun",
        "`kubectl uncordon <node>`",
    ),
    Row(
        "Progressing",
        "True",
        "NodeNotReady",
        "kubelet does not say that the node is Ready: its limits stand still",
        "`kubectl describe node <node>`",
    ),
    Row(
        "Progressing",
        "True",
        "AwaitingFacts",
        "the node has not said enough of itself: its agent is silent, or the node is being started",
        "wait; if it lasts, see the pod of `nodeagent-discover` on that node and its log",
    ),
    Row(
        "Progressing",
        "True",
        "KernelChanged",
        "the node was started with another kernel than its driver is for: it is out of service, and gets the driver "
        "for the kernel that runs as a bare node does",
        "wait; or start the node with its former kernel. `NextKernelUnserved` says before a reboot which kernels no "
        "image serves",
    ),
)
SHARED: Final = (
    Row(
        "Overlaps",
        "True",
        "OthersHaveNodes",
        "nodes that it matches are other drivers', by a higher priority or because they had them first",
        "nothing waits for this; give the drivers different `spec.priority`, or narrow `spec.target`",
    ),
    Row(
        "Overlaps",
        "True",
        "EqualPriority",
        "it has nodes that other drivers match with the same priority: only who had them first decides",
        "nothing waits for this; give the drivers different `spec.priority`, or narrow `spec.target`",
    ),
    Row("Overlaps", "False", "AsExpected", "no node that it matches is matched by another driver", NOTHING),
    Row(
        "SettingsInvalid",
        "True",
        "ConfigMapMissing",
        "a ConfigMap that the driver names is not there: nodes go on as before, new ones wait",
        "make it in namespace `d8-gpu-operator`, or take its name out of `spec.build`",
    ),
    Row("SettingsInvalid", "False", "AsExpected", "what the driver names is there", NOTHING),
    Row(
        "NextKernelUnserved",
        "True",
        "NextKernelUnserved",
        "nodes have a kernel installed, for their next start, for which no image of the driver is found",
        "do not reboot them yet; set `spec.mode` to `Auto` or `Compiled`, set another `spec.version`, or take that "
        "kernel off the nodes",
    ),
    Row(
        "NextKernelUnserved", "False", "AsExpected", "the driver serves the kernels that nodes will start with", NOTHING
    ),
)
ROWS: Final = (*READY, *PROGRESSING, *SHARED)
