"""A GPUDevice's state machine: the transitions of `status.state`, as a table. Pure.

Three facts make up a card's state; each transition needs some of them and changes one. What
people see as `status.state` is a projection of the facts, in the order of `project`. The
reservation is a fact of its own, so that its end returns the card to what its annotation
implies and never throws it out of its pool.

gpupool-controller asks `is_allowed` before it makes a transition, but for an assignment, which the
chain of eligibility allows in fewer cases than the table; what is then it takes from
`apply_transition`. The table says what is possible at all; whether it is time for it (the selectors,
the fence, a deadline) each planner knows. The webhook reserves what `issuing` calls issuable, which is
pooled and not faulted, and a fault is a condition of its owner, from which the state follows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from controllers.api.conditions import FAULTED, is_true
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Collection

    from controllers.api.gpudevice import DeviceState, GPUDevice, Reservation


F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a card's state is made of."""

    pooled: bool = False
    reserved: bool = False
    faulted: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition: the facts that it requires, and those that it changes."""

    needs: dict[str, bool]
    sets: dict[str, bool]
    actor: str

    def is_allowed(self, facts: object) -> bool:
        """Whether it can happen where these facts hold."""
        return all(getattr(facts, fact) == value for fact, value in self.needs.items())

    def apply(self, facts: F, what: str) -> F:
        """The facts afterwards; raises ValueError where it cannot happen, with `what` happens to whom."""
        if not self.is_allowed(facts):
            msg = f"{what} with {facts}"
            raise ValueError(msg)
        changed: Any = facts
        return replace(changed, **self.sets)  # type: ignore[no-any-return]


TRANSITIONS: Final[dict[str, Transition]] = {
    "assign": Transition({"pooled": False, "faulted": False}, {"pooled": True}, "gpupool-controller"),
    "reserve": Transition({"pooled": True, "faulted": False}, {"reserved": True}, "gpu-admission-webhook"),
    "end reservation": Transition({"reserved": True}, {"reserved": False}, "gpupool-controller"),
    "release": Transition({"pooled": True, "reserved": False}, {"pooled": False}, "gpupool-controller"),
    "fault": Transition({"faulted": False}, {"faulted": True}, "gpu-bootstrap-controller"),
    "recover": Transition({"faulted": True}, {"faulted": False}, "gpu-bootstrap-controller"),
}


def project(facts: Facts) -> DeviceState:
    """The state that people see."""
    if facts.faulted:
        return "Faulted"
    if facts.reserved:
        return "Reserved"
    return "Assigned" if facts.pooled else "Unassigned"


def is_allowed(facts: Facts, transition: str) -> bool:
    """Whether it can happen to a card of which these facts hold."""
    return TRANSITIONS[transition].is_allowed(facts)


def apply_transition(facts: Facts, transition: str) -> Facts:
    """The facts afterwards; raises ValueError where it cannot happen."""
    return TRANSITIONS[transition].apply(facts, f"{transition!r} cannot happen to a card")


def live(reservation: Reservation, now: float) -> bool:
    """Whether a reservation still holds; one whose end cannot be read does not."""
    try:
        return seconds(reservation.expires_at) > now
    except ValueError:
        return False


def facts_of(device: GPUDevice, now: float) -> Facts:
    """The facts of a card; its reservations are those of pods that are not bound yet."""
    status = device.status
    return Facts(
        pooled=status.pool_ref is not None,
        reserved=any(live(reservation, now) for reservation in status.reservations),
        faulted=is_true(status.conditions, FAULTED),
    )


def state_with(device: GPUDevice, kept: Collection[Reservation], now: float) -> DeviceState:
    """The state of a card of whose reservations these are kept."""
    facts = replace(facts_of(device, now), reserved=bool(device.status.reservations))
    return project(facts if kept or not facts.reserved else apply_transition(facts, "end reservation"))


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    seen: set[tuple[str, str, str]] = set()
    for pooled in (False, True):
        for reserved in (False, True):
            for faulted in (False, True):
                facts = Facts(pooled=pooled, reserved=reserved and pooled, faulted=faulted)
                for name in TRANSITIONS:
                    if is_allowed(facts, name):
                        seen.add((project(facts), project(apply_transition(facts, name)), name))
    lines = [f"    {a} --> {b}: {name}" for a, b, name in sorted(seen) if a != b]
    return "stateDiagram-v2\n    [*] --> Unassigned\n" + "\n".join(lines) + "\n"
