"""Image overrides of a GPUDriver: which of them is for a node. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriverSpec, ImageOverride


def override_for(spec: GPUDriverSpec, system: str, kernel: str) -> ImageOverride | None:
    """The first override for that system and kernel."""
    return next(
        (one for one in spec.image.overrides if one.system == system and matches_kernel(one.kernel, kernel)), None
    )


def names_system(spec: GPUDriverSpec, system: str) -> bool:
    """Whether an override is for some kernel of that system."""
    return any(one.system == system for one in spec.image.overrides)


def is_for_one_kernel(override: ImageOverride) -> bool:
    """Whether it names a whole release: an image with modules in it serves one kernel alone."""
    return "*" not in override.kernel


def matches_kernel(pattern: str, kernel: str) -> bool:
    """Whether a kernel's release fits a pattern in which `*` stands for any text.

    Each piece is looked for once, from the left: no pattern makes this slow, as a regular expression could be.
    """
    first, *pieces = pattern.split("*")
    if not pieces:
        return kernel == first
    *middle, last = pieces
    at = len(first)
    if not kernel.startswith(first):
        return False
    for piece in middle:
        found = kernel.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(kernel) - len(last) >= at and kernel.endswith(last)
