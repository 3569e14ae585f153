"""MIG of a node's cards: slots, one layout out of all pools, and what differs from it. Pure.

Nothing here is the pool controller's alone: it stands on `api` and `domain`, and cards are told apart by PCI address.
"""

from controllers.domain.mig.configmap import configmap, read
from controllers.domain.mig.difference import Change, difference
from controllers.domain.mig.division import divide, mixed
from controllers.domain.mig.document import document, text
from controllers.domain.mig.layout import NodeLayout, PlannedCard, plan, was_ours
from controllers.domain.mig.parted_config import PartedConfig, PartedLayout, PartedProblem, read_parted
from controllers.domain.mig.records import DISABLED, CardLayout, Division, MigCard, card_of
from controllers.domain.mig.slots import CardSlots, slots_of

__all__ = [
    "DISABLED",
    "CardLayout",
    "CardSlots",
    "Change",
    "Division",
    "MigCard",
    "NodeLayout",
    "PartedConfig",
    "PartedLayout",
    "PartedProblem",
    "PlannedCard",
    "card_of",
    "configmap",
    "difference",
    "divide",
    "document",
    "mixed",
    "plan",
    "read",
    "read_parted",
    "slots_of",
    "text",
    "was_ours",
]
