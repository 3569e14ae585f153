"""Which PCI functions are GPU cards. Pure.

The catalogue knows vendors and classes: NVSwitches (0680), sound (0403), USB and UCSI functions
of cards, and displays of other vendors are none. What it cannot know is decided here from the
function's place: a virtual function is a part of a card, and Intel's processors have their own
display always at 00:02.0. A card bound to vfio-pci, or to nothing, is a card.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.catalogue import is_card

if TYPE_CHECKING:
    from nodeagent.host.facts.records import Bus, PciFunction

INTEL = "8086"
_PROCESSORS_OWN = ":00:02.0"
_DISPLAYS = ("03", "12")
_NVIDIA, _BRIDGE = "10de", "0680"


def cards(bus: Bus) -> tuple[PciFunction, ...]:
    """The cards of a bus."""
    return tuple(function for function in bus.functions if is_one(function))


def is_one(function: PciFunction) -> bool:
    """Whether a function is a card."""
    if function.physical_function:
        return False
    if function.vendor == INTEL and function.address.endswith(_PROCESSORS_OWN):
        return False
    return is_card(function.vendor, function.device, function.class_[:4])


def others(bus: Bus) -> tuple[PciFunction, ...]:
    """Displays and accelerators that are no cards: what a person may have taken for one."""
    return tuple(f for f in bus.functions if f.class_.startswith(_DISPLAYS) and not is_one(f))


def has_nvswitch(bus: Bus) -> bool | None:
    """Whether an NVSwitch is on the bus; None where none is seen and a function's ids could not be read.

    From Blackwell on the switches of a machine are not on its bus, which has network cards for them.
    """
    found = any((function.vendor, function.class_[:4]) == (_NVIDIA, _BRIDGE) for function in bus.functions)
    return True if found else None if bus.unclear else False
