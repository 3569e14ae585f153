"""Reasons of ReadyForPooling, and of InfraDegraded, which speaks of what prepares the node."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import NOTHING, Row

EVERY: Final = (
    "ReadyForPooling DriverMissing DriverOutdated CudaOutdated ToolkitMissing "
    "MonitoringMissing InfraDegraded ManagedElsewhere"
)
"""Conditions that say of a node that is not to be prepared why."""
OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
    Row(
        "ReadyForPooling",
        "True",
        "Ready",
        "every step is done: cards of the node may be in pools",
        NOTHING,
    ),
    Row(
        "ReadyForPooling",
        "True",
        "Preparing",
        "the node was ready and a component is new there (switched on); it stays for `bootstrap.phaseDeadline`",
        "nothing while its image is pulled; else the pod that the message names",
    ),
    Row(
        "ReadyForPooling",
        "True",
        "Restarting",
        "the node was ready and a pod of a component or the agent is away; it stays for `bootstrap.restartGrace`",
        "nothing during a roll-out; else the pod that the message names",
    ),
    Row(
        "ReadyForPooling",
        "True",
        "MigWork",
        "cards of the node are divided anew (MIG): its preparation rests for at most `bootstrap.phaseDeadline`, and"
        " what holds a card that is to be reset is stopped",
        "nothing; `status.migApply` of the node's GPUDevices says how far it is",
    ),
    Row(
        "ReadyForPooling",
        "True",
        "Held",
        "the node fell silent, or its driver became too old, and a fuse keeps it: too many would be out at once",
        "correct what the message names; find out why it is so many; or raise `health.maxUnavailablePercent`",
    ),
    Row(
        EVERY,
        "False",
        "ModuleDisabled",
        "the module is disabled: nothing of it runs",
        "`enabled: true` in ModuleConfig `gpu-control-plane`",
    ),
    Row(
        EVERY,
        "False",
        "NotManaged",
        "the node is not managed: nothing runs there",
        "`kubectl label node <node> gpu.deckhouse.io/enabled=true --overwrite`; condition `ManagedDisabled` says "
        "what decides",
    ),
    Row(
        EVERY,
        "False",
        "NoCards",
        "no card of the node is identified",
        "condition `InventoryIncomplete` of the node says what is missing",
    ),
    Row(
        EVERY,
        "False",
        "NoServedCards",
        "all cards of the node are ignored (and in no pool and not in use) or not of NVIDIA: it is not prepared for"
        " them",
        "nothing; to have an ignored card back, `kubectl label gpudevice <card> gpu.deckhouse.io/ignore-`",
    ),
    Row(
        "InfraDegraded",
        "True",
        "NodeNotReady",
        "the Node is not Ready, so the state of its cards is not known",
        "`kubectl describe node <node>`",
    ),
    Row(
        "InfraDegraded",
        "True",
        "NoReport",
        "the agent's NodeFeature is not there",
        "`kubectl -n d8-gpu-operator describe pods -l app=gpu-nodeagent-discover --field-selector "
        "spec.nodeName=<node>`",
    ),
    Row(
        "InfraDegraded",
        "True",
        "ReportOutdated",
        "the agent's report is from before the node last started",
        "wait for the agent; if this lasts, `kubectl -n d8-gpu-operator describe pods -l app=gpu-nodeagent-discover"
        " --field-selector spec.nodeName=<node>`",
    ),
    Row(
        "InfraDegraded",
        "True",
        "AgentNotReady",
        "the agent's pod on the node is not ready",
        "`kubectl -n d8-gpu-operator describe pods -l app=gpu-nodeagent-discover --field-selector "
        "spec.nodeName=<node>`",
    ),
    Row(
        "InfraDegraded",
        "False",
        "Healthy",
        "the agent and what prepares the node work",
        NOTHING,
    ),
)
