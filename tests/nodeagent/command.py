"""The node agent's command line, as a person types it."""

from __future__ import annotations

import subprocess
import sys

from tests.kit.waiting import PATIENCE
from tests.nodeagent.discover.node import ROOT


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    """`nodeagent` with these arguments in a bare environment: its exit status, and all that it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "nodeagent", *arguments],
        env={"PATH": "/usr/bin:/bin", **environment},
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.returncode, (done.stdout + done.stderr).decode()
