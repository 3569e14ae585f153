"""MPS control daemons of a simulated node: what their role has done, in an annotation of the Node. Pure.

It has what the role's state file has, and so what compute mode a card is in: a card that is named is in mode
EXCLUSIVE_PROCESS. The role's own rule says what is next; daemons start and end at once.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nodeagent.host.mpsfiles import Daemons, DaemonState, WantedDaemon
from nodeagent.mps.decide import next_step
from sim.nodes import names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

DIED = "the control daemon ended by signal 9"
States = dict[str, DaemonState]
"""By uuid of the card."""


def held(annotations: Mapping[str, str]) -> dict[str, States]:
    """The daemons, by pool."""
    try:
        found: dict[str, Any] = json.loads(annotations.get(names.MPS, "{}"))
        return {
            pool: {
                uuid: DaemonState(
                    one["phase"], one["version"], one["reason"], WantedDaemon(**one["wanted"]), one["runs"]
                )
                for uuid, one in cards.items()
            }
            for pool, cards in found.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def text(pools: Mapping[str, States]) -> str | None:
    """The same as the annotation has it; None where there is no daemon."""
    found = {pool: {uuid: asdict(one) for uuid, one in cards.items()} for pool, cards in pools.items() if cards}
    return json.dumps(found, sort_keys=True) if found else None


def seen(pool: str, annotations: Mapping[str, str], alive: Collection[str]) -> Daemons:
    """What the pool's plugin reads; `alive`: pools whose role runs on the node."""
    return Daemons(pool in alive, MappingProxyType(held(annotations).get(pool, {})))


def turn(
    states: Mapping[str, DaemonState], wanted: Mapping[str, WantedDaemon], *, alive: bool, dead: Collection[str]
) -> States:
    """What the role makes of its cards' daemons; a role that ends puts all back. `dead`: cards whose daemon dies."""
    made: States = {}
    for uuid in sorted({*states, *wanted}) if alive else ():
        known = states.get(uuid)
        runs = known is not None and known.phase == "Ready" and uuid not in dead
        step = next_step(wanted.get(uuid), known, runs=runs)
        if step is None or (step.step == "Stop" and uuid not in wanted):
            continue
        now = wanted[uuid] if step.wanted is None else step.wanted
        ready = DaemonState("Ready", now.version, None, now, runs=True)
        made[uuid] = replace(ready, phase="Down", reason=DIED, runs=False) if uuid in dead else ready
    return made
