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
        "make the pod anew if its cards talk much to each other; where it comes often, see kubelet's topology manager "
        "policy: all but `none` choose cards by NUMA node before the module is asked",
    ),
    Row(
        NEAR,
        "False",
        "OtherNode",
        "the pod is on another node than the one on which cards were reserved for it when it was made, and the cards "
        "that it got there are farther apart",
        "make the pod anew if its cards talk much to each other; what it prefers of nodes by itself, and what the "
        "scheduler is configured to prefer, can outweigh the module",
    ),
    Row(
        NEAR,
        "False",
        "NotReserved",
        "no cards were reserved for the pod, and kubelet gave it such as are farther apart than others that were free",
        "make the pod anew if its cards talk much to each other",
    ),
    Row(
        NEAR,
        "True",
        "Together",
        "kubelet gave the pod cards anew, as after a restart of its node, and now they are as near as those reserved "
        "for it",
        NOTHING,
    ),
)
