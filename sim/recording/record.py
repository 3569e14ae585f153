"""Writes what the commands of the pages print, from a run on a cluster like that of `make up`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim import controlplane
from sim.cluster import Options, bring_up
from sim.recording.terminal import Terminal
from tools.docs.markdown import blocks, steps, written
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.controlplane import ControlPlane

PAGES: Final = ("docs/dev/getting-started.md", "docs/administration.md", "docs/troubleshooting.md")
"""The pages with commands that are run, each of which leaves the cluster as it found it."""
READY: Final = "kubectl wait gpunode --all --for=condition=ReadyForPooling --timeout=3m"
READY_SECONDS: Final = 240.0
RUN: Final = "run"


def record(root: Path, pages: Sequence[str]) -> None:
    """Run the commands of the pages and write what they print; raises UserError."""
    with tempfile.TemporaryDirectory(prefix="gpu-docs-") as scratch:
        plane = bring_up(Path(scratch) / "cluster", Options())
        try:
            for name in pages:
                path = root / name
                text = path.read_text(encoding="utf-8")
                new = recorded(plane, root, Path(scratch) / path.stem, text)
                path.write_text(new, encoding="utf-8")
                print(f"{name}: {'as it was' if new == text else 'written'}")
        finally:
            controlplane.down(Path(scratch) / "cluster")


def recorded(plane: ControlPlane, root: Path, folder: Path, text: str) -> str:
    """The page with what its commands print now."""
    terminal = Terminal.of(plane, root, folder, text)
    ready(terminal)
    moved = 0
    for block in [one for one in blocks(text) if RUN in one.markers]:
        new = written([terminal.settled(step) for step in steps(block.text)])
        text = text[: block.start + moved] + new + text[block.end + moved :]
        moved += len(new) - len(block.text)
    return text


def ready(terminal: Terminal) -> None:
    """Wait until the nodes are as a reader finds them after `make up`; raises UserError."""
    deadline = time.monotonic() + READY_SECONDS
    while "condition met" not in (said := terminal.typed(READY)):
        if time.monotonic() > deadline:
            raise UserError(f"the nodes do not become ready: {said}")
