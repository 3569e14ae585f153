"""Verdicts on the cards and nodes of a pool for one pod. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CardReason = Literal[
    "OtherPool",
    "Leaving",
    "Ignored",
    "Faulted",
    "ManagedDisabled",
    "InventoryIncomplete",
    "NotPublished",
    "NodeAway",
    "NodeRefused",
    "InUse",
    "Promised",
    "KeptFor",
    "NotNear",
    "TooFewHere",
    "Free",
]
"""Why a card is not for the pod, the first that holds in this order; `Free`: nothing keeps it from the pod."""

NodeReason = Literal[
    "Unschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "Unknown",
    "Fits",
]
"""The scheduler's plugin that keeps the pod from the node, the first in the scheduler's own order.

`Unknown`: every plugin that is looked at lets the pod pass, and one that is not looked at decides.
"""

Unseen = Literal["volumes", "topology spread", "inter-pod affinity", "resource claims", "pods on the node"]
"""What may decide and is not looked at: demands of the pod, and what runs on the node where nobody may list it."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Whether a node could take the pod, and why not."""

    node: str
    reason: NodeReason
    messages: tuple[str, ...] = ()
    """The scheduler's own words for it, as its event FailedScheduling counts them; several of NodeResourcesFit."""
    detail: str = ""
    """What was found and what was wanted, in words: `needs 900Gi, 512Gi free`; empty where the reason says it all."""
    unseen: tuple[Unseen, ...] = ()
    """What else decides and was not looked at; not empty where the reason is `Unknown`."""


@dataclass(frozen=True, slots=True)
class CardVerdict:
    """Whether a card could be the pod's, and why not."""

    card: str
    """Name of the GPUDevice."""
    node: str
    reason: CardReason
    slots: int = 0
    """Free slots that the pod could have."""
    namespace: str = ""
    """Of who has it or was promised it (`InUse`, `Promised`)."""
    pod: str = ""
    since: str = ""
    """RFC 3339: since when it is in use."""
    until: str = ""
    """RFC 3339: until when it is promised."""
    detail: str = ""
    """In words: the reason of its condition, the position it is kept for, `3 of 4`."""


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """All cards and nodes of a pool for one pod."""

    pool: str
    units: int
    """Slots that the pod asks for, all on one node."""
    nodes: tuple[NodeVerdict, ...]
    """Nodes with cards of the pool, by name."""
    cards: tuple[CardVerdict, ...]
    """Cards of the pool, by node and name."""
