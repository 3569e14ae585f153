"""`python -m nodeagent.toolkit.inside ROOT PROGRAM ARGUMENT…`: a program of the host, in the host's root.

A process of its own, since a root once changed cannot be changed back, and what starts it has threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/deckhouse/bin"


def run(root: Path, command: list[str], seconds: float) -> str | None:
    """What the program prints; None where it cannot be run or fails. Raises TimeoutError where it does not end.

    What it complains of is not read: it may quote a configuration.
    """
    start = [sys.executable, "-m", "nodeagent.toolkit.inside", str(root)]
    try:
        done = subprocess.run([*start, *command], capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"`{' '.join(command)}` did not end within {seconds:g} s") from None
    except (OSError, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


def main(argv: list[str]) -> None:
    """Become the program."""
    root, program = argv[0], argv[1]
    if root != "/":
        os.chroot(root)
    os.chdir("/")
    # systemctl does nothing in a changed root unless it is told that the root is the host's.
    os.execve(program, argv[1:], {"PATH": PATH, "SYSTEMD_IGNORE_CHROOT": "1"})  # noqa: S606 - no shell


if __name__ == "__main__":
    main(sys.argv[1:])
