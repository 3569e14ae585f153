"""Where a system keeps what the driver's container gets from outside, as GPU Operator mounts it. Pure.

Source: NVIDIA/gpu-operator, internal/state/driver_volumes.go. Of Debian, Astra Linux, ALT and RED OS, which it does not
know, these are the folders of their package programs; images for them are people's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders in the driver's container."""

    repositories: str
    """Lists of package repositories."""
    certificates: str
    """Certificates of authorities that it trusts."""


_APT: Final = Folders("/etc/apt/sources.list.d", "/usr/local/share/ca-certificates")
_YUM: Final = Folders("/etc/yum.repos.d", "/etc/pki/ca-trust/extracted/pem")
_ZYPP: Final = Folders("/etc/zypp/repos.d", "/etc/pki/trust/anchors")
_FOLDERS: Final = {
    "ubuntu": _APT,
    "debian": _APT,
    "astra": _APT,
    "altlinux": Folders("/etc/apt/sources.list.d", "/etc/pki/ca-trust/source/anchors"),
    "rhel": _YUM,
    "rocky": _YUM,
    "ol": _YUM,
    "centos": _YUM,
    "redos": _YUM,
    "sles": _ZYPP,
    "sl-micro": _ZYPP,
}
# Path in the container, path on the host, type of the volume.
SUBSCRIPTION: Final = (
    ("/run/secrets/etc-pki-entitlement", "/etc/pki/entitlement", "DirectoryOrCreate"),
    ("/run/secrets/redhat.repo", "/etc/yum.repos.d/redhat.repo", "FileOrCreate"),
    ("/run/secrets/rhsm", "/etc/rhsm", "DirectoryOrCreate"),
)
"""A RHEL host's right to its vendor's packages, which its containers need to have them as well."""


def os_of(system: str) -> str:
    """The ID in a system's word: `ubuntu` of `ubuntu24.04`."""
    found = re.match("[a-z_-]*", system)
    return found[0].rstrip("-_") if found else ""


def folders(system: str) -> Folders | None:
    """The folders of a system; None where it is none of those that NVIDIA's images are made for."""
    return _FOLDERS.get(os_of(system))
