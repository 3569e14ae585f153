"""References of container images: `<path>:<tag>`, `<path>@<digest>`. Pure."""

from __future__ import annotations

from typing import Final

PATH: Final = r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
DIGEST: Final = r"sha256:[0-9a-f]{64}"


def split_reference(reference: str) -> tuple[str, str | None]:
    """Path and version of an image's reference; the version is a tag, a digest, or a tag with its digest."""
    named, _, digest = reference.partition("@")
    path, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:  # the colon of a port
        return named, digest or None
    return path, f"{tag}@{digest}" if digest else tag
