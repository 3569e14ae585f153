"""Reasons of a node's conditions that the inventory sets."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_INVENTORY
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_INVENTORY
ROWS: Final = (
    Row(
        "ManagedDisabled",
        "True False",
        "NodeLabel",
        "label `gpu.deckhouse.io/enabled` (`managedNodes.labelKey`) of the node decides",
        "`kubectl label node <node> gpu.deckhouse.io/enabled=true --overwrite`, or `=false`",
    ),
    Row(
        "ManagedDisabled",
        "False",
        "ManagedByDefault",
        "no such label, and the settings manage every GPU node",
        "nothing; label `gpu.deckhouse.io/enabled=false` takes the node out",
    ),
    Row(
        "ManagedDisabled",
        "True",
        "NotManaged",
        "no such label, and `managedNodes.enabledByDefault` is false",
        "`kubectl label node <node> gpu.deckhouse.io/enabled=true`",
    ),
    Row(
        "InventoryIncomplete",
        "False",
        "Complete",
        "every card of the node is known, but for those that are ignored or not of NVIDIA",
        NOTHING,
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "NotLabelled",
        "NFD sees cards, and label `gpu.deckhouse.io/present` is not set: the agent does not come",
        "`kubectl get nodefeaturerule deckhouse-gpu-kernel-os`; look at nfd-master's log",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "NoReport",
        "the node has cards, and its agent's NodeFeature is not there",
        "`kubectl -n d8-gpu-operator describe pods -l app=gpu-nodeagent-discover --field-selector "
        "spec.nodeName=<node>`",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "ReportOutdated",
        "the report is from before the node last started",
        "wait for the agent; if this lasts, `kubectl -n d8-gpu-operator describe pods -l app=gpu-nodeagent-discover"
        " --field-selector spec.nodeName=<node>`",
    ),
    Row(
        "InventoryIncomplete",
        "True",
        "CardsIncomplete",
        "some cards are incomplete, lost, or seen by NFD and not by the agent; the others go on",
        "the message names them; on the node `python -m nodeagent.discover --once`",
    ),
    Row(
        "InventoryIncomplete",
        "Unknown",
        "NodeFeatureNotServed",
        "nothing can be seen without NFD",
        "see `PrerequisiteNotMet`",
    ),
    Row(
        "PrerequisiteNotMet",
        "False",
        "PrerequisitesMet",
        "the API server serves NodeFeature",
        NOTHING,
    ),
    Row(
        "PrerequisiteNotMet",
        "True",
        "NodeFeatureNotServed",
        "Node Feature Discovery is not installed",
        "install NFD 0.15 or newer; `kubectl get crd nodefeatures.nfd.k8s-sigs.io`",
    ),
    Row(
        "PrerequisiteNotMet",
        "True",
        "RuleRefused",
        "the API server does not take our NodeFeatureRule",
        "upgrade NFD to 0.15 or newer",
    ),
)
