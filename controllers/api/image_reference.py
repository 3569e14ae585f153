"""References of container images: `<path>:<tag>`, `<path>@<digest>`. Pure."""

from __future__ import annotations


def split_reference(reference: str) -> tuple[str, str | None]:
    """Path and version of an image's reference; the version is a tag, a digest, or a tag with its digest."""
    named, _, digest = reference.partition("@")
    path, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:  # the colon of a port
        return named, digest or None
    return path, f"{tag}@{digest}" if digest else tag
