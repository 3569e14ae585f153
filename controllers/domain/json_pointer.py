"""JSON pointers (RFC 6901), by which the operations of a JSON patch name a place. Pure."""

from __future__ import annotations


def pointer(*parts: str) -> str:
    """The pointer to a place, by the names on the way to it."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
