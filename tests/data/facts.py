"""The facts of real machines: one file for each dump that somebody published, read by its name.

`nodes` gives what a dump tells of nodes, `read` everything that its file keeps. The README beside this says what that
is, where it comes from and how it is written anew.
"""

from __future__ import annotations

import copy
import json
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from tests.data.told import Told, from_json

HERE = Path(__file__).resolve().parent


def dumps(*patterns: str) -> list[str]:
    """The names of all dumps that fit one of the patterns, such as `nvidia_smi/*.xml`."""
    found = (path.relative_to(HERE).as_posix().removesuffix(".json") for path in HERE.glob("*/*.json"))
    return sorted(name for name in found if any(fnmatch(name, pattern) for pattern in patterns))


def of_nodes() -> list[str]:
    """The names of the dumps that may speak of nodes; of some it is known that they speak of none."""
    return [dump for dump in dumps("*") if "nodes" in _read(dump)]


def read(dump: str) -> dict[str, Any]:
    """What the file of a dump keeps; the caller's own."""
    return copy.deepcopy(_read(dump))


def nodes(dump: str) -> list[Told]:
    """The nodes of which a dump speaks."""
    return [node for entry in read(dump)["nodes"] for node in from_json(entry, dump)]


@cache
def _read(dump: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{dump}.json").read_text())
    return found
