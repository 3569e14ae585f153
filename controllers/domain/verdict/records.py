"""Verdicts on the cards and nodes of a pool for one pod. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.domain.node_fit import PodConstraints

CardReason = Literal[
    "OtherPool",
    "Leaving",
    "Faulted",
    "Ignored",
    "ManagedDisabled",
    "InventoryIncomplete",
    "NotPublished",
    "NodeAway",
    "NodeRefused",
    "InUse",
    "Promised",
    "KeptFor",
    "TooFewHere",
    "Free",
]
"""Why a card is not for the pod, the first that holds in this order; `Free`: nothing keeps it from the pod.

`NodeRefused` is what this module's own rules refuse: a cordon, taints, the node's label of the pool, the pod's node
selector and affinity. What else the scheduler refuses is said of the node (`NodeVerdict`).
"""
REASONS: Final[tuple[CardReason, ...]] = get_args(CardReason)
"""In the order in which they are looked for."""

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


class CardVerdict(NamedTuple):
    """Whether a card could be the pod's, and why not."""

    card: str
    """Name of the GPUDevice."""
    node: str
    reason: CardReason
    slots: int = 0
    """Slots that the pod could have: free ones, and of `Promised` those that are promised to the pod itself."""
    namespace: str = ""
    """Of who has it or was promised it (`InUse`, `Promised`)."""
    pod: str = ""
    since: str = ""
    """RFC 3339: since when it is in use."""
    until: str = ""
    """RFC 3339: until when it is promised."""
    detail: str = ""
    """In words: the pool that it is in, the reason of its condition, what of the node refuses the pod, the place in the
    queue it is kept for, `3 of 4`; empty where the reason says it all."""


@dataclass(frozen=True, slots=True)
class ReservedForOthers:
    """Free slots of a node that others get first."""

    slots: int
    position: int = 0
    """Of the first of these in the queue, counted from 1; 0 where they are before the queue, or it is not known."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pod asks of a pool."""

    units: int
    """Slots, all on one node."""
    constraints: PodConstraints
    request_id: str = ""
    """The webhook's name for the request; what is promised to it is the pod's own."""
    profile: str | None = None
    """MIG profile of the slots, in a pool of a mixed layout."""


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """Slots of a pool, by what its nodes have left for newcomers."""

    total: int = 0
    free: int = 0
    most: int = 0
    """Free ones of the node that has most."""
    kept: int = 0
    """Free ones that others get first; `free` is without them."""
    most_with_kept: int = 0
    """Of the node that has most of both."""
    most_anywhere: int = 0
    """Free ones of the node that has most, whether or not the pod can go to it; all else is of those it can go to."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The same in numbers, without a name of a card, a node or a pod: what a tenant may know of others."""

    units: int
    """Slots that the pod asks for."""
    slots: FreeSlots
    cards: Mapping[CardReason, int]
    """How many cards have a verdict, by it."""


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """All cards and nodes of a pool for one pod."""

    pool: str
    resource: str
    """What the pod asks the pool for."""
    units: int
    """Slots that the pod asks for, all on one node."""
    nodes: tuple[NodeVerdict, ...]
    """Nodes with cards of the pool, by name."""
    cards: tuple[CardVerdict, ...]
    """Cards of the pool, by node and name."""
    summary: Summary
    """The cards in numbers."""
