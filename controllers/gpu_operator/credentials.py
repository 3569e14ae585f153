"""What of an environment or of arguments may be a credential, which no object of this module may hold. Pure.

Whoever may read a ModuleConfig or a GPUDriver reads all of it: rather one too many is left out than one too few.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(
    r"TOKEN|PASSW|PASSPHRASE|SECRET|CREDENTIAL|PRIVATE|BEARER|API_?KEY|ACCESS_?KEY|(^|_)(AUTH|KEY|PASS|PWD)(_|$)"
)
_PLACE: Final = re.compile(r"_(FILE|PATH|DIR)$")
"""Of a variable that names where something is."""
_VALUE: Final = re.compile(r"://[^/\s]*@|\b(bearer|basic)\s+\S", re.IGNORECASE)
"""A URL with a user, or the value of a header."""


def may_be_secret(name: str, value: str) -> bool:
    """Whether the value of a variable may be a credential."""
    key = name.upper()
    return bool(value) and bool(_VALUE.search(value) or (_NAME.search(key) and not _PLACE.search(key)))


def suspects(args: list[str]) -> list[str]:
    """The arguments that may hold a credential, or go before one; of each its flag alone."""
    made: list[str] = []
    for arg in args:
        flag = arg.partition("=")[0] if arg.startswith("-") else ""
        if may_be_secret(flag.strip("-").replace("-", "_"), arg):
            made.append(flag or "an argument")
    return made
