"""What the node agent's validators say, in feature `gpu.validation` of NodeFeature `gpu-<node>`.

Two validators write there, each its own keys: `driver` (on the host) and `container` (in a
container that NVIDIA's runtime started). A role's verdict stands under its name, what belongs to
it under `<role>.<key>`. All values are strings, and a key that has nothing to say is not there.

What NVML tells of each card, `container` writes in instance feature `gpu.nvml` beside: the attributes of
`gpu.device`, with `boot_id`, `version` and `load` as below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping

DRIVER: Final = "driver"
CONTAINER: Final = "container"
ROLES: Final = (DRIVER, CONTAINER)

OK: Final = "ok"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"

REASON: Final = "reason"
"""A word for the first trouble, of the node or of one card; may stand beside `ok`."""
MESSAGE: Final = "message"
"""The sentence to it: what was found, what was expected, what to do."""
BOOT_ID: Final = "boot_id"
"""The boot in which this was found; from another boot it says nothing."""
VERSION: Final = "version"
"""Version of the loaded kernel module."""
CARDS: Final = "cards"
"""How many cards passed."""
CARDS_FAILED: Final = "cards_failed"
"""Addresses of cards that fail alone, comma-separated: the verdict is about the rest."""
CHECKS_FAILED: Final = "checks_failed"
"""Names of the checks that failed, for the node or for a card, comma-separated."""
CHECKS_UNKNOWN: Final = "checks_unknown"
"""Names of the checks that could not be made."""
LOAD: Final = "load"
"""A word for the loading of the module that no other one of the same boot has, as `migApply.driverLoad`; also in
`gpu.driver`. Not there where the kernel does not show it."""
MODULE: Final = "module"
"""Of `driver`: open or proprietary."""
ACCESS: Final = "access"
"""Of `driver`: minors of the device nodes that give access to MIG instances, comma-separated."""
ENDED_FOR: Final = "ended_for"
"""Of `container`: a mark of the device nodes for want of which it ended itself, so that it was made anew; while they
are lacking it does not end for them again."""
INJECTION: Final = "injection"
"""Of `container`: how its devices came: runtime, cdi, none."""
CDI: Final = "cdi"
"""Of `container`: the host's CDI specification for the cards: ok, failed, absent."""
PERSISTENCE: Final = "persistence"
"""Of `container`: persistence mode of the cards: on, off, mixed."""
CUDA_VERSION: Final = "cuda_version"
"""Of `container`: the newest CUDA that the driver serves, as NVML tells."""
CUDA: Final = "cuda"
"""Of `container`: marks of the cards on which CUDA worked, comma-separated; under its mark none is tried again."""


@record
class Validation:
    """The verdict of one role, as read from a report."""

    result: str = UNKNOWN
    reason: str = ""
    message: str = ""
    boot_id: str = ""
    version: str = ""
    cuda_version: str = ""
    cards: int = 0
    cards_failed: tuple[str, ...] = ()

    def cut(self, most: int) -> Validation:
        """The same with a sentence of so many characters at most: a program on a node wrote it."""
        return replace(self, message=self.message[:most])


def key(role: str, name: str) -> str:
    """The attribute of a role."""
    return f"{role}.{name}"


def of_role(elements: Mapping[str, str], role: str) -> dict[str, str]:
    """What a role owns of the feature."""
    return {name: value for name, value in elements.items() if name == role or name.startswith(f"{role}.")}


def read(elements: Mapping[str, str], role: str) -> Validation | None:
    """The verdict of a role; None where it has not spoken. What is no verdict counts as unknown."""
    result = elements.get(role)
    if result is None:
        return None

    def element(name: str) -> str:
        return elements.get(key(role, name), "")

    cards = element(CARDS)
    return Validation(
        result=result if result in (OK, FAILED) else UNKNOWN,
        reason=element(REASON),
        message=element(MESSAGE),
        boot_id=element(BOOT_ID),
        version=element(VERSION),
        cuda_version=element(CUDA_VERSION),
        cards=int(cards) if cards.isascii() and cards.isdigit() and len(cards) <= len("9999") else 0,
        cards_failed=tuple(address for address in element(CARDS_FAILED).split(",") if address),
    )
