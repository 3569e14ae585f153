"""An operation on a node, as MIG work on its GPUs: it suspends the node's preparation up to a deadline. Pure.

While it goes on `status.bootstrap.operation` of the GPUNodeInventory names it and `suspended` is true, and the clock of
all waits (`lastRun`) starts with it. One that outlasts the deadline is over for us, whatever who carries it out says,
until it has really ended: `suspended` is false, components come back, and what is missing then counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import Bootstrap, OperationName


@dataclass(frozen=True, slots=True)
class NodeOperation:
    """One operation, with what it stops of the preparation."""

    name: OperationName
    """In the status, and as the reason of ReadyForPooling where the node was ready before."""
    title: str
    """What it is, such as "MIG work"."""
    effect: str
    """What happens meanwhile, as a clause: "its cards are divided anew"."""
    progress: str
    """Where to see how far it is."""
    closes: frozenset[str]
    """Components whose gates are closed meanwhile."""


@dataclass(frozen=True, slots=True)
class Suspension:
    """What an operation makes of a node's preparation."""

    operation: NodeOperation | None = None
    on: bool | None = None
    """Whether the preparation is suspended; False while the operation takes too long, None without one."""
    left: float = 0.0
    """Seconds until the deadline."""

    @property
    def name(self) -> OperationName | None:
        """The operation's name."""
        return self.operation.name if self.operation is not None else None

    @property
    def closed(self) -> frozenset[str]:
        """Components whose gates are closed now."""
        return self.operation.closes if self.operation is not None and self.on else frozenset()


NONE: Final = Suspension()


def suspend(operation: NodeOperation | None, recorded: Bootstrap | None, deadline: float, now: float) -> Suspension:
    """What the operation makes of a node; `recorded` is the status as it was written last, `deadline` in seconds."""
    if operation is None:
        return NONE
    left = deadline
    if recorded is not None and recorded.suspended is not None and _is_of(recorded, operation):
        left = _since(recorded, now) + deadline - now
        if not recorded.suspended or left <= 0:
            return Suspension(operation, on=False)
    return Suspension(operation, on=True, left=left)


def goes_on(suspension: Suspension, recorded: Bootstrap) -> bool:
    """Whether the preparation was recorded as suspended by the same operation, so that its clock runs on."""
    operation = suspension.operation
    return bool(operation and suspension.on and recorded.suspended and _is_of(recorded, operation))


def is_awaited(operation: NodeOperation | None, recorded: Bootstrap | None) -> bool:
    """Whether an operation goes on and its deadline was not recorded as over."""
    if operation is None:
        return False
    return recorded is None or recorded.suspended is not False or not _is_of(recorded, operation)


def _is_of(recorded: Bootstrap, operation: NodeOperation) -> bool:
    """Whether the record is of this operation; versions that recorded no name knew MIG work alone."""
    return (recorded.operation or "MigWork") == operation.name


def _since(recorded: Bootstrap, now: float) -> float:
    """When it began, in epoch seconds; now, where somebody spoiled the record, which is then written anew."""
    try:
        return seconds(recorded.last_run or "")
    except ValueError:
        return now
