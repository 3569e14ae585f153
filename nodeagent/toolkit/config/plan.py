"""What is to be done to a node's files, whatever its container runtime, and what NVIDIA's handlers are. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import basename, dirname
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.toolkit.config.effective import Handler

PROGRAM: Final = "nvidia-container-runtime"
HANDLERS: Final = {"nvidia": PROGRAM, "nvidia-cdi": f"{PROGRAM}.cdi"}
"""Names of handlers, as RuntimeClasses name them, and the toolkit's program of each."""
FOLDER: Final = "/usr/local/nvidia/toolkit"
"""Where NVIDIA's installer puts the toolkit's programs on the host."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file: its content before and after; None where it is not there."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes of files, and the handlers with which the runtime is to run then."""

    changes: tuple[Change, ...] = ()
    handlers: tuple[Handler, ...] = ()
    """Ours, which the runtime then has to run with."""
    cdi: bool = False
    """Whether CDI is on by us."""
    awaits_bashible: bool = False
    """Whether it is for somebody else to put it into force: bashible."""
    foreign: str = ""
    """The program of a handler `nvidia` that is somebody else's: then nothing of ours is written."""


class Refused(Exception):
    """The node cannot be worked with as it is; the text says why, and what a person may do."""


class ByHand(Refused):
    """The node's runtime is of a kind that is configured by people alone."""


def somebody_elses(known: Mapping[str, str], nameless: str) -> str:
    """The program of a handler `nvidia` that is not ours; empty where there is none. Raises Refused as `of_nvidia`.

    `known`: the program of each handler by its name; `nameless`: what runs where a handler names none.
    """
    program = known.get("nvidia")
    return "" if program is None or dirname(program) == FOLDER else of_nvidia(program, nameless)


def of_nvidia(program: str, nameless: str = "") -> str:
    """The program of somebody else's handler `nvidia`; raises Refused where it is not NVIDIA's runtime."""
    if basename(program) != PROGRAM:
        told = repr(program) if program else nameless
        raise Refused(f"a handler nvidia runs {told}: rename it, or make it run {PROGRAM}")
    return program
