"""What the command lines of bench and soak share: the folder, counts, and how a person's mistake is printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tools.errors import UserError

RUN = Path(".run")


def count(text: str) -> int:
    """Parse a whole number, 0 or more; raises ArgumentTypeError."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"a number is 0 or more, got {text!r}")
    return int(text)


def run(command: Callable[[], int]) -> int:
    """Run a command; returns the exit status. A user's mistake is a sentence, not a trace."""
    try:
        return command()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; what was started has ended", file=sys.stderr)
        return 130
