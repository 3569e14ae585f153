"""Reasons of the condition of a pod of several cards that could have had nearer ones."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_POOL, NEAR
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_POOL
ROWS: Final = (
    Row(
        NEAR,
        "False",
        "OtherCards",
        "kubelet gave the pod other cards of its node than those reserved for it, and these are farther apart",
        "if its cards exchange much data, delete the pod and create it again; if this happens often, check kubelet's "
        "topology manager policy: all but `none` choose cards by NUMA node before the module is asked",
    ),
    Row(
        NEAR,
        "False",
        "OtherNode",
        "the pod is on another node than the one on which cards were reserved for it when it was made, and the cards "
        "that it got there are farther apart",
        "if its cards exchange much data, delete the pod and create it again; the pod's own node preferences, and "
        "those of the scheduler's configuration, can outweigh the module's",
    ),
    Row(
        NEAR,
        "False",
        "NotReserved",
        "no cards were reserved for the pod, and kubelet gave it cards that are farther apart than other cards that "
        "were free",
        "if its cards exchange much data, delete the pod and create it again",
    ),
    Row(
        NEAR,
        "True",
        "Together",
        "kubelet gave the pod other cards, as after a restart of its node, and now they are as near as those reserved "
        "for it",
        NOTHING,
    ),
)
