"""A terminal for the commands of a page: bash, in a folder with the page's files, against one cluster."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tools.docs.markdown import Step, blocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sim.controlplane import ControlPlane

COMMAND_SECONDS: Final = 240.0
SETTLED_SECONDS: Final = 180.0
"""How long what a command that only reads prints may take to become what the page says."""
QUIET_SECONDS: Final = 1.5
POLL_SECONDS: Final = 0.2
_CHANGES: Final = re.compile(
    r"\b(apply|create|(?<!--for=)delete|annotate|label|scale|patch|taint|cordon|uncordon|drain|edit|replace"
    r"|rollout restart|assign|unassign|exec|run)\b"
)
_VARYING: Final = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"-[0-9a-f]{8,10}-[a-z0-9]{5}\b"), "-<pod>"),
    (re.compile(r"(?<=[a-z])-[bcdfghjklmnpqrstvwxz2456789]{5}\b(?=\s|$|\.|,)"), "-<pod>"),
    (re.compile(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)\b|\b\d+[mhd]\b"), "<age>"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+(?::\d+)?\b(?!\.)"), "<address>"),
    (re.compile(r"<age>(?: \(x\d+ over <age>\))?"), "<age>"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
)


def normal(text: str) -> str:
    """The text without what differs from run to run: times, ages, generated names, addresses, widths of columns."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text.strip()


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where the commands of one page are typed."""

    plane: ControlPlane
    root: Path
    """The repository: `python -m …` finds its packages there."""
    folder: Path

    @classmethod
    def of(cls, plane: ControlPlane, root: Path, folder: Path, page: str) -> Terminal:
        """A terminal in a folder with the files that the page names."""
        folder.mkdir(parents=True, exist_ok=True)
        for block in blocks(page):
            if (name := block.named("file")) is not None:
                (folder / name).write_text(block.text, encoding="utf-8")
        return cls(plane, root, folder)

    def typed(self, command: str) -> str:
        """What the command prints, errors among it; a status other than 0 is no error here: pages show refusals."""
        environment = os.environ | {
            "KUBECONFIG": str(self.plane.kubeconfig),
            "PATH": f"{self.root / '.venv' / 'bin'}:{self.plane.kubectl.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.root),
            "COLUMNS": "160",
            "NO_COLOR": "1",
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return "\n".join(line.rstrip() for line in done.stdout.splitlines())

    def said(self, step: Step) -> str:
        """What the command prints, once it is what the page says; at the latest after SETTLED_SECONDS."""
        return self._until(step, lambda output, _: normal(output) == normal(step.output))

    def settled(self, step: Step) -> Step:
        """The command with what it prints when that has not changed for a moment."""
        output = self._until(step, lambda _, quiet: quiet >= QUIET_SECONDS)
        return step if normal(output) == normal(step.output) else Step(step.command, output)

    def _until(self, step: Step, done: Callable[[str, float], bool]) -> str:
        """`done` is asked with what is printed, and for how many seconds that has been the same."""
        began = since = time.monotonic()
        output = self.typed(step.command)
        while _repeatable(step.command, output) and not done(output, time.monotonic() - since):
            if time.monotonic() - began > SETTLED_SECONDS:
                break
            time.sleep(POLL_SECONDS)
            before, output = output, self.typed(step.command)
            if normal(before) != normal(output):
                since = time.monotonic()
        return output


def _repeatable(command: str, output: str) -> bool:
    """Whether the command may be typed again: it only reads, or was refused and has changed nothing.

    `kubectl wait --for=delete` only reads. It prints "condition met", or nothing if the object was gone before. Typed
    again it prints nothing.
    """
    return not _CHANGES.search(command) or "denied the request:" in output
