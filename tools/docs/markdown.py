"""The fenced blocks of a Markdown page, and the comments before a block that say what it is for.

Comments on the lines before a fence are its markers; a reader does not see them:

    <!-- file: pool.yaml -->          the YAML is also a file that the page's commands name
    <!-- part of: container -->       the YAML is a part; see tests/docs/parts.py for the whole
    <!-- refused: InvalidMIGProfile -->   the API server is to refuse it with this word
    <!-- run -->                      each `$ command` of the console block is run, and prints what follows it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FENCE: Final = re.compile(
    r"^(?P<markers>(?:<!-- [^\n]+? -->\n)*)(?P<fence>```)(?P<language>[a-z]*)[ \t]*\n(?P<text>.*?)^```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_MARKER: Final = re.compile(r"<!-- (.+?) -->")
_PROMPT: Final = "$ "


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    """Of the fence, from 1."""
    markers: tuple[str, ...] = ()
    """The texts of the comments on the lines before, such as `file: pool.yaml`."""
    start: int = 0
    end: int = 0
    """Where its text stands in the page."""

    def named(self, kind: str) -> str | None:
        """What a marker says after `kind:`; None where there is none of that kind."""
        return next((one.partition(":")[2].strip() for one in self.markers if one.startswith(f"{kind}:")), None)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a console block and what it prints."""

    command: str
    output: str


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("fence")) + 1
        markers = tuple(_MARKER.findall(found["markers"]))
        yield Block(found["language"], found["text"], line, markers, found.start("text"), found.end("text"))


def without_blocks(text: str) -> str:
    """The page's prose: as many lines, the fenced ones empty."""
    return _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)


def steps(text: str) -> list[Step]:
    """The commands of a console block; a line that ends in a backslash goes on in the next."""
    found: list[Step] = []
    command: str | None = None
    output: list[str] = []
    continued = False
    for line in text.splitlines():
        if continued and command is not None:
            command += f"\n{line}"
        elif line.startswith(_PROMPT):
            if command is not None:
                found.append(Step(command, _ended(output)))
            command, output = line.removeprefix(_PROMPT), []
        else:
            output.append(line)
            continue
        continued = line.endswith("\\")
    if command is not None:
        found.append(Step(command, _ended(output)))
    return found


def written(done: Sequence[Step]) -> str:
    """A console block of these steps; an empty line comes before each command that follows an output."""
    parts: list[str] = []
    for step in done:
        if parts and not parts[-1].startswith(_PROMPT):
            parts.append("")
        parts.append(_PROMPT + step.command)
        parts += step.output.splitlines()
    return "".join(f"{part}\n" for part in parts)


def _ended(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n")
