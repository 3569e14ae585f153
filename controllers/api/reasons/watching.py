"""Reasons of the conditions that speak of a node's telemetry, of others that serve it, and of its pods."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
    Row(
        "MonitoringMissing",
        "False",
        "MonitoringReady",
        "the exporter answers with fresh values",
        NOTHING,
    ),
    Row(
        "MonitoringMissing",
        "False",
        "MonitoringNotChecked",
        "the settings run neither DCGM nor the exporter; cards are not watched",
        "`bootstrap.dcgm.enabled` and `bootstrap.dcgmExporter.enabled: true`",
    ),
    Row(
        "MonitoringMissing",
        "Unknown",
        "HeartbeatAwaited",
        "the exporter runs and has not yet given `bootstrap.monitoring.readyAfter` fresh answers",
        "wait; it ends as ready, or as missing",
    ),
    Row(
        "MonitoringMissing",
        "True",
        "HeartbeatMissing",
        "no fresh answer for `bootstrap.monitoring.missingAfter`",
        "the message says what was found; `kubectl -n d8-gpu-operator describe pods "
        "-l gpu.deckhouse.io/component=dcgm-exporter --field-selector spec.nodeName=<node>`",
    ),
    Row(
        "MonitoringMissing",
        "Unknown",
        "Blind",
        "so many nodes fell silent at once that it is taken to be ours; nothing leaves service",
        "gpu-bootstrap-controller's network and NetworkPolicies; a roll-out of the exporter",
    ),
    Row(
        "ManagedElsewhere",
        "False",
        "NothingFound",
        "neither kubelet, nor pods, nor labels show that others serve the node's cards",
        NOTHING,
    ),
    Row(
        "ManagedElsewhere",
        "True",
        "DevicePluginFound",
        "kubelet offers `nvidia.com/gpu` or `nvidia.com/mig-…` on the node, or a pod of another device plugin is "
        "there. While it is, no pool offers the node's cards (`Configured` of the card says `ManagedElsewhere`)",
        "leave the node to one manager: [coexistence.md](coexistence.md#give-each-node-to-one-manager)",
    ),
    Row(
        "ManagedElsewhere",
        "True",
        "ProgramsFound",
        "pods of others bring the node's driver or toolkit, or divide its cards; `status.managedElsewhere` names them."
        " The module installs no driver, or divides no card, while they are there",
        "leave the node to one manager: [coexistence.md](coexistence.md#give-each-node-to-one-manager)",
    ),
    Row(
        "ManagedElsewhere",
        "True",
        "OperatorLabelled",
        "NVIDIA's GPU operator is told to run its driver, toolkit, device plugin or MIG manager there",
        "leave the node to one manager: [coexistence.md](coexistence.md#give-each-node-to-one-manager)",
    ),
    Row(
        "DegradedWorkloads",
        "False",
        "None",
        "no pod uses a card that is out of service",
        NOTHING,
    ),
    Row(
        "DegradedWorkloads",
        "True",
        "NodeNotInService",
        "pods run on with cards of a node that gets no new ones",
        "mend the node, or move the pods when it suits you",
    ),
    Row(
        "DegradedWorkloads",
        "True",
        "CardFaulted",
        "pods run on with a faulted card",
        "condition `Faulted` of the card says what to do; move the pods when it suits you",
    ),
)
