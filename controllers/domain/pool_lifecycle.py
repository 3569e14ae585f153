"""A GPUPool's state machine: the phases and their transitions, as a table. Pure.

Facts make up a pool's phase; each transition needs some of them and changes others. What the pool controller does in a
phase, and what the conditions Maintenance and Misconfigured say, is read from `BEHAVIOUR`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import formerly
from controllers.api.gpupool import PoolPhase
from controllers.domain.lifecycle import Transition

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool

Phase = PoolPhase


def last_phase(pool: GPUPool) -> Phase | None:
    """The phase that the pool's status tells; None before it has told one."""
    return pool.status.phase or formerly.phase(pool.status)


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What a pool's phase is made of."""

    disabled: bool = False
    """The module is switched off: nothing of it runs on the nodes, and the pool is kept as it is."""
    deleting: bool = False
    """Somebody deleted it; it stays until its last card is let go."""
    served: bool = True
    """This version of the module hands out cards in the mode that the spec asks for."""
    failed: bool = False
    """The layout that the spec asks for did not come true on a node, or drifted there later."""
    changed: bool = False
    """What the spec asks for is not what the nodes are configured for."""
    drained: bool = False
    """No card is offered, and nobody uses one or is promised one."""
    built: bool = False
    """The nodes report the layout that the spec asks for; where nothing has to be built, always."""


@dataclass(frozen=True, slots=True)
class PhaseBehaviour:
    """What the pool controller and the webhook do in a phase of a GPUPool."""

    offers: bool
    """Its cards are on the allowed lists."""
    maintenance: bool = False
    """Condition Maintenance: the webhook refuses with PoolInMaintenance, unless the pool is Misconfigured too."""
    misconfigured: bool = False
    """Condition Misconfigured: the webhook refuses with PoolMisconfigured."""


BEHAVIOUR: Final[dict[Phase, PhaseBehaviour]] = {
    "Serving": PhaseBehaviour(offers=True),
    "Draining": PhaseBehaviour(offers=False, maintenance=True),
    "Rebuilding": PhaseBehaviour(offers=False, maintenance=True),
    "Applying": PhaseBehaviour(offers=False, maintenance=True),
    "Halted": PhaseBehaviour(offers=False, maintenance=True, misconfigured=True),
    "NotServed": PhaseBehaviour(offers=True, misconfigured=True),  # it goes on as the nodes are configured
    "Deleting": PhaseBehaviour(offers=False),
    "Disabled": PhaseBehaviour(offers=False, maintenance=True),
}

ADMINISTRATOR, CONTROLLER = "administrator", "gpupool-controller"
NODES, MIG_MANAGER = "pods and device plugins", "MIG manager"

TRANSITIONS: Final[dict[str, Transition]] = {
    "change the allocation": Transition(
        {"deleting": False, "changed": False},
        {"changed": True, "served": True, "drained": False, "built": False, "failed": False},
        ADMINISTRATOR,
    ),
    "change it again": Transition(
        {"deleting": False, "changed": True}, {"served": True, "built": False, "failed": False}, ADMINISTRATOR
    ),
    "ask for a mode that is not served": Transition(
        {"deleting": False, "served": True}, {"served": False, "changed": True, "drained": False}, ADMINISTRATOR
    ),
    "put it back": Transition(
        {"deleting": False, "changed": True},
        {"changed": False, "served": True, "drained": False, "built": False, "failed": False},
        ADMINISTRATOR,
    ),
    "the last user ends": Transition({"changed": True, "drained": False}, {"drained": True}, NODES),
    "a node is back and still offers": Transition({"changed": True, "drained": True}, {"drained": False}, NODES),
    "nothing has to be built": Transition({"changed": True, "built": False}, {"built": True}, CONTROLLER),
    "the layout is built": Transition({"changed": True, "drained": True, "built": False}, {"built": True}, MIG_MANAGER),
    "apply": Transition(
        {
            "disabled": False,
            "deleting": False,
            "served": True,
            "failed": False,
            "changed": True,
            "drained": True,
            "built": True,
        },
        {"changed": False, "drained": False, "built": False},
        CONTROLLER,
    ),
    "the layout fails": Transition({"deleting": False, "served": True, "failed": False}, {"failed": True}, MIG_MANAGER),
    "resume": Transition({"deleting": False, "failed": True}, {"failed": False, "built": False}, ADMINISTRATOR),
    "disable the module": Transition({"disabled": False}, {"disabled": True}, ADMINISTRATOR),
    "enable the module": Transition({"disabled": True}, {"disabled": False}, ADMINISTRATOR),
    "delete": Transition({"deleting": False}, {"deleting": True}, ADMINISTRATOR),
}

NEW: Final = (PoolFacts(changed=True, drained=True, built=True), PoolFacts(served=False, changed=True, drained=True))
"""A pool that was just made, in a mode that is served or not: it has nothing to drain."""


def phase_of(facts: PoolFacts) -> Phase:
    """The phase of a pool of which these facts hold."""
    if facts.disabled or facts.deleting:
        return "Disabled" if facts.disabled else "Deleting"
    if not facts.served:
        return "NotServed"
    if facts.failed:
        return "Halted"
    if not facts.changed:
        return "Serving"
    if not facts.drained:
        return "Draining"
    return "Applying" if facts.built else "Rebuilding"


def is_allowed(facts: PoolFacts, transition: str) -> bool:
    """Whether it can happen to a pool of which these facts hold."""
    return TRANSITIONS[transition].is_allowed(facts)


def apply_transition(facts: PoolFacts, transition: str) -> PoolFacts:
    """The facts afterwards; raises ValueError where it cannot happen."""
    return TRANSITIONS[transition].apply(facts, f"{transition!r} cannot happen to a pool")


def edges() -> set[tuple[Phase, Phase, str]]:
    """Every way from a phase to another that a pool can go, with what happens on it."""
    found: set[tuple[Phase, Phase, str]] = set()
    reached, todo = set(NEW), list(NEW)
    while todo:
        facts = todo.pop()
        for name in TRANSITIONS:
            if is_allowed(facts, name):
                then = apply_transition(facts, name)
                found.add((phase_of(facts), phase_of(then), name))
                if then not in reached:
                    reached.add(then)
                    todo.append(then)
    return {(a, b, name) for a, b, name in found if a != b}


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    starts = [f"    [*] --> {phase_of(facts)}" for facts in NEW]
    lines = [f"    {a} --> {b}: {name}" for a, b, name in sorted(edges())]
    ends = ["    Deleting --> [*]", "    Disabled --> [*]: delete"]
    return "\n".join(["stateDiagram-v2", *starts, *lines, *ends]) + "\n"


def table() -> str:
    """What a pool does in each phase, and who makes what happen, as Markdown for the docs."""
    yes = {True: "yes", False: "no"}
    phases = [
        f"| `{phase}` | {yes[does.offers]} | {yes[does.maintenance]} | {yes[does.misconfigured]} |"
        for phase, does in BEHAVIOUR.items()
    ]
    who = [f"| {name} | {transition.actor} |" for name, transition in TRANSITIONS.items()]
    head = ["| phase | cards are offered | `Maintenance` | `Misconfigured` |", "|---|---|---|---|"]
    return "\n".join([*head, *phases, "", "| what happens | who does it |", "|---|---|", *who]) + "\n"
