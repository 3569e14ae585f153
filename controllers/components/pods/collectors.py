"""The exporter's own list of fields, `collectors.csv`, read and checked once at import. Pure.

The lists that come with the exporter leave out double-bit memory errors and the reasons that hold
the clocks down, which the health checks need.
"""

from __future__ import annotations

import csv
import hashlib
import re
from pathlib import Path
from typing import Final

FILE: Final = "collectors.csv"
"""The file, and the key of the ConfigMap that carries it."""
FOLDER: Final = "/etc/gpu-control-plane"
"""Where the exporter finds it; /etc/dcgm-exporter is the image's own."""
NAME: Final = re.compile("DCGM_FI_[A-Z0-9_]+")
TYPES: Final = ("gauge", "counter", "label")
"""Types of the exporter that are used here; it knows histograms and summaries too."""


def fields(text: str) -> dict[str, str]:
    """The fields with their types; raises ValueError that names the line.

    Read as the exporter does: lines that begin with `#` are comments, every other has three columns,
    of which spaces around are cut. A comma inside the help would be a fourth.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        columns = [column.strip(" ") for column in next(csv.reader([line], strict=True))]
        if len(columns) != 3 or not all(columns):  # noqa: PLR2004 - field, type, help
            raise ValueError(f"{FILE}: line {number}: expected field, type and help, found {line!r}")
        field, kind, _ = columns
        if not NAME.fullmatch(field):
            raise ValueError(f"{FILE}: line {number}: {field!r} is no field of DCGM")
        if kind not in TYPES:
            raise ValueError(f"{FILE}: line {number}: type {kind!r} is none of {', '.join(TYPES)}")
        if field in found:
            raise ValueError(f"{FILE}: line {number}: {field} is there twice")
        found[field] = kind
    return found


TEXT: Final = (Path(__file__).parent / FILE).read_text(encoding="utf-8")
FIELDS: Final = fields(TEXT)
HASH: Final = hashlib.sha256(TEXT.encode()).hexdigest()[:16]
"""What tells one version of the list from another: the exporter reads it once, when it starts."""
