"""The checks of role `container`: does a container of NVIDIA's runtime see the cards? From within one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent.validate.checks import cuda, devices, fabric
from nodeagent.validate.checks.driver import bound, cards, module
from nodeagent.validate.checks.libraries import library
from nodeagent.validate.checks.nvml import answers

if TYPE_CHECKING:
    from nodeagent.validate.checks.check import Check
    from nodeagent.validate.checks.facts import Facts

RUNTIME, CDI, NONE = "runtime", "cdi", "none"


def checks(facts: Facts) -> tuple[Check, ...]:
    """All of them; the causes before their effects."""
    hint = "the container has no utility or compute libraries: see NVIDIA_DRIVER_CAPABILITIES and the toolkit"
    return (
        cards(facts),
        module(facts),
        bound(facts),
        devices.inside(facts),
        library(facts, "in the container", hint),
        answers(facts),
        fabric.ready(facts),
        *cuda.unsure(facts),
        cuda.works(facts),
        devices.specification(facts),
    )


def injection(facts: Facts) -> str:
    """Which way the devices came into this container."""
    if devices.CONTROL not in (facts.nodes or {}):
        return NONE
    return CDI if facts.by_cdi else RUNTIME


def persistence(facts: Facts) -> str:
    """Persistence mode of the cards: on, off, mixed; empty where it is not known."""
    known = {card.persistence for card in (facts.driver.cards.values() if facts.driver else ())} - {None}
    return "" if not known else "mixed" if len(known) > 1 else "on" if True in known else "off"
