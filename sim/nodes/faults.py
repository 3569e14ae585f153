"""Faults of a simulated node: data in its annotation `sim.gpu.deckhouse.io/fault`.

Several are separated by commas; removing the annotation mends the node. They can be set with
`kubectl annotate node gpu-1 sim.gpu.deckhouse.io/fault=no-driver`.

    no-driver               the driver is not loaded: NFD sees no module, discovery reports the cards without
                            what only the driver knows, and no `gpu.driver`
    no-toolkit              `gpu.toolkit` says that the container toolkit is not installed
    card-lost:<address>     the card fell off the bus: NFD and discovery do not see it, and its plugin withdraws it
    no-ack                  the device plugin changes nothing in `published`: what it offered it goes on offering
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.nodes import names

NO_DRIVER = "no-driver"
NO_TOOLKIT = "no-toolkit"
NO_ACK = "no-ack"
CARD_LOST = "card-lost:"


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with a node."""

    driver: bool = False
    toolkit: bool = False
    silent_plugin: bool = False
    lost: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    """Words that are none of the above, for the log."""


def of(annotations: Mapping[str, str]) -> Faults:
    """The faults that a node's annotations ask for."""
    words = {word.strip() for word in annotations.get(names.FAULT, "").split(",")} - {""}
    lost = {word for word in words if word.startswith(CARD_LOST)}
    return Faults(
        driver=NO_DRIVER in words,
        toolkit=NO_TOOLKIT in words,
        silent_plugin=NO_ACK in words,
        lost=frozenset(word.removeprefix(CARD_LOST).lower() for word in lost),
        unknown=tuple(sorted(words - lost - {NO_DRIVER, NO_TOOLKIT, NO_ACK})),
    )
