"""YAML that others wrote on the host: plain values, or one error. Pure."""

from __future__ import annotations

from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RAISED: Final = (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What the reader raises at text that is none: its own errors, and whatever the makers of its values stumble over, as
KeyError for `!!bool x`, IndexError for `!!int ''` and AttributeError for `!!timestamp x`."""


class NotYAMLError(ValueError):
    """The text cannot be read as YAML."""


def parse(text: str) -> Any:
    """What a text says, JSON included; None where it says nothing. Raises NotYAMLError, and no other error."""
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe one
    except _RAISED as error:
        raise NotYAMLError(str(error)) from None
