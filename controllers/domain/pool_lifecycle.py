"""The life of a pool, as a table. Pure.

Facts make up a pool's phase; each happening needs some of them and changes others. What the pool controller does in a
phase, and what the conditions Maintenance and Misconfigured say, is read from `DOES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import formerly
from controllers.api.gpupool import PoolPhase
from controllers.domain.lifecycle import Happening

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
class Does:
    """What a pool does in a phase."""

    offers: bool
    """Its cards are on the allowed lists."""
    maintenance: bool = False
    """Condition Maintenance: the webhook refuses with PoolInMaintenance, unless the pool is Misconfigured too."""
    misconfigured: bool = False
    """Condition Misconfigured: the webhook refuses with PoolMisconfigured."""


DOES: Final[dict[Phase, Does]] = {
    "Serving": Does(offers=True),
    "Draining": Does(offers=False, maintenance=True),
    "Rebuilding": Does(offers=False, maintenance=True),
    "Applying": Does(offers=False, maintenance=True),
    "Halted": Does(offers=False, maintenance=True, misconfigured=True),
    "NotServed": Does(offers=True, misconfigured=True),  # it goes on as the nodes are configured
    "Deleting": Does(offers=False),
    "Disabled": Does(offers=False, maintenance=True),
}

ADMINISTRATOR, CONTROLLER = "administrator", "gpupool-controller"
NODES, MIG_MANAGER = "pods and device plugins", "MIG manager"

HAPPENINGS: Final[dict[str, Happening]] = {
    "change the allocation": Happening(
        {"deleting": False, "changed": False},
        {"changed": True, "served": True, "drained": False, "built": False, "failed": False},
        ADMINISTRATOR,
    ),
    "change it again": Happening(
        {"deleting": False, "changed": True}, {"served": True, "built": False, "failed": False}, ADMINISTRATOR
    ),
    "ask for a mode that is not served": Happening(
        {"deleting": False, "served": True}, {"served": False, "changed": True, "drained": False}, ADMINISTRATOR
    ),
    "put it back": Happening(
        {"deleting": False, "changed": True},
        {"changed": False, "served": True, "drained": False, "built": False, "failed": False},
        ADMINISTRATOR,
    ),
    "the last user ends": Happening({"changed": True, "drained": False}, {"drained": True}, NODES),
    "a node is back and still offers": Happening({"changed": True, "drained": True}, {"drained": False}, NODES),
    "nothing has to be built": Happening({"changed": True, "built": False}, {"built": True}, CONTROLLER),
    "the layout is built": Happening({"changed": True, "drained": True, "built": False}, {"built": True}, MIG_MANAGER),
    "apply": Happening(
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
    "the layout fails": Happening({"deleting": False, "served": True, "failed": False}, {"failed": True}, MIG_MANAGER),
    "resume": Happening({"deleting": False, "failed": True}, {"failed": False, "built": False}, ADMINISTRATOR),
    "disable the module": Happening({"disabled": False}, {"disabled": True}, ADMINISTRATOR),
    "enable the module": Happening({"disabled": True}, {"disabled": False}, ADMINISTRATOR),
    "delete": Happening({"deleting": False}, {"deleting": True}, ADMINISTRATOR),
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


def allowed(facts: PoolFacts, happening: str) -> bool:
    """Whether it can happen to a pool of which these facts hold."""
    return HAPPENINGS[happening].is_allowed(facts)


def after(facts: PoolFacts, happening: str) -> PoolFacts:
    """The facts afterwards; raises ValueError where it cannot happen."""
    return HAPPENINGS[happening].follow(facts, f"{happening!r} cannot happen to a pool")


def edges() -> set[tuple[Phase, Phase, str]]:
    """Every way from a phase to another that a pool can go, with what happens on it."""
    found: set[tuple[Phase, Phase, str]] = set()
    reached, todo = set(NEW), list(NEW)
    while todo:
        facts = todo.pop()
        for name in HAPPENINGS:
            if allowed(facts, name):
                then = after(facts, name)
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
        for phase, does in DOES.items()
    ]
    who = [f"| {name} | {happening.who} |" for name, happening in HAPPENINGS.items()]
    head = ["| phase | cards are offered | `Maintenance` | `Misconfigured` |", "|---|---|---|---|"]
    return "\n".join([*head, *phases, "", "| what happens | who does it |", "|---|---|", *who]) + "\n"
