"""Hosts whose files cannot be written, and how their vendors have NVIDIA's toolkit on them instead."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nodeagent.toolkit.host import Host

RELEASE: Final = ("/etc/os-release", "/usr/lib/os-release")
_ID: Final = re.compile(r"^ID=[\"']?([a-z0-9._-]+)", re.MULTILINE)
VENDORS: Final = {
    "talos": "Talos has it as system extensions of its image: nvidia-container-toolkit and kernel modules",
    "bottlerocket": "Bottlerocket has it in its variants whose names end in -nvidia",
    "flatcar": "Flatcar has it as a system extension (systemd-sysext) with NVIDIA's runtime",
}
"""What each vendor offers, by ID of os-release."""
OTHERS: Final = "tell its runtime of NVIDIA's as the system's vendor says"


def is_read_only(host: Host, path: str) -> bool:
    """Whether a path of the host could not be written, since it lies on a file system that is mounted read-only."""
    here = PurePosixPath(path)
    while not host.at(str(here)).exists() and here.parent != here:
        here = here.parent
    try:
        return bool(os.statvfs(host.at(str(here))).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def read_only_advice(host: Host) -> str:
    """What a person is told of a host whose files are read-only."""
    text = next((content.decode(errors="replace") for path in RELEASE if (content := host.read(path))), "")
    found = _ID.search(text)
    return f"the host's files are read-only, so nothing is written: {VENDORS.get(found[1] if found else '', OTHERS)}"
