"""Why a node that is to get another driver has not been taken out of service yet: reasons of its GPUDriver."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_DRIVER
from controllers.api.reasons.row import Row

OWNER: Final = MANAGER_DRIVER
_SERVES: Final = "the node serves with the driver that it has"
ROWS: Final = (
    Row(
        "Progressing",
        "True",
        "AwaitingWave",
        f"nodes of its kind that were begun before have not served for `spec.rollout.waveSoak` yet: {_SERVES}",
        "wait; `kubectl gpu driver status` says which nodes those are",
    ),
    Row(
        "Progressing",
        "True",
        "AwaitingWindow",
        "no window of `spec.rollout.windows`, or of `spec.disruption.windows` of a pool of the node, is open for as "
        "long as nodes of its kind are out of service, which is 30 minutes where none has been yet",
        "wait; where no window is as long as that, make them longer",
    ),
    Row(
        "Progressing",
        "True",
        "BudgetReached",
        f"as many nodes or cards as `spec.rollout.maxUnavailable` allows are out of service: {_SERVES}",
        "wait; `kubectl gpu driver status` says what the nodes that are out wait for",
    ),
    Row(
        "Progressing",
        "True",
        "PoolBudgetReached",
        "as many nodes of a pool as `spec.rollout.maxUnavailable.perPool` allows are out of service, or as many cards "
        "as `spec.disruption.maxUnavailableCards` of the pool does",
        "wait; `kubectl gpu driver status` says what the nodes that are out wait for",
    ),
    Row(
        "Progressing",
        "True",
        "GPUHoursSpent",
        "cards have been out of service for as long as `spec.rollout.maxUnavailable.gpuHoursPerDay` allows in 24 hours",
        "wait, or raise `spec.rollout.maxUnavailable.gpuHoursPerDay`",
    ),
    Row(
        "Progressing",
        "True",
        "TooManyNodesOut",
        "more than half as many nodes as `health.maxUnavailablePercent` allows, in the cluster or in a pool of the "
        "node, are out of service for other causes: none is taken out beside them",
        "`kubectl gpu node` lists nodes that are out of service, and why",
    ),
    Row(
        "Progressing",
        "True",
        "PoolInMaintenance",
        "a pool of the node is being configured anew: the node is begun after that",
        "wait; `kubectl get gpupool <pool> -o yaml` says in condition `Maintenance` what the pool waits for",
    ),
    Row(
        "Progressing",
        "False",
        "RolloutHalted",
        "several nodes failed for one reason within an hour, which has one cause: no node is begun",
        "see `Halted`: mend the cause, then `kubectl annotate gpudriver <driver> gpu.deckhouse.io/resume=true`",
    ),
)
