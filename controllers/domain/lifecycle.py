"""The life of a card, as a table.

Three facts make up a card's state; each happening needs some of them and changes one. What
people see as `status.state` is a projection of the facts, in the order of `project`. The
reservation is a fact of its own, so that its end returns the card to what its annotation
implies and never throws it out of its pool.

gpupool-controller asks `allowed` before it makes something happen, and takes what is then from
`after`. The table says what is possible at all; whether it is time for it (the selectors, the
fence, a deadline) each planner knows. The webhook reserves what `slots` calls issuable, which is
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
class Happening:
    """Something that happens: which facts it needs, and what it changes."""

    needs: dict[str, bool]
    sets: dict[str, bool]
    who: str

    def is_allowed(self, facts: object) -> bool:
        """Whether it can happen where these facts hold."""
        return all(getattr(facts, fact) == value for fact, value in self.needs.items())

    def follow(self, facts: F, what: str) -> F:
        """The facts afterwards; raises ValueError where it cannot happen, with `what` happens to whom."""
        if not self.is_allowed(facts):
            msg = f"{what} with {facts}"
            raise ValueError(msg)
        changed: Any = facts
        return replace(changed, **self.sets)  # type: ignore[no-any-return]


HAPPENINGS: Final[dict[str, Happening]] = {
    "assign": Happening({"pooled": False, "faulted": False}, {"pooled": True}, "gpupool-controller"),
    "reserve": Happening({"pooled": True, "faulted": False}, {"reserved": True}, "gpu-admission-webhook"),
    "end reservation": Happening({"reserved": True}, {"reserved": False}, "gpupool-controller"),
    "release": Happening({"pooled": True, "reserved": False}, {"pooled": False}, "gpupool-controller"),
    "fault": Happening({"faulted": False}, {"faulted": True}, "gpu-bootstrap-controller"),
    "recover": Happening({"faulted": True}, {"faulted": False}, "gpu-bootstrap-controller"),
}


def project(facts: Facts) -> DeviceState:
    """The state that people see."""
    if facts.faulted:
        return "Faulted"
    if facts.reserved:
        return "Reserved"
    return "Assigned" if facts.pooled else "Unassigned"


def allowed(facts: Facts, happening: str) -> bool:
    """Whether it can happen to a card of which these facts hold."""
    return HAPPENINGS[happening].is_allowed(facts)


def after(facts: Facts, happening: str) -> Facts:
    """The facts afterwards; raises ValueError where it cannot happen."""
    return HAPPENINGS[happening].follow(facts, f"{happening!r} cannot happen to a card")


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
    return project(facts if kept or not facts.reserved else after(facts, "end reservation"))


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    seen: set[tuple[str, str, str]] = set()
    for pooled in (False, True):
        for reserved in (False, True):
            for faulted in (False, True):
                facts = Facts(pooled=pooled, reserved=reserved and pooled, faulted=faulted)
                for name in HAPPENINGS:
                    if allowed(facts, name):
                        seen.add((project(facts), project(after(facts, name)), name))
    lines = [f"    {a} --> {b}: {name}" for a, b, name in sorted(seen) if a != b]
    return "stateDiagram-v2\n    [*] --> Unassigned\n" + "\n".join(lines) + "\n"
