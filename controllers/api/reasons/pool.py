"""Reasons of a pool's conditions."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_POOL
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_POOL
ROWS: Final = (
    Row(
        "Available",
        "True",
        "CardsOffered",
        "plugins offer cards of the pool",
        NOTHING,
    ),
    Row(
        "Available",
        "True False",
        "SlotsNotShown",
        "plugins offer cards, and a kubelet has not shown all their free slots within `pools.pluginPatience`: nobody "
        "is promised these; `False` where pods have and get nothing at all",
        "`status.nodes` of the pool names the node and the plugin's pod to delete; alert "
        "[`GPUPoolNotOffered`](alerts.md#gpupoolnotoffered)",
    ),
    Row(
        "Available",
        "False",
        "NoCards",
        "no card is in the pool",
        "confirm candidates: `kubectl annotate gpudevice <card> gpu.deckhouse.io/assignment=<pool>`",
    ),
    Row(
        "Available",
        "False",
        "NotYetOffered",
        "cards are in the pool, and none is offered yet",
        "`status.nodes` of the pool says what each node waits for; `kubectl -n d8-gpu-operator get pods -o wide | "
        "grep gpu-device-plugin-<pool>`",
    ),
    Row(
        "Available",
        "False",
        "InMaintenance",
        "the pool is being rebuilt",
        "see `Maintenance`",
    ),
    Row(
        "Maintenance Misconfigured",
        "False",
        "AsExpected",
        "nodes are configured as the pool is written",
        NOTHING,
    ),
    Row(
        "Maintenance",
        "True",
        "WaitingForPods AwaitingWithdrawal",
        "the allocation was changed; cards are still used, promised or offered",
        "wait, no pod is killed for it; or put `spec.allocation` back",
    ),
    Row(
        "Maintenance",
        "True",
        "PodsOverdue PluginsOverdue",
        "that takes longer than `maintenance.deadline`; nothing is killed",
        "end the pods (`kubectl get pods -A -l gpu.deckhouse.io/pool=<pool>`), look at the plugins' pods, leave a "
        "card out whose node does not withdraw it (`kubectl label gpudevice <card> gpu.deckhouse.io/ignore=true`),"
        " or put `spec.allocation` back",
        lasting=True,
    ),
    Row(
        "Maintenance",
        "True",
        "Rebuilding Applying",
        "nodes are being configured anew",
        "wait",
    ),
    Row(
        "Maintenance",
        "True",
        "ModuleDisabled",
        "the module is disabled: nothing of it runs on the nodes, pods that run keep their cards, and the pool "
        "keeps its own",
        "set `spec.enabled: true` in ModuleConfig `gpu-control-plane`",
        lasting=True,
    ),
    Row(
        "Maintenance Misconfigured",
        "True",
        "LayoutFailed",
        "the layout came true on no card of the pool, or has drifted on all; the nodes are named",
        "mend the nodes and resume: `kubectl annotate gpupool <pool> gpu.deckhouse.io/resume=true`; or leave the card "
        "out (`kubectl label gpudevice <card> gpu.deckhouse.io/ignore=true`), or change `spec.allocation`",
        lasting=True,
    ),
    Row(
        "Misconfigured",
        "True",
        "InvalidMIGProfile",
        "the pool has no cards, and none of those that its selectors match, in whatever pool they are, can be "
        "divided by its `migProfile`",
        "change `spec.allocation.migProfile` or the selectors (`kubectl edit gpupool <pool>`); it goes by itself when "
        "a card comes that can",
        lasting=True,
    ),
    Row(
        "Misconfigured",
        "True",
        "ModeNotServed",
        "this version does not serve the pool's mode",
        "change `spec.allocation.mode` (`kubectl edit gpupool <pool>`)",
        lasting=True,
    ),
    Row(
        "CapacityLow",
        "True",
        "BelowTenPercent",
        "less than a tenth of the slots is available; nothing is refused for this",
        "add cards, or end what idles",
    ),
    Row(
        "CapacityLow",
        "False",
        "Enough",
        "enough is available",
        NOTHING,
    ),
    Row(
        "CapacityLow",
        "True False",
        "CardsNotOffered",
        "what was said before: the pool offers no card (in Maintenance, while it is deleted), or its plugins are "
        "about to offer, or kubelets to show, what has come in",
        "wait; where this lasts, see `Maintenance` and `Available`",
    ),
)
