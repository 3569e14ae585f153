"""What gpu-driver-controller does to a node: `status.driverWork` and `lastDriverWork` of a GPUNodeInventory.

The phase is the only memory of the work beside the node's label `gpu.deckhouse.io/driver.variant`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from controllers.api.record import Atomic, Timestamp, record

Phase = Literal[
    "Preflight",
    "Queued",
    "Withdrawing",
    "Draining",
    "Clearing",
    "Removing",
    "Installing",
    "Validating",
    "Relayout",
    "Returning",
    "Soaking",
    "Blocked",
    "Deferred",
    "Failed",
    "RolledBack",
    "Broken",
    "HandedOver",
]
OUT_OF_SERVICE: Final[frozenset[Phase]] = frozenset(
    ("Withdrawing", "Draining", "Clearing", "Removing", "Installing", "HandedOver")
)
"""Phases in which the node is decided to be out of service, until the deadline.

Not Validating: there the node's own checks say whether it is ready, and gpu-driver-controller waits for their word.
Not Relayout: a card that is to be partitioned anew is offered by nobody, and the others serve.
"""
CLOSED: Final[frozenset[Phase]] = frozenset(("Clearing", "Removing", "Installing", "HandedOver"))
"""Phases in which nothing of the module may hold the driver open."""
CARDS_MAX: Final = 64


@record
class Baseline:
    """What a node's cards were like before its driver was changed."""

    cards: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=CARDS_MAX), Atomic] = ()
    """The UUIDs of its cards."""
    faulted: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=CARDS_MAX), Atomic] = ()
    """Those of them that were faulty already."""


@record
class DriverWork:
    """What is done to the node for its driver's sake."""

    driver: Annotated[str, Field(max_length=253)]
    """The GPUDriver."""
    from_: Annotated[str | None, Field(max_length=63, alias="from")] = None
    """The variant that the node had; absent without one."""
    to: Annotated[str | None, Field(max_length=63)] = None
    """The variant that it is to have; absent where none is."""
    phase: Phase
    """How far it is."""
    reason: Annotated[str | None, Field(max_length=63)] = None
    """Why it is no further."""
    message: Annotated[str | None, Field(max_length=1024)] = None
    """What was found, what was expected and what to do."""
    fault: Literal["Revision", "Node"] | None = None
    """Of what has failed: the revision's fault, on every node of its kind, or the node's alone."""
    attempt: Annotated[int, Field(ge=1)] = 1
    """Which try it is."""
    restarts: Annotated[int, Field(ge=0)] = 0
    """How often the node has started anew in this try."""
    since: Timestamp
    """When the phase began."""
    begun: Timestamp | None = None
    """When the first phase of this work began."""
    deadline: Timestamp | None = None
    """When the phase has to be over; after that the node is judged by its own checks."""
    retry_at: Timestamp | None = None
    """When it is tried again by itself, in phases that wait."""
    undoes: Annotated[str | None, Field(max_length=10)] = None
    """The revision from which this work takes the node back to a former one."""
    hand_over: Annotated[str | None, Field(max_length=253)] = None
    """Who has asked for the node, by annotation."""
    out_since: Timestamp | None = None
    """When the node was taken out of service."""
    baseline: Baseline | None = None
    """What its cards were like at that time."""
    used: bool = False
    """Whether a pod has had a card since the node came back with the driver."""
    gpu_seconds: Annotated[int, Field(ge=0)] = 0
    """Its cards times the seconds for which this work had them out of service, counted when the node came back."""
    out_seconds: Annotated[int, Field(ge=0)] = 0
    """Seconds for which the node was out of service in the last try, counted likewise."""
    missing: Annotated[tuple[Annotated[str, Field(max_length=800)], ...], Field(max_length=8), Atomic] = ()
    """Images that the registry did not have, which were therefore not chosen; it stands until this work ends."""
    awaits_image: bool = False
    """Whether the registry did not have the image that the node was to get: then the node asks for it again."""
    wave: Annotated[int | None, Field(ge=0)] = None
    """The wave of the rollout in which the node was begun; 0 is the canary."""
    stratum: Annotated[str | None, Field(max_length=253)] = None
    """The node's kind, as it was when the driver was chosen."""
    node_uid: Annotated[str, Field(max_length=63, alias="nodeUID")]
    """The uid of the Node: work on another machine of the same name is dropped."""
    boot_id: Annotated[str | None, Field(max_length=63, alias="bootID")] = None
    """The node's start in which the phase began."""


@record
class LastDriverWork:
    """How the last work on the node ended."""

    driver: Annotated[str, Field(max_length=253)]
    """The GPUDriver."""
    revision: Annotated[str, Field(max_length=10)]
    """The revision that it was about."""
    at: Timestamp
    """When it ended."""
    took: Annotated[int, Field(ge=0)]
    """Seconds that it took from its first phase."""
    gpu_seconds: Annotated[int, Field(ge=0)] = 0
    """Its cards times the seconds for which they were out of service, over all tries."""
    out_seconds: Annotated[int, Field(ge=0)] = 0
    """Seconds for which the node was out of service in the last try."""
    result: Literal["Good", "Failed", "RolledBack", "Unproved"]
    """How it ended; RolledBack: the node has the former revision again, and this one failed there. Unproved: the node
    serves with it, and was not watched for long enough."""
    wave: Annotated[int | None, Field(ge=0)] = None
    """The wave of the rollout in which the node was begun; 0 is the canary; absent where no driver was replaced."""
    reason: Annotated[str | None, Field(max_length=63)] = None
    """Why it failed."""
    fault: Literal["Revision", "Node"] | None = None
    """Whose fault it was that it failed."""
    stratum: Annotated[str | None, Field(max_length=253)] = None
    """The node's kind, as it was when the driver was chosen."""
    node_uid: Annotated[str | None, Field(max_length=63, alias="nodeUID")] = None
    """The uid of the Node: what another machine of the same name did says nothing of this one."""

    @property
    def has_failed(self) -> bool:
        """Whether the revision failed there."""
        return self.result in ("Failed", "RolledBack")


def counts(at: str, since: str | None) -> bool:
    """Whether what a node showed of a revision at that time counts.

    `since`: since when the revision is wanted, or a person last had it tried again; None where that is not on record,
    so that all counts. What is of the same second does.
    """
    return since is None or at >= since
