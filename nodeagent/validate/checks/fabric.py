"""Whether NVLink's fabric is ready for the cards, by their registration with it. Pure.

On machines with NVSwitches the fabric manager, a service of the host, registers each card; until then CUDA answers 802
there while NVML answers as ever. NVML tells of it from H100 on, on A100 only CUDA does; elsewhere there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodeagent.host.facts.records import COMPLETED
from nodeagent.validate.checks.check import aside, failed, ok, several, unknown

if TYPE_CHECKING:
    from nodeagent.validate.checks.check import Check
    from nodeagent.validate.checks.facts import Facts

NAME: Final = "fabric"
MANAGER: Final = (
    "systemctl status nvidia-fabricmanager on the node: it must run, and be of the driver's version; see its log, and "
    "dmesg | grep -i nvswitch"
)


def ready(facts: Facts) -> Check:
    """Whether every card that tells of a fabric is registered with it.

    A card on which CUDA worked in this very state, or that somebody uses, can be used by pods: then it is a remark.
    Cards in MIG mode use no NVLink and are left out.
    """
    if facts.driver is None:
        return unknown(NAME, "AwaitingAnswer", "NVML tells of NVLink's fabric, and does not answer", needed=False)
    cards = facts.driver.cards
    told = [a for a in facts.held if a in cards and cards[a].fabric and not cards[a].mig_enabled]
    bad = [a for a in told if cards[a].fabric != COMPLETED or cards[a].fabric_error]
    if not told:
        return ok(NAME, "no card tells of a fabric of NVLink")
    if not bad:
        return ok(NAME, f"NVLink's fabric is ready for {len(told)} cards")
    answers = facts.cuda or {}
    needed = not all((tried := answers.get(address)) and (tried.works or tried.in_use) for address in bad)
    first = cards[bad[0]]
    state = f"{first.fabric}{f': {first.fabric_error}' if first.fabric_error else ''}"
    where = "every card" if len(bad) == len(told) > 1 else several(bad)
    said = f"NVLink's fabric is not ready for {where} ({state}), so CUDA answers 802 there; {MANAGER}"
    unfinished = all(cards[address].fabric != COMPLETED for address in bad)
    if unfinished and not facts.fabric_due:
        return unknown(NAME, "AwaitingFabric", f"{said}. It may still be starting", needed=needed)
    whole = len(bad) == len(facts.held)
    made = failed(NAME, "FabricIncomplete", said, *(() if whole else bad))
    return made if needed else aside(made)
