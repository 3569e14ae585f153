"""Versions of the module's settings: what becomes of settings that were written for an earlier one. Pure.

Deckhouse converts a ModuleConfig by `openapi/conversions/v<N>.yaml` for itself and leaves the stored object as it is;
our webhook and processes read that object, so they convert too. A test runs Deckhouse's expressions beside these.
"""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from typing import Any, Final

RETIRED: Final = {2: ("nodeAgent.discover.runtimeClassName", "nodeAgent.discover.askRuntime")}
"""Settings that a version no longer has, by their paths. A setting that moves would need more than this."""
LATEST: Final = max(RETIRED)


def retired(settings: dict[str, Any], version: int) -> tuple[str, ...]:
    """The settings of an earlier version that stand in these, and say nothing any more."""
    return tuple(path for path in _gone(version) if _holds(settings, path))


def convert(settings: dict[str, Any], version: int) -> dict[str, Any]:
    """Settings of a version as the latest one has them."""
    made = deepcopy(settings)
    for path in retired(settings, version):
        *groups, key = path.split(".")
        del reduce(lambda group, name: group[name], groups, made)[key]
    return made


def _gone(version: int) -> tuple[str, ...]:
    return tuple(path for since, paths in RETIRED.items() if since > version for path in paths)


def _holds(settings: Any, path: str) -> bool:
    here = settings
    for key in path.split("."):
        if not isinstance(here, dict) or key not in here:
            return False
        here = here[key]
    return True
