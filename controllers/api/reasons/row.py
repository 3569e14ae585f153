"""A row of the catalogue of reasons: what one reason of a condition means, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING: Final = "nothing"
"""The cure of what needs none."""
_LINK: Final = re.compile(r"\[([^]]*)\]\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Row:
    """One or more reasons that mean the same, of one or more conditions; names of each are parted by spaces."""

    kinds: str
    statuses: str
    reasons: str
    meaning: str
    """What it means; Markdown, as the cure is."""
    cure: str
    """What to do; it stands alone, since kubectl prints it without the rows around it."""
    lasting: bool = False
    """Of a pool that is closed: it stays so until its administrator does something; else it opens by itself."""

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Each condition, status and reason that the row is about."""
        for kind in self.kinds.split():
            for status in self.statuses.split():
                for reason in self.reasons.split():
                    yield kind, status, reason

    def spoken(self, **about: str) -> str:
        """The cure for a terminal, with names in place of `<node>`, `<card>`, `<pool>`; empty where none is needed."""
        if self.cure == NOTHING:
            return ""
        text = _plain(self.cure)
        for name, value in about.items():
            text = text.replace(f"<{name}>", value)
        return text

    @property
    def spoken_meaning(self) -> str:
        """The meaning for a terminal."""
        return _plain(self.meaning)


def _plain(text: str) -> str:
    """The text without Markdown: of a link its words and its page."""
    return _LINK.sub(lambda found: f"{found[1]} (docs/{found[2].partition('#')[0]})", text).replace("`", "")
