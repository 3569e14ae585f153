"""How agreement is shown: a table of the three questions, and what the pods were refused for."""

from __future__ import annotations

import json
from typing import Any, Final

from rich.table import Table

from reliability.kit.report import console, hardware, verdict

WIDTH: Final = 110
QUESTIONS: Final = {
    "bound": "bound or not",
    "node": "its node is among those that fit",
    "reasons": "as many nodes lack the same",
}


def show(found: dict[str, Any], output: str) -> None:
    """Print what was found, for people or (json) for programs."""
    if output == "json":
        print(json.dumps(found, indent=1))
        return
    screen = console(WIDTH)
    title = f"{found['pods']} pods on the real scheduler, seed {found['sizes']['seed']}; {hardware(found['machine'])}"
    table = Table(title=title, title_justify="left")
    for column in ("question", "asked", "differ", "agree", "bar", ""):
        table.add_column(column, justify="left" if column in ("question", "") else "right")
    for row in found["rows"]:
        table.add_row(
            QUESTIONS[row["question"]],
            str(row["asked"]),
            str(row["differ"]),
            f"{row['share']:.3%}",
            f"{row['bar']:.1%}",
            verdict("met" if row["met"] else "missed"),
        )
    screen.print(table)
    screen.print(
        f"{found['bound']} were bound; of {found['unknown']} something decides that no verdict looks at. "
        f"Refused for, pods:"
    )
    for reason, pods in found["reasons"].items():
        screen.print(f"  {pods:6} {reason}", markup=False)
    for line in found["differences"]:
        screen.print(line, markup=False)
