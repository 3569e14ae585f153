"""Reasons of the condition of a pod that waits for cards."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_POOL, QUEUED
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_POOL
ROWS: Final = (
    Row(
        QUEUED,
        "True",
        "Waiting",
        "there are not enough free cards for the pod, or others are before it",
        "it gets cards in its turn: `kubectl gpu queue <pool>` shows who is before it",
    ),
    Row(
        QUEUED,
        "True",
        "OverLimit",
        "its namespace has as many slots of the pool as `spec.queue.namespaces` allows",
        "it goes on when another pod of the namespace ends; an administrator can raise `limit` in the pool",
    ),
    Row(
        QUEUED,
        "True",
        "NoNodeFits",
        "no node of the pool could ever take the pod: none has so many cards, or none matches what the pod demands of "
        "its node",
        "ask for fewer cards, or mend node selector, affinity or tolerations; `kubectl gpu explain pod <pod>` tells "
        "which; it goes on by itself when such a node comes",
    ),
    Row(
        QUEUED,
        "True",
        "PoolClosed",
        "the pool gives no cards now: it is in Maintenance, Misconfigured, disabled or deleted",
        "it goes on when the pool does: `kubectl describe gpupool <pool>`",
    ),
    Row(
        QUEUED,
        "True",
        "WaitingForGang",
        "the pod belongs to a gang, which gets cards all at once, and not all of its pods are there",
        "the message says how many are missing, or that they disagree on their number; make them, or mend annotation "
        "`gpu.deckhouse.io/gang-size` where the pods are made",
    ),
    Row(
        QUEUED,
        "True",
        "OtherGates",
        "other scheduling gates than ours come first, such as those of Kueue; no card is kept for it before",
        "see who set them: `kubectl get pod <pod> -o jsonpath='{.spec.schedulingGates}'`",
    ),
    Row(
        QUEUED,
        "True",
        "ReleaseDenied",
        "cards were free, and the API server did not let the pod go on: its namespace may not use the pool any more, "
        "or a policy of the cluster is against it",
        "the message has the refusal; an administrator can let the namespace use the pool again (`spec.access`), or "
        "delete the pod",
    ),
    Row(
        QUEUED,
        "False",
        "Released",
        "cards are reserved for the pod, and the scheduler has it",
        NOTHING,
    ),
    Row(
        QUEUED,
        "False",
        "ReleasedWithoutCards",
        "the pod was released without cards, so that an autoscaler sees it (`spec.queue.scaleUp`), or by somebody who "
        "may release pods (`kubectl gpu release`)",
        "it gets the next free cards; where no node comes, see why: `kubectl describe pod <pod>`",
    ),
)
