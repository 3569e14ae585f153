"""What the golden table gives by hand to a dump that does not print it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.data.told import Told


def given(told: Told, facts: Mapping[str, Any]) -> Told:
    """The dump with what the table gives; a fact that the dump itself contains is refused."""
    unknown = facts.keys() - {"class", "driver"}
    assert not unknown, f"{told.dump}: {unknown} cannot be given"
    if "class" in facts:
        assert not any(card.class_ for card in told.cards or ()), f"{told.dump} tells the class itself"
        cards = tuple(replace(card, class_=facts["class"]) for card in told.cards or ())
        told = replace(told, cards=cards)
    if "driver" in facts:
        assert told.driver is None, f"{told.dump} tells the driver's version itself"
        told = replace(told, driver=facts["driver"])
    return told
