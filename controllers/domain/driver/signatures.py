"""Whether a kernel takes modules that were compiled on its node, which nobody has signed. Pure."""

from __future__ import annotations

from typing import Final

LOCKED: Final = ("integrity", "confidentiality")
"""Modes of lockdown in which the kernel takes signed modules alone."""


def refuses_unsigned(secure_boot: bool | None, lockdown: str) -> str:
    """Why the kernel refuses them, and what to do; empty where it takes them, or nobody knows.

    Of an image that somebody names in an override it is not asked: its modules may be signed.
    """
    if not secure_boot and lockdown not in LOCKED:
        return ""
    why = "Secure Boot is on" if secure_boot else f"the kernel is locked down ({lockdown})"
    return (
        f"{why}, and modules that are compiled on the node are not signed: set spec.mode to Precompiled where there is "
        "an image for its kernel, switch Secure Boot off, or name an image of yours in spec.image.overrides whose "
        "modules are signed"
    )
