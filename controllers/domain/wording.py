"""Wording of conditions and Events: lists of names, and a message as a sentence. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controllers.api import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHOWN = 5
"""Things that a sentence names one by one."""
_COMMAND_AT_THE_END = re.compile(r"(^|[:;,] )kubectl [^,;:]*$")


def listed(items: Iterable[str], shown: int = SHOWN) -> str:
    """The first few, and how many more there are."""
    found = list(items)
    rest = len(found) - shown
    return ", ".join(found[:shown]) + (f" and {rest} more" if rest > 0 else "")


def short(text: str) -> str:
    """A name that somebody else chose, fit for a sentence."""
    return text if len(text) <= names.LABEL_VALUE_MAX else text[: names.LABEL_VALUE_MAX] + "…"


def counted_pods(pods: Sequence[str]) -> str:
    """Pods in a sentence: `2 pods (team/a, team/b)`."""
    return f"{len(pods)} pod{'s' if len(pods) != 1 else ''} ({listed(pods)})"


def format_message(text: str) -> str:
    """The text with a capital and a full stop, as a sentence that stands alone has them.

    A command keeps its spelling, and one at the end gets no stop that somebody would copy.
    """
    text = text.strip()
    if not text:
        return text
    # A name stays as it is spelled; only a plain word gets its capital.
    head = text.split(maxsplit=1)[0]
    text = text[0].upper() + text[1:] if head.isalpha() and head.islower() and head != "kubectl" else text
    return text if text[-1] in ".!?…" or _COMMAND_AT_THE_END.search(text) else f"{text}."
