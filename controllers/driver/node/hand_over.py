"""A node that a person wants for work of their own, by annotation: clients of its driver leave, and come back. Pure.

The rows up to Clearing are those of a node whose driver is replaced, under the same budgets; the driver itself, the
host's or the module's, stays as it is. For as long as the annotation stands the node is theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.clock import stamp
from controllers.domain.driver.states import LEAVING, STATES
from controllers.domain.driver.variant import serves
from controllers.driver.node.draft import event, in_service, time_left
from controllers.driver.node.leaving import leave
from controllers.driver.node.moves import move
from controllers.driver.node.offered import is_offered

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork, Phase
    from controllers.api.kube import Node
    from controllers.driver.node.draft import Draft

COMING_BACK: Final[tuple[Phase, ...]] = ("Validating", "Returning")
WHO_MAX: Final = 253


def asked_by(node: Node) -> str:
    """Who wants the node; empty where nobody does."""
    return node.metadata.annotations.get(names.HAND_OVER, "")[:WHO_MAX]


def hand_over(draft: Draft, work: DriverWork) -> None:
    """The next step of a node that was begun for that."""
    who = asked_by(draft.node)
    if who and who != work.hand_over:
        draft.write(replace(work, hand_over=who))
    elif work.phase in LEAVING:
        leave(draft, work)
    elif work.phase == "HandedOver":
        if not who:
            _take_back(draft, work)
    elif work.phase in COMING_BACK:
        _come_back(draft, work, is_asked_again=bool(who))
    elif not who or draft.observed.driver is None or draft.observed.driver.name != work.driver:
        draft.write(None)  # it waits for its turn, and nobody wants it any more, or there is nobody to give one


def _take_back(draft: Draft, work: DriverWork) -> None:
    """Nobody wants the node any more: it is in service again once its own checks pass."""
    limit = STATES["Validating"].limit or 0.0
    if names.DRIVER_VARIANT in draft.node.metadata.labels:
        limit += STATES["Installing"].limit or 0.0  # a node that was rebooted loads, or compiles, its driver first
    draft.write(move(work, "Validating", draft.now, deadline=stamp(draft.now + limit), reason=None, message=None))
    event(draft, names.EVENT_DRIVER_GIVEN_BACK, f"the node was handed over to {work.hand_over}, and is back", "Normal")


def _come_back(draft: Draft, work: DriverWork, *, is_asked_again: bool) -> None:
    """The node's own checks have to pass, and its cards to be offered; what keeps them they say themselves."""
    seen, label = draft.observed, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    left = time_left(work.deadline, draft) if work.deadline is not None else 0.0
    if is_asked_again:
        draft.write(move(work, "Withdrawing", draft.now))
    elif left <= 0 or is_offered(seen) or (label is not None and not serves(label, _kernel(draft))):
        draft.write(None)
    elif in_service(seen) and work.phase == "Validating":
        draft.write(move(work, "Returning", draft.now))
    else:
        draft.plan.requeue_within(left)


def _kernel(draft: Draft) -> str:
    return draft.node.status.node_info.kernel_version
