"""The one exception that a person is meant to read.

Whatever a user can cause or repair (a missing tool, a taken directory, a program that
does not start) is raised as :class:`UserError`; the command line prints it without a
stack trace. Everything else is a bug of ours and keeps its trace.
"""

from __future__ import annotations


class UserError(Exception):
    """A failure with its three parts: what was found, what was expected, what to do."""

    def __init__(self, found: str, *, expected: str = "", do: str = "") -> None:
        """Keep the parts and join those that are there into the message."""
        self.found = found
        self.expected = expected
        self.do = do
        parts = [found]
        if expected:
            parts.append(f"expected: {expected}")
        if do:
            parts.append(f"what to do: {do}")
        super().__init__("\n".join(parts))
