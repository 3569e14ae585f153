"""The name of a node's system, as tags of NVIDIA's driver images spell it. Pure."""

from __future__ import annotations

import re
from typing import Final

MAJOR_ALONE: Final = frozenset(("rhel", "rocky", "ol"))
"""Systems whose images are for a major version: rhel9, not rhel9.6 (GPU Operator, internal/state/nodepool.go)."""
SYSTEM: Final = re.compile("[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
"""What fits into a label's value and a tag."""
ARCHITECTURE: Final = re.compile("_(x86[-_]64|aarch64|arm64|amd64)$")
"""How Astra Linux ends its version: 1.8_x86-64. Images have one tag for all architectures."""


def system_of(os_id: str, version_id: str) -> str:
    """`<ID><VERSION_ID>` of os-release, such as ubuntu24.04 or rhel9; empty where it says neither or nonsense.

    Systems that are rolled have no VERSION_ID, and their ID alone stands for them.
    """
    name = os_id.strip().lower()
    version = ARCHITECTURE.sub("", version_id.strip().lower())
    if name in MAJOR_ALONE:
        version = version.partition(".")[0]
    system = f"{name}{version}"
    return system if name and SYSTEM.fullmatch(system) else ""
