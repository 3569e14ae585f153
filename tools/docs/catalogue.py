"""The catalogue of reasons as tables of docs/conditions.md, and as types for the type checker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controllers.api import reasons

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.reasons.row import Row

WORDS: Final = "controllers/api/reasons/typed.py"
_HEAD: Final = """| condition | status | reason | what it means | what to do |
|---|---|---|---|---|"""
_MODULE: Final = (
    '"""Reasons as types, made from the rows beside by `python -m tools.docs`: no other word can be spelled."""'
)


def table(rows: Iterable[Row]) -> str:
    """The rows as a table of Markdown."""
    return "\n".join((_HEAD, *map(_line, rows)))


def _line(row: Row) -> str:
    names = (", ".join(f"`{name}`" for name in cell.split()) for cell in (row.kinds, row.statuses, row.reasons))
    texts = (_on_the_site(text).replace("|", r"\|") for text in (row.meaning, row.cure))
    return f"| {' | '.join((*names, *texts))} |"


def _on_the_site(text: str) -> str:
    """The text with links to other pages of docs/ as Deckhouse's site addresses them."""
    return re.sub(r"\]\(([\w-]+)\.md", lambda link: f"](./{link[1].lower()}.html", text)


def words() -> str:
    """The module of types."""
    checks = sorted(reasons.CHECK_WORDS)
    others = [word for word in reasons.words() if word not in reasons.CHECK_WORDS]
    return f"""{_MODULE}

from __future__ import annotations

from typing import Literal

CheckWord = Literal[
{_listed(checks)}
]
\"\"\"What the node agent's validators may say.\"\"\"
Reason = Literal[
    CheckWord,
{_listed(others)}
]
\"\"\"What a condition may give as its reason.\"\"\"
"""


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f'    "{name}",' for name in names)
