"""A card's family and number formats by its CUDA compute capability. Data.

From NVIDIA's CUDA C++ Programming Guide (throughput of arithmetic instructions, input types
of tensor cores). A capability that is not here says nothing: a guess could admit a workload
that then computes in software or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controllers.api.gpudevice import ComputeCapability

_MAXWELL = ("fp64", "fp32")
_PASCAL = ("fp64", "fp32", "fp16")
_TURING = ("fp64", "fp32", "fp16", "int8", "int4")
_AMPERE = ("fp64", "fp32", "tf32", "bf16", "fp16", "int8", "int4")
_ADA = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4")
_HOPPER = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
_BLACKWELL = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8")

# (major, minor): family as GPU feature discovery spells it, formats in hardware
CAPABILITIES: Final[dict[tuple[int, int], tuple[str, tuple[str, ...]]]] = {
    (5, 0): ("maxwell", _MAXWELL),
    (5, 2): ("maxwell", _MAXWELL),
    (5, 3): ("maxwell", _PASCAL),
    (6, 0): ("pascal", _PASCAL),
    (6, 1): ("pascal", (*_PASCAL, "int8")),
    (6, 2): ("pascal", _PASCAL),
    (7, 0): ("volta", _PASCAL),
    (7, 2): ("volta", (*_PASCAL, "int8")),
    (7, 5): ("turing", _TURING),
    (8, 0): ("ampere", _AMPERE),
    (8, 6): ("ampere", _AMPERE),
    (8, 7): ("ampere", _AMPERE),
    (8, 9): ("ada-lovelace", _ADA),
    (9, 0): ("hopper", _HOPPER),
    (10, 0): ("blackwell", _BLACKWELL),
    (10, 3): ("blackwell", _BLACKWELL),
    (12, 0): ("blackwell", _BLACKWELL),
    (12, 1): ("blackwell", _BLACKWELL),
}


def family(capability: ComputeCapability | None) -> str | None:
    """The card's family, such as hopper."""
    row = CAPABILITIES.get((capability.major, capability.minor)) if capability else None
    return row[0] if row else None


def formats(capability: ComputeCapability | None) -> tuple[str, ...] | None:
    """The number formats that the card computes in hardware; None where the table does not know."""
    row = CAPABILITIES.get((capability.major, capability.minor)) if capability else None
    return row[1] if row else None
